# cython: boundscheck=False, wraparound=False
"""Products of float32 and float64 matrices, through the BLAS that NumPy links, and `linear`.

(a) A transposed matrix is a flag to BLAS: nothing is copied but what has a layout that BLAS cannot read. Results lie in
    recycled memory.
(b) Leading dimensions of what stands before one matrix are rows of it: a stack times a matrix is one product.
(c) What stands here takes arrays of one of the two dtypes; the rest is left to the functions of the declarations.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.real cimport real_type
from plugrad.backends.recycling cimport fresh
from plugrad.backends.sums cimport summable, sums
from plugrad.graph.op cimport Kernel
cimport plugrad_ops.loops  # its macros  # no-cython-lint
from plugrad_ops.linalg.blas cimport (
    ALONE_UP_TO, Matrix, enter_blas, fits, leave_blas, multiply, multiply_alone, read, read_last
)

import numpy as np

from plugrad.backends import CPU
from plugrad.backends.sums import add_reduce

cnp.import_array()

cdef Kernel dot = CPU.kernel(np.dot)  # without its warnings

cdef enum:
    MOST_DIMS = 64
    NOGIL_FROM = 65536  # multiplications: some microseconds


# ---- products ------------------------------------------------------------------------------------------------

cdef cnp.ndarray as_rows(cnp.ndarray array, bint turn):
    """The array as a matrix whose rows are all dimensions but the last, or whose columns are if `turn`."""
    cdef int nd = cnp.PyArray_NDIM(array), i
    cdef cnp.npy_intp[2] dims
    cdef cnp.PyArray_Dims shape
    if nd != 2:
        dims[0], dims[1] = 1, cnp.PyArray_DIM(array, nd - 1)
        for i in range(nd - 1):
            dims[0] *= cnp.PyArray_DIM(array, i)
        shape.ptr, shape.len = dims, 2
        array = <cnp.ndarray>cnp.PyArray_Newshape(array, &shape, cnp.NPY_CORDER)
    return <cnp.ndarray>cnp.PyArray_Transpose(array, NULL) if turn else array


cdef int product_into(
    cnp.ndarray out, cnp.ndarray a, bint turn_a, cnp.ndarray b, bint turn_b, cnp.ndarray row=None
) except -1:
    """Write the product of two arrays as matrices (see `as_rows`), which fit together, into an array in C order.

    `row`, in C order, is added to each row of it.
    """
    cdef Matrix x, y
    cdef const char *start = NULL if row is None else cnp.PyArray_BYTES(row)
    if read(a, turn_a, &x) and read(b, turn_b, &y) and fits(&x, &y):
        if x.rows * x.columns * y.columns < NOGIL_FROM:
            multiply(cnp.PyArray_TYPE(out), &x, &y, cnp.PyArray_BYTES(out), start)
        else:
            with nogil:
                multiply(cnp.PyArray_TYPE(out), &x, &y, cnp.PyArray_BYTES(out), start)
        return 0
    dot.call((as_rows(a, turn_a), as_rows(b, turn_b), as_rows(out, False)), ())
    if row is not None:
        np.add(out, row, out)
    return 0


cdef cnp.ndarray copied(cnp.ndarray array):
    """A copy in C order, which BLAS can read."""
    cdef cnp.ndarray out = fresh(cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), cnp.PyArray_TYPE(array))
    cnp.PyArray_CopyInto(out, array)
    return out


cdef cnp.ndarray readable(cnp.ndarray array):
    """A gradient that takes part in several products; a copy if BLAS cannot read it, as one that was expanded."""
    cdef Matrix matrix
    return array if read(array, False, &matrix) else copied(array)


cdef cnp.ndarray rows_times(cnp.ndarray a, cnp.ndarray matrix, bint turn, cnp.ndarray row=None):
    """``a @ matrix``, or ``a @ matrix.T``, whatever the leading dimensions of `a`, and `row` added to each row."""
    cdef int nd = cnp.PyArray_NDIM(a)
    cdef cnp.npy_intp[MOST_DIMS] dims
    cdef cnp.ndarray out
    memcpy(dims, cnp.PyArray_DIMS(a), nd * sizeof(cnp.npy_intp))
    dims[nd - 1] = cnp.PyArray_DIM(matrix, 0 if turn else 1)
    out = fresh(nd, dims, cnp.PyArray_TYPE(a))
    product_into(out, a, False, matrix, turn, row)
    return out


cdef cnp.ndarray over_rows(cnp.ndarray a, cnp.ndarray b):
    """``a.T @ b`` of two arrays whose dimensions but the last are rows."""
    cdef cnp.npy_intp[2] dims
    cdef cnp.ndarray out
    dims[0], dims[1] = cnp.PyArray_DIM(a, cnp.PyArray_NDIM(a) - 1), cnp.PyArray_DIM(b, cnp.PyArray_NDIM(b) - 1)
    out = fresh(2, dims, cnp.PyArray_TYPE(a))
    product_into(out, a, True, b, False)
    return out


# ---- stacks of matrices --------------------------------------------------------------------------------------

cdef struct Stack:
    Matrix a
    Matrix b
    Py_ssize_t *places  # of each pair, in bytes from the first: a's, b's
    char *out
    Py_ssize_t step
    int type_num
    bint alone  # a product is one thread's


cdef void multiply_pairs(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Stack *stack = <Stack *>context
    cdef Matrix a = stack.a, b = stack.b
    cdef Py_ssize_t i
    for i in range(begin, end):
        a.data, b.data = stack.a.data + stack.places[2 * i], stack.b.data + stack.places[2 * i + 1]
        if stack.alone:
            multiply_alone(stack.type_num, &a, &b, stack.out + i * stack.step, b.columns, NULL)
        else:
            multiply(stack.type_num, &a, &b, stack.out + i * stack.step, NULL)


cdef object stacked(cnp.ndarray a, bint turn_a, cnp.ndarray b, bint turn_b):
    """The products of two stacks, whose leading dimensions broadcast; None where this is left to NumPy."""
    cdef Stack stack
    cdef int nd_a = cnp.PyArray_NDIM(a) - 2, nd_b = cnp.PyArray_NDIM(b) - 2, nd = max(nd_a, nd_b), d
    cdef cnp.npy_intp[MOST_DIMS] dims
    cdef Py_ssize_t[MOST_DIMS] index
    cdef Py_ssize_t[MOST_DIMS] step_a
    cdef Py_ssize_t[MOST_DIMS] step_b
    cdef Py_ssize_t count = 1, n_a, n_b, i, work, at_a = 0, at_b = 0
    cdef int allowed
    cdef cnp.ndarray out
    if nd_a < 0 or nd_b < 0:
        return None
    if not read_last(a, turn_a, &stack.a):
        a = copied(a)
        read_last(a, turn_a, &stack.a)
    if not read_last(b, turn_b, &stack.b):
        b = copied(b)
        read_last(b, turn_b, &stack.b)
    if stack.a.columns != stack.b.rows or not fits(&stack.a, &stack.b):
        return None
    for d in range(nd):
        n_a = cnp.PyArray_DIM(a, d - nd + nd_a) if d >= nd - nd_a else 1
        n_b = cnp.PyArray_DIM(b, d - nd + nd_b) if d >= nd - nd_b else 1
        if n_a != n_b and n_a != 1 and n_b != 1:
            return None
        dims[d] = n_b if n_a == 1 else n_a
        step_a[d] = cnp.PyArray_STRIDE(a, d - nd + nd_a) if n_a > 1 else 0
        step_b[d] = cnp.PyArray_STRIDE(b, d - nd + nd_b) if n_b > 1 else 0
        index[d] = 0
        count *= dims[d]
    dims[nd], dims[nd + 1] = stack.a.rows, stack.b.columns
    stack.type_num = cnp.PyArray_TYPE(a)
    out = fresh(nd + 2, dims, stack.type_num)
    stack.out, stack.step = cnp.PyArray_BYTES(out), stack.a.rows * stack.b.columns * cnp.PyArray_ITEMSIZE(a)
    stack.places = <Py_ssize_t *>malloc(max(1, count) * 2 * sizeof(Py_ssize_t))
    if stack.places == NULL:
        raise MemoryError
    for i in range(count):
        stack.places[2 * i], stack.places[2 * i + 1] = at_a, at_b
        d = nd - 1
        while d >= 0:
            at_a += step_a[d]
            at_b += step_b[d]
            index[d] += 1
            if index[d] < dims[d]:
                break
            at_a -= step_a[d] * dims[d]
            at_b -= step_b[d] * dims[d]
            index[d] = 0
            d -= 1
    work = stack.a.rows * stack.a.columns * stack.b.columns
    with nogil:
        allowed = enter_blas()
        stack.alone = work < ALONE_UP_TO or (allowed > 1 and count >= allowed)
        if stack.alone:
            parallel_for(count, max(1, ALONE_UP_TO // work), multiply_pairs, &stack)
        else:
            multiply_pairs(&stack, 0, count)
        leave_blas()
    free(stack.places)
    return out


# ---- matmul --------------------------------------------------------------------------------------------------

cdef class WithReference(Kernel):
    """Leaves to NumPy, in the function that it is made with, what it does not take."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)


cdef class Matmul(WithReference):
    """``a @ b``; NumPy's for vectors."""

    cdef object call2(self, object a, object b):
        cdef int number = real_type(a)
        cdef object out = None
        if (
            number >= 0 and real_type(b) == number
            and cnp.PyArray_NDIM(<cnp.ndarray>a) >= 2 and cnp.PyArray_NDIM(<cnp.ndarray>b) >= 2
        ):
            if cnp.PyArray_NDIM(<cnp.ndarray>b) > 2 or not is_rows(<cnp.ndarray>a):
                out = stacked(<cnp.ndarray>a, False, <cnp.ndarray>b, False)
            elif (
                cnp.PyArray_DIM(<cnp.ndarray>a, cnp.PyArray_NDIM(<cnp.ndarray>a) - 1)
                == cnp.PyArray_DIM(<cnp.ndarray>b, 0)
            ):
                out = rows_times(<cnp.ndarray>a, <cnp.ndarray>b, False)
        return self.otherwise.call2(a, b) if out is None else out

    cdef object call(self, tuple args, tuple kwnames):
        return self.call2(args[0], args[1])


cdef inline bint is_rows(cnp.ndarray array) noexcept:
    """Whether the leading dimensions of an array are rows of one matrix without a copy."""
    return cnp.PyArray_NDIM(array) == 2 or cnp.PyArray_IS_C_CONTIGUOUS(array)


cdef class MatmulGradients(WithReference):
    """The gradients of `Matmul` for matrices and stacks of one height, from (grad, input, other, needs)."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef object grad = <object>args[0], a = <object>args[1], b = <object>args[2]
        cdef tuple needs = <tuple>args[3]
        cdef object for_a = None, for_b = None
        cdef int number = real_type(grad), nd
        if number < 0 or real_type(a) != number or real_type(b) != number:
            return self.otherwise.call_all(args, n)
        nd = cnp.PyArray_NDIM(<cnp.ndarray>a)
        if nd != cnp.PyArray_NDIM(<cnp.ndarray>b) or nd < 2:
            return self.otherwise.call_all(args, n)
        if nd == 2:
            grad = readable(<cnp.ndarray>grad)
            if needs[0]:
                for_a = rows_times(<cnp.ndarray>grad, <cnp.ndarray>b, True)
            if needs[1]:
                for_b = over_rows(<cnp.ndarray>a, <cnp.ndarray>grad)
            return for_a, for_b
        for i in range(nd - 2):
            if cnp.PyArray_DIM(<cnp.ndarray>a, i) != cnp.PyArray_DIM(<cnp.ndarray>b, i):
                return self.otherwise.call_all(args, n)
        if needs[0]:
            for_a = stacked(<cnp.ndarray>grad, False, <cnp.ndarray>b, True)
        if needs[1]:
            for_b = stacked(<cnp.ndarray>a, True, <cnp.ndarray>grad, False)
        if (needs[0] and for_a is None) or (needs[1] and for_b is None):
            return self.otherwise.call_all(args, n)
        return for_a, for_b


# ---- linear --------------------------------------------------------------------------------------------------

cdef cnp.ndarray sum_of_rows(cnp.ndarray matrix):
    cdef bint[2] summed = [True, False]
    return sums(matrix, summed, False, False) if summable(matrix) else add_reduce(matrix, 0)


cdef class Linear(WithReference):
    """``input @ weight.T + bias``."""

    cdef object call(self, tuple args, tuple kwnames):
        cdef object x = args[0], weight = args[1], bias = args[2]
        cdef int number = real_type(x)
        if (
            number < 0 or real_type(weight) != number
            or cnp.PyArray_NDIM(<cnp.ndarray>x) == 0 or cnp.PyArray_NDIM(<cnp.ndarray>weight) != 2
            or cnp.PyArray_DIM(<cnp.ndarray>x, cnp.PyArray_NDIM(<cnp.ndarray>x) - 1)
            != cnp.PyArray_DIM(<cnp.ndarray>weight, 1)
        ):
            return self.otherwise.call(args, kwnames)
        if bias is not None and (
            real_type(bias) != number or cnp.PyArray_NDIM(<cnp.ndarray>bias) != 1
            or cnp.PyArray_DIM(<cnp.ndarray>bias, 0) != cnp.PyArray_DIM(<cnp.ndarray>weight, 0)
            or not cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>bias)
        ):
            return self.otherwise.call(args, kwnames)
        return rows_times(<cnp.ndarray>x, <cnp.ndarray>weight, True, <cnp.ndarray>bias)


cdef class LinearGradients(WithReference):
    """The gradients of `Linear`, from (grad, input, weight, needs); what is not needed may be None."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef object grad = <object>args[0], x = <object>args[1], weight = <object>args[2]
        cdef tuple needs = <tuple>args[3]
        cdef object for_x = None, for_weight = None, for_bias = None
        cdef int number = real_type(grad)
        if number < 0 or (needs[0] and real_type(weight) != number) or (needs[1] and real_type(x) != number):
            return self.otherwise.call_all(args, n)
        grad = readable(<cnp.ndarray>grad)
        if needs[0]:
            for_x = rows_times(<cnp.ndarray>grad, <cnp.ndarray>weight, False)
        if needs[1]:
            for_weight = over_rows(<cnp.ndarray>grad, <cnp.ndarray>x)
        if needs[2]:
            for_bias = sum_of_rows(as_rows(<cnp.ndarray>grad, False))
        return for_x, for_weight, for_bias
