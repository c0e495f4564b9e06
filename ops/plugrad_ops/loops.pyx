# cython: boundscheck=False, wraparound=False
"""Kernels that run a plain C loop where that is fastest, and NumPy everywhere else.

(a) A loop serves float32 and float64 arrays: one array, two of one shape, an array and a number (a Python number or an
    array of one element), or an array and one that repeats along its leading axes (a bias row) or its trailing ones (a
    column). Such a call costs some 40 ns where a ufunc costs 400: no type resolution, no iterator, no floating-point
    error state. Everything else goes to the NumPy function that the kernel was made with.
(b) A loop runs through memory. An array without gaps is taken as it lies, and the result lies like it, transposed if it
    is; one with gaps, or laid out otherwise than its partner, is copied first.
(c) A number takes the dtype of the array, as NumPy 2 does with Python numbers.
(d) `limit`: above that many elements NumPy is called after all. It is set for functions of the C library such as
    log2, where NumPy's vectorised version wins on long arrays; there the two may differ in the last bit.
(e) From LARGE elements on the GIL is released around a loop, and from twice GRAIN on threads share it.
"""

cimport numpy as cnp
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsDouble, PyLong_CheckExact
from libc.stdint cimport INTPTR_MAX

from plugrad.backends.copies cimport contiguous, flat, is_flat, laid_out_as
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.recycling cimport fresh_like
from plugrad.graph.op cimport Kernel
from plugrad.backends import CPU

cnp.import_array()


cdef enum:
    LARGE = 10_000
    GRAIN = 16_384


# ---- loops over parts of arrays ------------------------------------------------------------------------------

cdef struct Job:
    pg_unary unary
    pg_binary binary
    const char *x
    const char *y
    char *out
    Py_ssize_t size_x, size_y, size_out     # bytes from one element to the next; 0 for a number
    Py_ssize_t row                          # elements of a row, for `row_chunk`


cdef void unary_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Job *job = <Job *>context
    job.unary(job.x + begin * job.size_x, job.out + begin * job.size_out, end - begin)


cdef void binary_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Job *job = <Job *>context
    job.binary(
        job.x + begin * job.size_x, job.y + begin * job.size_y, job.out + begin * job.size_out, end - begin
    )


cdef void row_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Rows of which each takes the whole of one operand, or one element of it: `size_x` and `size_y` are of a row."""
    cdef Job *job = <Job *>context
    cdef Py_ssize_t i
    for i in range(begin, end):
        job.binary(job.x + i * job.size_x, job.y + i * job.size_y, job.out + i * job.size_out, job.row)


# ---- operands ------------------------------------------------------------------------------------------------

cdef inline int real_kind(cnp.ndarray array) noexcept:
    """0 for a float32 and 1 for a float64 array that a loop may read; -1 for any other."""
    cdef int number
    if not cnp.PyArray_ISBEHAVED_RO(array):
        return -1
    number = cnp.PyArray_TYPE(array)
    return 0 if number == cnp.NPY_FLOAT else 1 if number == cnp.NPY_DOUBLE else -1


cdef bint as_number(object value, double *number) except -1:
    """Whether `value` is a Python number; its value goes to `number`."""
    if PyFloat_CheckExact(value):
        number[0] = PyFloat_AS_DOUBLE(value)
        return True
    if PyLong_CheckExact(value):
        number[0] = PyLong_AsDouble(value)
        return True
    return False


cdef inline bint is_tail(cnp.ndarray whole, cnp.ndarray part) noexcept:
    """Whether `part` has the shape of the last axes of `whole`, so that it repeats along the others."""
    cdef int skipped = cnp.PyArray_NDIM(whole) - cnp.PyArray_NDIM(part)
    cdef int i
    if skipped < 0 or cnp.PyArray_SIZE(part) < 16:  # short rows: one call of the loop each is no gain
        return False
    for i in range(cnp.PyArray_NDIM(part) - 1, -1, -1):
        if cnp.PyArray_DIM(part, i) != cnp.PyArray_DIM(whole, skipped + i):
            break
    else:
        return True
    for i in range(i, -1, -1):
        if cnp.PyArray_DIM(part, i) != 1:
            return False
    return True


cdef inline bint is_head(cnp.ndarray whole, cnp.ndarray part) noexcept:
    """Whether `part` has the shape of the first axes of `whole` and 1 in the others, along which it repeats."""
    cdef int nd = cnp.PyArray_NDIM(whole), i, j
    if cnp.PyArray_NDIM(part) != nd or not 0 < 16 * cnp.PyArray_SIZE(part) <= cnp.PyArray_SIZE(whole):
        return False
    for i in range(nd):
        if cnp.PyArray_DIM(part, i) != cnp.PyArray_DIM(whole, i):
            for j in range(i, nd):
                if cnp.PyArray_DIM(part, j) != 1:
                    return False
            return True
    return True


cdef cnp.ndarray turned(cnp.ndarray array, int nd):
    """The array with nd dimensions, in the opposite order."""
    return (<object>array)[(None,) * (nd - cnp.PyArray_NDIM(array))].T


# ---- kernels -------------------------------------------------------------------------------------------------

cdef class Unary(Kernel):
    """A function of one array."""

    cdef object call1(self, object a):
        cdef cnp.ndarray x, out
        cdef Py_ssize_t n
        cdef int kind
        cdef Job job
        if cnp.PyArray_CheckExact(a):
            x = <cnp.ndarray>a
            kind = real_kind(x)
            n = cnp.PyArray_SIZE(x)
            if kind >= 0 and n <= self.limit:
                x = flat(x)
                out = fresh_like(x, cnp.PyArray_TYPE(x))
                if n < LARGE:
                    self.loops.of[kind](cnp.PyArray_DATA(x), cnp.PyArray_DATA(out), n)
                else:
                    job.unary = self.loops.of[kind]
                    job.x, job.out = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out)
                    job.size_x = job.size_out = cnp.PyArray_ITEMSIZE(x)
                    with nogil:
                        parallel_for(n, GRAIN, unary_chunk, &job)
                return out
        return self.otherwise.call1(a)

    cdef object call(self, tuple args, tuple kwnames):
        return self.call1(args[0])


cdef class Binary(Kernel):
    """A function of two arrays, either of which may be a Python number."""

    cdef object call2(self, object a, object b):
        cdef cnp.ndarray x, y
        cdef int kind
        cdef double number
        if cnp.PyArray_CheckExact(a):
            x = <cnp.ndarray>a
            kind = real_kind(x)
            if kind >= 0:
                if cnp.PyArray_CheckExact(b):
                    y = <cnp.ndarray>b
                    if cnp.PyArray_TYPE(x) == cnp.PyArray_TYPE(y) and cnp.PyArray_ISBEHAVED_RO(y):
                        if cnp.PyArray_SAMESHAPE(x, y):
                            return self.arrays(x, y, kind)
                        found = self.broadcast(x, y, kind)
                        if found is not None:
                            return found
                elif as_number(b, &number):
                    return self.with_number(x, number, kind, self.loops.right_number[kind], False)
        elif cnp.PyArray_CheckExact(b):
            y = <cnp.ndarray>b
            kind = real_kind(y)
            if kind >= 0 and as_number(a, &number):
                return self.with_number(y, number, kind, self.loops.left_number[kind], True)
        return self.otherwise.call2(a, b)

    cdef object call(self, tuple args, tuple kwnames):
        return self.call2(args[0], args[1])

    cdef inline cnp.ndarray arrays(self, cnp.ndarray x, cnp.ndarray y, int kind):
        cdef cnp.ndarray out
        cdef Py_ssize_t n = cnp.PyArray_SIZE(x)
        cdef Job job
        if not (cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_IS_C_CONTIGUOUS(y)):
            if not is_flat(x):
                x = laid_out_as(x, y) if is_flat(y) else contiguous(x)
            y = laid_out_as(y, x)
        out = self.new(x)
        if n < LARGE:
            self.loops.arrays[kind](cnp.PyArray_DATA(x), cnp.PyArray_DATA(y), cnp.PyArray_DATA(out), n)
        else:
            job.binary = self.loops.arrays[kind]
            job.x, job.y, job.out = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(y), cnp.PyArray_BYTES(out)
            job.size_x = job.size_y = cnp.PyArray_ITEMSIZE(x)
            job.size_out = cnp.PyArray_ITEMSIZE(out)
            with nogil:
                parallel_for(n, GRAIN, binary_chunk, &job)
        return out

    cdef cnp.ndarray with_number(self, cnp.ndarray x, double number, int kind, pg_binary loop, bint left):
        cdef float narrow = <float>number
        return self.with_value(x, <const char *>&narrow if kind == 0 else <const char *>&number, loop, left)

    cdef cnp.ndarray with_value(self, cnp.ndarray x, const char *value, pg_binary loop, bint left):
        """An array and one number of its dtype."""
        cdef cnp.ndarray out
        cdef Py_ssize_t n = cnp.PyArray_SIZE(x), size = cnp.PyArray_ITEMSIZE(x)
        cdef Job job
        x = flat(x)
        out = self.new(x)
        job.x = value if left else cnp.PyArray_BYTES(x)
        job.y = cnp.PyArray_BYTES(x) if left else value
        if n < LARGE:
            loop(job.x, job.y, cnp.PyArray_DATA(out), n)
        else:
            job.binary, job.out = loop, cnp.PyArray_BYTES(out)
            job.size_x, job.size_y = 0 if left else size, size if left else 0
            job.size_out = cnp.PyArray_ITEMSIZE(out)
            with nogil:
                parallel_for(n, GRAIN, binary_chunk, &job)
        return out

    cdef object broadcast(self, cnp.ndarray x, cnp.ndarray y, int kind):
        """Two arrays of which one repeats along axes of the other; None where no loop serves."""
        if cnp.PyArray_SIZE(y) == 1 and cnp.PyArray_NDIM(y) <= cnp.PyArray_NDIM(x):
            return self.with_value(x, cnp.PyArray_BYTES(y), self.loops.right_number[kind], False)
        if cnp.PyArray_SIZE(x) == 1 and cnp.PyArray_NDIM(x) <= cnp.PyArray_NDIM(y):
            return self.with_value(y, cnp.PyArray_BYTES(x), self.loops.left_number[kind], True)
        cdef cnp.ndarray whole = x if cnp.PyArray_SIZE(x) > cnp.PyArray_SIZE(y) else y
        cdef int nd = cnp.PyArray_NDIM(whole)
        if cnp.PyArray_IS_F_CONTIGUOUS(whole) and not cnp.PyArray_IS_C_CONTIGUOUS(whole):
            if cnp.PyArray_NDIM(x) > nd or cnp.PyArray_NDIM(y) > nd:
                return None
            # A row that repeats is a column of the transposed arrays, which are in C order.
            found = self.repeat(turned(x, nd), turned(y, nd), kind)
            return None if found is None else found.T
        return self.repeat(x, y, kind)

    cdef object repeat(self, cnp.ndarray x, cnp.ndarray y, int kind):
        """`broadcast` of arrays in C order; others are copied."""
        x, y = contiguous(x), contiguous(y)
        if is_tail(x, y):
            return self.rows(x, x, y, self.loops.arrays[kind], cnp.PyArray_SIZE(y), True)
        if is_tail(y, x):
            return self.rows(y, x, y, self.loops.arrays[kind], cnp.PyArray_SIZE(x), True)
        if is_head(x, y):
            return self.rows(
                x, x, y, self.loops.right_number[kind], cnp.PyArray_SIZE(x) // cnp.PyArray_SIZE(y), False
            )
        if is_head(y, x):
            return self.rows(
                y, x, y, self.loops.left_number[kind], cnp.PyArray_SIZE(y) // cnp.PyArray_SIZE(x), False
            )
        return None

    cdef cnp.ndarray rows(
        self, cnp.ndarray whole, cnp.ndarray x, cnp.ndarray y, pg_binary loop, Py_ssize_t row, bint tail
    ):
        """Each row of `whole` with the whole of the other operand (`tail`) or with one element of it."""
        cdef cnp.ndarray out = self.new(whole)
        cdef Py_ssize_t size = cnp.PyArray_ITEMSIZE(x), other = 0 if tail else size
        cdef Py_ssize_t n = cnp.PyArray_SIZE(whole) // row
        cdef Job job
        job.binary, job.row = loop, row
        job.x, job.y, job.out = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(y), cnp.PyArray_BYTES(out)
        job.size_x = row * size if whole is x else other
        job.size_y = row * size if whole is y else other
        job.size_out = row * cnp.PyArray_ITEMSIZE(out)
        with nogil:
            parallel_for(n, GRAIN // row + 1, row_chunk, &job)
        return out

    cdef inline cnp.ndarray new(self, cnp.ndarray like):
        return fresh_like(like, cnp.PyArray_TYPE(like) if self.out_type < 0 else self.out_type)


cdef Kernel numpy_kernel(object function):
    """The kernel that the CPU backend makes of a NumPy function; it never warns."""
    return CPU.kernel(function)


cdef Unary unary(object function, const pg_unary_loops *loops, Py_ssize_t limit=INTPTR_MAX):
    """A kernel for `function`, with loops for its float32 and float64 cases up to `limit` elements."""
    cdef Unary kernel = Unary(function)
    kernel.otherwise = numpy_kernel(function)
    kernel.loops = loops
    kernel.limit = limit
    return kernel


cdef Binary binary(object function, const pg_binary_loops *loops, int out_type=-1):
    """A kernel for `function`, with loops for its float32 and float64 cases; `out_type` -1: the operands' own."""
    cdef Binary kernel = Binary(function)
    kernel.otherwise = numpy_kernel(function)
    kernel.loops = loops
    kernel.out_type = out_type
    return kernel
