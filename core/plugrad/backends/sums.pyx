# cython: boundscheck=False, wraparound=False
"""Sums over dimensions of an array, as ``numpy.add.reduce``, which forgets much of long sums in float32.

(a) NumPy adds pairwise along the innermost dimension alone. Along the others each element is added to one running
    number, which in float32 stands still at 2**24 when ones are added. Here these numbers are doubles.
(b) Eight rows at a time are added in float32, as a tree of three roundings, before they are added to the doubles:
    as exact as pairwise summation, and as fast as no conversion.
(c) The order of additions depends on shape and strides alone.
(d) The other narrow dtypes are summed in double. Sums in double are NumPy's.
"""

cimport numpy as cnp
import numpy as np
from libc.stdlib cimport calloc, free

from plugrad.backends cimport recycling

cnp.import_array()

cdef extern from *:
    """
    #if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
    #define PG_SUM_CLONES __attribute__((target_clones("avx2", "default")))
    #else
    #define PG_SUM_CLONES
    #endif

    /* sums[j] += the elements j of `rows` rows of n neighbours. */
    PG_SUM_CLONES static void pg_fold(
        const char *x, Py_ssize_t rows, Py_ssize_t step, Py_ssize_t n, double *__restrict sums
    ) {
        Py_ssize_t j;
        for (; rows >= 8; rows -= 8, x += 8 * step) {
            const float *a = (const float *)x, *b = (const float *)(x + step);
            const float *c = (const float *)(x + 2 * step), *d = (const float *)(x + 3 * step);
            const float *e = (const float *)(x + 4 * step), *f = (const float *)(x + 5 * step);
            const float *g = (const float *)(x + 6 * step), *h = (const float *)(x + 7 * step);
            for (j = 0; j < n; j++)
                sums[j] += (double)(((a[j] + b[j]) + (c[j] + d[j])) + ((e[j] + f[j]) + (g[j] + h[j])));
        }
        for (; rows >= 2; rows -= 2, x += 2 * step) {
            const float *a = (const float *)x, *b = (const float *)(x + step);
            for (j = 0; j < n; j++)
                sums[j] += (double)(a[j] + b[j]);
        }
        if (rows)
            for (j = 0; j < n; j++)
                sums[j] += ((const float *)x)[j];
    }

    /* The sum of n neighbours. */
    PG_SUM_CLONES static double pg_row_sum(const float *x, Py_ssize_t n) {
        enum { LANES = 16, TURNS = 8 };
        double total = 0;
        float lane[LANES];
        int i, w;
        for (; n >= LANES * TURNS; n -= LANES * TURNS, x += LANES * TURNS) {
            for (i = 0; i < LANES; i++)
                lane[i] = x[i];
            for (w = 1; w < TURNS; w++)
                for (i = 0; i < LANES; i++)
                    lane[i] += x[w * LANES + i];
            for (w = LANES / 2; w; w /= 2)
                for (i = 0; i < w; i++)
                    lane[i] += lane[i + w];
            total += lane[0];
        }
        for (; n > 0; n--, x++)
            total += *x;
        return total;
    }
    """
    void pg_fold(const char *x, Py_ssize_t rows, Py_ssize_t step, Py_ssize_t n, double *sums) noexcept nogil
    double pg_row_sum(const float *x, Py_ssize_t n) noexcept nogil

cdef enum:
    MOST_DIMS = 65  # NumPy's, and the two parts of complex numbers
    TILE = 1024     # sums that stay in the nearest cache
    FEW = 8
    NOGIL_FROM = 16384

# Dimensions from the farthest apart in memory to the nearest, those that are one run of memory merged.
cdef struct Walk:
    int nd
    Py_ssize_t[65] n
    Py_ssize_t[65] step     # in bytes of the array
    Py_ssize_t[65] place    # in elements of the sums; 0 where these are summed
    bint[65] summed


cdef object _numpy_sum = np.add.reduce


cdef bint plan(Walk *the, cnp.ndarray x, const bint *summed):
    """Fill `the`; False where NumPy's own way is as good: mostly where only the innermost dimension is summed."""
    cdef int nd = cnp.PyArray_NDIM(x), d, i, at = 0, last = -1, sums = 0
    cdef Py_ssize_t place = 1, n, step, own
    cdef bint gone
    if cnp.PyArray_TYPE(x) == cnp.NPY_CFLOAT:
        the.n[0], the.step[0], the.place[0], the.summed[0] = 2, sizeof(float), 1, False
        at, place = 1, 2
    # From the last dimension to the first, each sorted in behind those with smaller steps; turned round below.
    for d in range(nd - 1, -1, -1):
        n, step, gone = cnp.PyArray_DIM(x, d), cnp.PyArray_STRIDE(x, d), summed[d]
        own = 0 if gone else place
        if not gone:
            place *= n
        if n == 1:
            continue
        i = at
        while i > 0 and abs(the.step[i - 1]) > abs(step):
            the.n[i], the.step[i] = the.n[i - 1], the.step[i - 1]
            the.place[i], the.summed[i] = the.place[i - 1], the.summed[i - 1]
            i -= 1
        the.n[i], the.step[i], the.place[i], the.summed[i] = n, step, own, gone
        at += 1
    nd = 0
    for i in range(at):
        if (
            nd and the.summed[i] == the.summed[nd - 1] and the.step[i] == the.step[nd - 1] * the.n[nd - 1]
            and the.place[i] == the.place[nd - 1] * the.n[nd - 1]
        ):
            the.n[nd - 1] *= the.n[i]
        else:
            the.n[nd], the.step[nd], the.place[nd], the.summed[nd] = (
                the.n[i], the.step[i], the.place[i], the.summed[i]
            )
            nd += 1
    the.nd = nd
    for i in range(nd - 1, -1, -1):
        if the.summed[i]:
            last, sums = i, sums + 1
    if not sums or (sums == 1 and last == 0):
        return False
    # Next to an innermost dimension that stays goes one that is summed.
    if last > 1:
        n, step = the.n[last], the.step[last]
        for i in range(last, 1, -1):
            the.n[i], the.step[i] = the.n[i - 1], the.step[i - 1]
            the.place[i], the.summed[i] = the.place[i - 1], the.summed[i - 1]
        the.n[1], the.step[1], the.place[1], the.summed[1] = n, step, 0, True
    # A few long rows lose nothing, and are added with fewer passes without doubles.
    return not (sums == 1 and the.n[1] < FEW and the.n[0] > 4 * TILE)


cdef void fold(
    const char *x, Py_ssize_t rows, Py_ssize_t step, Py_ssize_t n, Py_ssize_t apart, double *sums, Py_ssize_t place
) noexcept nogil:
    """sums[j * place] += the elements j of `rows` rows."""
    cdef Py_ssize_t i, j
    if apart == sizeof(float) and place == 1:
        pg_fold(x, rows, step, n, sums)
        return
    for i in range(rows):
        for j in range(n):
            sums[j * place] += (<const float *>(x + i * step + j * apart))[0]


cdef double row_sum(const char *x, Py_ssize_t n, Py_ssize_t apart) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t i
    if apart == sizeof(float):
        return pg_row_sum(<const float *>x, n)
    for i in range(n):
        total += (<const float *>(x + i * apart))[0]
    return total


cdef void gather(const Walk *the, int d, const char *x, double *sums) noexcept nogil:
    """Add what dimensions d to 0 span to `sums`."""
    cdef Py_ssize_t i, tile
    if d > 1:
        for i in range(the.n[d]):
            gather(the, d - 1, x + i * the.step[d], sums + i * the.place[d])
    elif the.summed[0]:
        for i in range(the.n[1]):
            sums[i * the.place[1]] += row_sum(x + i * the.step[1], the.n[0], the.step[0])
    else:
        for tile in range((the.n[0] + TILE - 1) // TILE):
            i = tile * TILE
            fold(
                x + i * the.step[0], the.n[1], the.step[1], min(<Py_ssize_t>TILE, the.n[0] - i), the.step[0],
                sums + i * the.place[0], the.place[0]
            )


cdef void settle(const Walk *the, int d, const char *x, float *out) noexcept nogil:
    """`gather` where only dimension 1 is summed: the sums of a tile are complete at once."""
    cdef double[1024] sums
    cdef Py_ssize_t tile, i, j, many
    if d > 1:
        for i in range(the.n[d]):
            settle(the, d - 1, x + i * the.step[d], out + i * the.place[d])
        return
    for tile in range((the.n[0] + TILE - 1) // TILE):
        i = tile * TILE
        many = min(<Py_ssize_t>TILE, the.n[0] - i)
        for j in range(many):
            sums[j] = 0.0
        fold(x + i * the.step[0], the.n[1], the.step[1], many, the.step[0], sums, 1)
        for j in range(many):
            out[(i + j) * the.place[0]] = <float>sums[j]


cdef bint run(const Walk *the, const char *x, float *out, Py_ssize_t n) noexcept nogil:
    """Whether there was memory for it."""
    cdef double *sums
    cdef Py_ssize_t i
    cdef int d, summed = 0
    for d in range(the.nd):
        summed += the.summed[d]
    if summed == 1:
        settle(the, the.nd - 1, x, out)
        return True
    sums = <double *>calloc(n, sizeof(double))
    if sums == NULL:
        return False
    gather(the, the.nd - 1, x, sums)
    for i in range(n):
        out[i] = <float>sums[i]
    free(sums)
    return True


cdef bint marked(object axis, int nd, bint *summed) except -1:
    """Mark the dimensions that are summed; False where NumPy has something to say about `axis`."""
    cdef Py_ssize_t d
    cdef int i
    for i in range(nd):
        summed[i] = axis is None
    if axis is None:
        return True
    for one in axis if isinstance(axis, tuple) else (axis,):
        d = one
        if d < 0:
            d += nd
        if d < 0 or d >= nd or summed[d]:
            return False
        summed[d] = True
    return True


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
    cdef cnp.ndarray out
    cdef int code = cnp.PyArray_TYPE(x), nd = cnp.PyArray_NDIM(x), d, kept = 0
    cdef bint[64] summed
    cdef bint keep = keepdims, done
    cdef cnp.npy_intp[64] dims
    cdef Walk the
    cdef Py_ssize_t n
    if dtype is not None and dtype is not x.dtype and dtype != x.dtype:
        # Bools and integers, and whatever is narrowed.
        if dtype.char in "ef":
            return _numpy_sum(x, axis, np.float64, None, keep).astype(dtype)
        if dtype.char == "F":
            return _numpy_sum(x, axis, np.complex128, None, keep).astype(dtype)
        return _numpy_sum(x, axis, dtype, None, keep)
    if code == cnp.NPY_FLOAT16:
        return _numpy_sum(x, axis, np.float64, None, keep).astype(x.dtype)
    if (
        (code != cnp.NPY_FLOAT and code != cnp.NPY_CFLOAT) or nd == 0 or cnp.PyArray_SIZE(x) == 0
        or not cnp.PyArray_ISBEHAVED_RO(x)
        or not marked(axis, nd, summed) or not plan(&the, x, summed)
    ):
        return _numpy_sum(x, axis, dtype, None, keep)
    for d in range(nd):
        if not summed[d] or keep:
            dims[kept] = 1 if summed[d] else cnp.PyArray_DIM(x, d)
            kept += 1
    out = recycling.fresh(kept, dims, code)
    n = cnp.PyArray_SIZE(out) * (1 if code == cnp.NPY_FLOAT else 2)
    if cnp.PyArray_SIZE(x) < NOGIL_FROM:
        done = run(&the, cnp.PyArray_BYTES(x), <float *>cnp.PyArray_DATA(out), n)
    else:
        with nogil:
            done = run(&the, cnp.PyArray_BYTES(x), <float *>cnp.PyArray_DATA(out), n)
    if not done:
        raise MemoryError
    return out
