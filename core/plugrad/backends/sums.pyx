# cython: boundscheck=False, wraparound=False
"""Sums over dimensions of an array, as ``numpy.add.reduce``, which forgets much of long sums in float32.

(a) NumPy adds pairwise along the innermost dimension alone. Along the others each element is added to one running
    number, which in float32 stands still at 2**24 when ones are added. Here these numbers are doubles, into which
    elements go eight at a time.
(b) Runs of neighbours are added with what rounding took away: in double, sums along the innermost dimension are more
    exact than pairwise ones.
(c) The order of additions depends on shape and strides alone; see reducing.pyx.
(d) The other narrow dtypes are summed in double by NumPy.
"""

cimport numpy as cnp
import numpy as np

cimport plugrad.backends.reducing_loops  # its macros  # no-cython-lint
from plugrad.backends.copies cimport is_flat, lie_alike
from plugrad.backends.reducing cimport Loops, Walk, mark, plan, reduce, results

cnp.import_array()

cdef extern from *:
    """
    #define PG_ITSELF(e) (e)
    PG_REDUCTION_OF(pg_sum, float, float, plus, 0, PG_ITSELF, PG_NOTHING)
    PG_REDUCTION_OF(pg_sum, double, double, plus, 0, PG_ITSELF, PG_NOTHING)

    PG_JOIN_SUMS
    static const pg_reduction pg_sums[2] = {{2, 0, pg_sum_along_float, pg_sum_across_float, pg_join_plus},
                                            {2, 0, pg_sum_along_double, pg_sum_across_double, pg_join_plus}};

    #define PG_PUT_SUMS(T)                                                                                         \\
    PG_VECTOR static void pg_put_sums_##T(const double *s, Py_ssize_t apart, Py_ssize_t n, double scale, void *to) { \\
        T *restrict out = to;                                                                                      \\
        if (scale == 1)                                                                                            \\
            for (Py_ssize_t i = 0; i < n; i++) out[i] = (T)pg_plus_of(s + i, apart);                               \\
        else                                                                                                       \\
            for (Py_ssize_t i = 0; i < n; i++) out[i] = (T)(pg_plus_of(s + i, apart) / scale);                     \\
    }
    PG_PUT_SUMS(float)
    PG_PUT_SUMS(double)
    """
    const Loops[2] pg_sums
    double pg_plus_of(const double *s, Py_ssize_t apart) noexcept nogil
    void pg_put_sums_float(const double *s, Py_ssize_t apart, Py_ssize_t n, double scale, void *out) noexcept nogil
    void pg_put_sums_double(const double *s, Py_ssize_t apart, Py_ssize_t n, double scale, void *out) noexcept nogil

cdef enum:
    NOGIL_FROM = 16384

cdef object _numpy_sum = np.add.reduce


cdef struct Target:
    void *out
    bint wide
    double scale    # by which sums are divided


cdef void finish(
    void *context, const double *states, Py_ssize_t apart, Py_ssize_t first, Py_ssize_t step, Py_ssize_t n
) noexcept nogil:
    cdef Target *target = <Target *>context
    cdef Py_ssize_t i
    if step == 1:
        if target.wide:
            pg_put_sums_double(states, apart, n, target.scale, <double *>target.out + first)
        else:
            pg_put_sums_float(states, apart, n, target.scale, <float *>target.out + first)
        return
    for i in range(n):
        if target.wide:
            (<double *>target.out)[first + i * step] = pg_plus_of(states + i, apart) / target.scale
        else:
            (<float *>target.out)[first + i * step] = <float>(pg_plus_of(states + i, apart) / target.scale)


cdef cnp.ndarray sums(cnp.ndarray x, const bint *summed, bint keep, bint mean):
    cdef Walk walk
    plan(&walk, x, summed)
    return added(&walk, x, results(x, summed, keep, cnp.PyArray_TYPE(x)), <double>walk.count if mean else 1.0)


cdef object sums_of_products(cnp.ndarray x, cnp.ndarray y, const bint *summed):
    cdef Walk walk
    if not (is_flat(x) and lie_alike(x, y)):
        return None
    plan(&walk, x, summed)
    walk.first, walk.factor = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(y)
    return added(&walk, x, results(x, summed, True, cnp.PyArray_TYPE(x)), 1.0)


cdef cnp.ndarray added(const Walk *walk, cnp.ndarray x, cnp.ndarray out, double scale):
    cdef Target target
    cdef bint done
    cdef const char *data = cnp.PyArray_BYTES(x)
    target.out, target.wide, target.scale = cnp.PyArray_DATA(out), walk.size == 8, scale
    if cnp.PyArray_SIZE(x) < NOGIL_FROM:
        done = reduce(walk, &pg_sums[target.wide], data, NULL, finish, &target)
    else:
        with nogil:
            done = reduce(walk, &pg_sums[target.wide], data, NULL, finish, &target)
    if not done:
        raise MemoryError
    return out


cdef const Loops *sum_loops(bint wide) noexcept nogil:
    return &pg_sums[wide]


cdef double sum_of(const double *state, Py_ssize_t apart) noexcept nogil:
    return pg_plus_of(state, apart)


cdef bint summable(cnp.ndarray x) noexcept:
    cdef int code = cnp.PyArray_TYPE(x)
    return (
        (code == cnp.NPY_FLOAT or code == cnp.NPY_DOUBLE or code == cnp.NPY_CFLOAT or code == cnp.NPY_CDOUBLE)
        and cnp.PyArray_NDIM(x) > 0 and cnp.PyArray_SIZE(x) > 0 and cnp.PyArray_ISBEHAVED_RO(x)
    )


def add_reduce(array, axis=None, dtype=None, keepdims=False):
    """The sum over dimensions, in the given dtype or the array's.

    Parameters
    ----------
    array : numpy.ndarray or a NumPy number
    axis : int or tuple of int, optional
        None for all.
    dtype : numpy.dtype, optional
    keepdims : bool
        Whether what is summed stays, with length 1.

    Returns
    -------
    numpy.ndarray or a NumPy number
    """
    cdef cnp.ndarray x = array if cnp.PyArray_Check(array) else np.asarray(array)
    cdef int code = cnp.PyArray_TYPE(x)
    cdef bint[64] summed
    cdef bint keep = keepdims
    if dtype is not None and dtype is not x.dtype and dtype != x.dtype:
        # Bools and integers, and whatever is narrowed.
        if dtype.char in "ef":
            return _numpy_sum(x, axis, np.float64, None, keep).astype(dtype)
        if dtype.char == "F":
            return _numpy_sum(x, axis, np.complex128, None, keep).astype(dtype)
        return _numpy_sum(x, axis, dtype, None, keep)
    if code == cnp.NPY_FLOAT16:
        return _numpy_sum(x, axis, np.float64, None, keep).astype(x.dtype)
    # An empty tuple of dimensions is none here, not all.
    if not summable(x) or axis == () or not mark(axis, cnp.PyArray_NDIM(x), summed):
        return _numpy_sum(x, axis, dtype, None, keep)
    return sums(x, summed, keep, False)
