# cython: boundscheck=False, wraparound=False
"""CPU kernels along a dimension: recurrences, for which NumPy would take a call per step, and extremes with positions.

(a) Extremes of neighbours in memory are left to NumPy's own search, which is vectorised; columns are searched many at a
    time, in the order in which they lie.
(b) Kernels of extremes serve float32 and float64; the rest goes to the NumPy function that they were made with.
"""

cimport cython
cimport numpy as cnp
import numpy as np

from plugrad.backends.copies cimport contiguous, laid_out_as
from plugrad.backends.memory cimport is_dense
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.recycling cimport fresh_like
from plugrad.backends.reducing cimport mark, results
from plugrad.backends.sums cimport summable_real
from plugrad.graph.op cimport Kernel
from plugrad_ops.reduction.position_loops cimport (
    PG_COLUMNS, Columns, Functions, PyDataType_GetArrFuncs, find_chunk, pg_positions_of, return_chunk, run_on_chunk
)
from plugrad_ops.reduction.rank_loops cimport Choice, choose_chunk
from plugrad_ops.reduction.recurrence_loops cimport recur, recur_back
from plugrad_ops.reduction.running_loops cimport Loops, pg_products_so_far, pg_sums_so_far

from plugrad.backends import CPU

cnp.import_array()


# ---- running sums and products -------------------------------------------------------------------------------

cdef enum:
    TOGETHER = 8
    TILE = 1024
    WORK = 16_384   # elements that are worth a thread's attention


cdef struct Lines:
    # `outer` times n rows of `inner` neighbours, as they lie in memory.
    const Loops *loops
    const char *x
    char *out
    Py_ssize_t outer, n, inner, size, tiles
    bint back


cdef void run_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Tiles of rows or, with rows of one element, bundles of lines."""
    cdef const Lines *the = <const Lines *>context
    cdef Py_ssize_t index, at, many, step = -the.inner if the.back else the.inner
    for index in range(begin, end):
        if the.inner == 1:
            at = index * TOGETHER * the.n
            many = min(<Py_ssize_t>TOGETHER, the.outer - index * TOGETHER)
        else:
            at = index // the.tiles * the.n * the.inner + index % the.tiles * TILE
            many = min(<Py_ssize_t>TILE, the.inner - index % the.tiles * TILE)
        if the.back:
            at += (the.n - 1) * the.inner
        at *= the.size
        if the.inner == 1:
            the.loops.along(the.x + at, the.out + at, the.n, step, <int>many, the.n)
        else:
            the.loops.across(the.x + at, the.out + at, the.n, step, many)


def running(cnp.ndarray input, int axis, bint product, bint back=False):
    """Running sums or products of a float32 or float64 array with dimensions; complex ones have running sums.

    In float32 they are carried in double. With `back` they begin at the other end.
    """
    cdef cnp.ndarray x = input, out
    cdef int code = cnp.PyArray_TYPE(x)
    cdef bint complex_ = code == cnp.NPY_CFLOAT or code == cnp.NPY_CDOUBLE
    cdef Lines the
    cdef Py_ssize_t tasks
    if not (is_dense(x) and cnp.PyArray_ISBEHAVED_RO(x)):
        x = np.array(x, order="C")
    out = fresh_like(x, code)
    if cnp.PyArray_SIZE(x) == 0:
        return out
    the.size = cnp.PyArray_ITEMSIZE(x) // (2 if complex_ else 1)
    the.loops = pg_sums_so_far
    if product:
        the.loops = pg_products_so_far
    the.loops += the.size == 8
    the.x, the.out, the.back = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out), back
    the.n = cnp.PyArray_DIM(x, axis)
    the.inner = cnp.PyArray_STRIDE(x, axis) // the.size
    if the.n == 1:
        the.inner = 2 if complex_ else 1
    the.outer = cnp.PyArray_SIZE(x) * (2 if complex_ else 1) // (the.n * the.inner)
    the.tiles = (the.inner + TILE - 1) // TILE
    tasks = (the.outer + TOGETHER - 1) // TOGETHER if the.inner == 1 else the.outer * the.tiles
    with nogil:
        parallel_for(tasks, tasks * WORK // (the.outer * the.n * the.inner) + 1, run_chunk, &the)
    return out


cdef (Py_ssize_t, Py_ssize_t) around(cnp.ndarray x, int axis):
    """How many elements the dimensions before `axis`, and those after it, span."""
    cdef Py_ssize_t outer = 1, inner = 1, d
    for d in range(axis):
        outer *= cnp.PyArray_DIM(x, d)
    for d in range(axis + 1, cnp.PyArray_NDIM(x)):
        inner *= cnp.PyArray_DIM(x, d)
    return outer, inner


def cumprod_backward(cnp.ndarray grad, cnp.ndarray input, cnp.ndarray product, cnp.ndarray out, int axis):
    """Write the gradient of running products; arrays as for `linear_scan`, complex `input` and `product` conjugated."""
    cdef Py_ssize_t outer, inner, n = cnp.PyArray_DIM(grad, axis)
    cdef void *a = cnp.PyArray_DATA(grad)
    cdef void *b = cnp.PyArray_DATA(input)
    cdef void *c = cnp.PyArray_DATA(product)
    cdef void *d = cnp.PyArray_DATA(out)
    cdef int code = cnp.PyArray_TYPE(grad)
    outer, inner = around(grad, axis)
    with nogil:
        if code == cnp.NPY_DOUBLE:
            recur_back[double](
                <const double *>a, <const double *>b, <const double *>c, <double *>d, outer, n, inner
            )
        elif code == cnp.NPY_FLOAT:
            recur_back[float](<const float *>a, <const float *>b, <const float *>c, <float *>d, outer, n, inner)
        elif code == cnp.NPY_CDOUBLE:
            recur_back[cython.doublecomplex](
                <const double complex *>a, <const double complex *>b, <const double complex *>c,
                <double complex *>d, outer, n, inner
            )
        elif code == cnp.NPY_CFLOAT:
            recur_back[cython.floatcomplex](
                <const float complex *>a, <const float complex *>b, <const float complex *>c,
                <float complex *>d, outer, n, inner
            )


def linear_scan(cnp.ndarray factor, cnp.ndarray term, cnp.ndarray out, int axis):
    """Write the recurrence along `axis` of two arrays.

    All are in C order, not empty, of one shape and one dtype: float32, float64 or complex numbers of these.
    """
    cdef Py_ssize_t outer, inner, n = cnp.PyArray_DIM(term, axis)
    cdef void *a = cnp.PyArray_DATA(factor)
    cdef void *b = cnp.PyArray_DATA(term)
    cdef void *c = cnp.PyArray_DATA(out)
    cdef int code = cnp.PyArray_TYPE(term)
    outer, inner = around(term, axis)
    with nogil:
        if code == cnp.NPY_DOUBLE:
            recur[double](<const double *>a, <const double *>b, <double *>c, outer, n, inner)
        elif code == cnp.NPY_FLOAT:
            recur[float](<const float *>a, <const float *>b, <float *>c, outer, n, inner)
        elif code == cnp.NPY_CDOUBLE:
            recur[cython.doublecomplex](
                <const double complex *>a, <const double complex *>b, <double complex *>c, outer, n, inner
            )
        elif code == cnp.NPY_CFLOAT:
            recur[cython.floatcomplex](
                <const float complex *>a, <const float complex *>b, <float complex *>c, outer, n, inner
            )


# ---- extremes and their positions ----------------------------------------------------------------------------

cdef bint in_columns(Columns *the, cnp.ndarray x, int axis) noexcept:
    """Describe a dense array; False if there are more rows than a position can count."""
    cdef int wide = cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE
    the.loops = &pg_positions_of[wide]
    the.size = cnp.PyArray_ITEMSIZE(x)
    the.x = cnp.PyArray_BYTES(x)
    the.n = cnp.PyArray_DIM(x, axis)
    the.inner = 1 if the.n == 1 else cnp.PyArray_STRIDE(x, axis) // the.size
    the.outer = cnp.PyArray_SIZE(x) // (the.n * the.inner)
    the.tiles = (the.inner + PG_COLUMNS - 1) // PG_COLUMNS
    return the.n < 2**31 - 1


cdef inline Py_ssize_t grain_of(const Columns *the) noexcept nogil:
    """How many lines or tiles are worth a thread's attention."""
    return the.outer * the.tiles * WORK // (the.outer * the.n * the.inner) + 1


cdef class Position(Kernel):
    """``(input, dim, keepdim)``: where the first extreme stands; a kernel made with the same in NumPy."""

    cdef Kernel otherwise
    cdef bint greatest

    def __init__(self, function, bint greatest):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)
        self.greatest = greatest

    cdef object call(self, tuple args, tuple kwnames):
        cdef Columns the
        cdef bint[64] summed
        cdef cnp.ndarray x, out
        cdef Functions *functions
        cdef object dim = args[1]
        cdef int axis = 0
        if not (
            summable_real(args[0]) and (dim is None or type(dim) is int)
            and mark(dim, cnp.PyArray_NDIM(<cnp.ndarray>args[0]), summed)
        ):
            return self.otherwise.call(args, kwnames)
        x = <cnp.ndarray>args[0]
        out = results(x, summed, args[2], cnp.NPY_INT64)
        if dim is None:
            x = cnp.PyArray_Ravel(contiguous(x), cnp.NPY_CORDER)
        else:
            while not summed[axis]:
                axis += 1
            if not (cnp.PyArray_NDIM(x) <= 2 and is_dense(x)):  # else results would lie as the array does
                x = contiguous(x)
        if not in_columns(&the, x, axis):
            return self.otherwise.call(args, kwnames)
        functions = PyDataType_GetArrFuncs(cnp.PyArray_DESCR(x))
        the.search = functions.argmax if self.greatest else functions.argmin
        the.array, the.sign = <void *>x, 1.0 if self.greatest else -1.0
        the.at = <cnp.int64_t *>cnp.PyArray_DATA(out)
        if cnp.PyArray_SIZE(x) < WORK:
            find_chunk(&the, 0, the.outer * the.tiles)
        else:
            with nogil:
                parallel_for(the.outer * the.tiles, grain_of(&the), find_chunk, &the)
        return out


cdef int axis_of(object dim, cnp.ndarray x) except -2:
    """The axis of an integer; -1 if it is something else or out of range."""
    cdef Py_ssize_t d
    if type(dim) is not int:
        return -1
    d = dim
    if d < 0:
        d += cnp.PyArray_NDIM(x)
    return <int>d if 0 <= d < cnp.PyArray_NDIM(x) else -1


cdef class Running(Position):
    """``(input, dim)``: the extremes so far, and where each was last met."""

    cdef object call(self, tuple args, tuple kwnames):
        cdef Columns the
        cdef cnp.ndarray x, values, indices
        cdef int axis = axis_of(args[1], <cnp.ndarray>args[0]) if summable_real(args[0]) else -1
        if axis < 0:
            return self.otherwise.call(args, kwnames)
        x = <cnp.ndarray>args[0]
        if not is_dense(x):
            x = contiguous(x)
        if not in_columns(&the, x, axis):
            return self.otherwise.call(args, kwnames)
        values, indices = fresh_like(x, cnp.PyArray_TYPE(x)), fresh_like(x, cnp.NPY_INT64)
        the.out, the.at = cnp.PyArray_BYTES(values), <cnp.int64_t *>cnp.PyArray_DATA(indices)
        the.sign = 1.0 if self.greatest else -1.0
        with nogil:
            parallel_for(the.outer * the.tiles, grain_of(&the), run_on_chunk, &the)
        return values, indices


cdef class Returning(Position):
    """``(grad, indices, like, dim)``: the gradient of `Running`."""

    cdef object call(self, tuple args, tuple kwnames):
        cdef Columns the
        cdef cnp.ndarray x, indices, out
        cdef object grad = (<tuple>args[0])[0]
        cdef int axis = axis_of(args[3], <cnp.ndarray>grad) if summable_real(grad) else -1
        if axis < 0 or not cnp.PyArray_CheckExact(args[1]) or cnp.PyArray_TYPE(<cnp.ndarray>args[1]) != cnp.NPY_INT64:
            return self.otherwise.call(args, kwnames)
        indices = <cnp.ndarray>args[1]
        if not is_dense(indices):
            indices = contiguous(indices)
        x = laid_out_as(<cnp.ndarray>grad, indices)
        in_columns(&the, x, axis)
        out = fresh_like(x, cnp.PyArray_TYPE(x))
        the.out, the.at = cnp.PyArray_BYTES(out), <cnp.int64_t *>cnp.PyArray_DATA(indices)
        with nogil:
            parallel_for(the.outer * the.tiles, grain_of(&the), return_chunk, &the)
        return out


# ---- ranks ---------------------------------------------------------------------------------------------------

cdef class Ranked(Position):
    """``(input, ranks, dim)``: one element of each line by its rank, and where it stands."""

    cdef object call(self, tuple args, tuple kwnames):
        cdef Choice the
        cdef cnp.ndarray x, ranks, values, indices
        cdef Py_ssize_t count, n
        cdef int d, axis = axis_of(args[2], <cnp.ndarray>args[0]) if summable_real(args[0]) else -1
        if axis < 0 or not cnp.PyArray_CheckExact(args[1]) or cnp.PyArray_TYPE(<cnp.ndarray>args[1]) != cnp.NPY_INT64:
            return self.otherwise.call(args, kwnames)
        x, ranks = <cnp.ndarray>args[0], contiguous(<cnp.ndarray>args[1])
        n, count = cnp.PyArray_DIM(x, axis), cnp.PyArray_SIZE(ranks)
        if cnp.PyArray_NDIM(ranks) != cnp.PyArray_NDIM(x) or count * n != cnp.PyArray_SIZE(x):
            return self.otherwise.call(args, kwnames)
        for d in range(cnp.PyArray_NDIM(x)):
            if cnp.PyArray_DIM(ranks, d) != (1 if d == axis else cnp.PyArray_DIM(x, d)):
                return self.otherwise.call(args, kwnames)
        if cnp.PyArray_NDIM(x) > 2:
            x = contiguous(x)
        the.ranks = <const cnp.int64_t *>cnp.PyArray_DATA(ranks)
        for d in range(count):
            if not -n <= the.ranks[d] < n:
                return self.otherwise.call(args, kwnames)
        the.inner = around(x, axis)[1]
        the.step = cnp.PyArray_STRIDE(x, axis)
        if cnp.PyArray_IS_C_CONTIGUOUS(x):
            the.inner_step = cnp.PyArray_ITEMSIZE(x)
            the.step = the.inner * the.inner_step
            the.outer_step = n * the.step
        else:  # of two dimensions at most
            the.inner_step = cnp.PyArray_STRIDE(x, 1) if axis == 0 and cnp.PyArray_NDIM(x) == 2 else 0
            the.outer_step = cnp.PyArray_STRIDE(x, 0) if axis == 1 else 0
        values = fresh_like(ranks, cnp.PyArray_TYPE(x))
        indices = fresh_like(ranks, cnp.NPY_INT64)
        the.x, the.n, the.wide, the.failed = cnp.PyArray_BYTES(x), n, cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE, False
        the.values, the.at = cnp.PyArray_BYTES(values), <cnp.int64_t *>cnp.PyArray_DATA(indices)
        with nogil:
            parallel_for(count, WORK // (4 * n) + 1, choose_chunk, &the)
        if the.failed:
            raise MemoryError
        return values, indices
