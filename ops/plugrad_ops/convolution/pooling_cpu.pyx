# cython: boundscheck=False, wraparound=False, cdivision=True
"""Sparse maps along a dimension, in C.

Arrays are float32 or float64 and C-contiguous. A map along the last dimension adds up element by element, one along
another dimension whole rows. What lies before the dimension is shared out among threads.
"""

cimport numpy as cnp
cimport plugrad.backends.simd  # its macros  # no-cython-lint
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.recycling cimport fresh

cnp.import_array()

cdef extern from *:
    """
    /* One row of the result from some of the source; all weights are 1 if there are none. */
    #define PG_ROW(T)                                                                                                \\
        PG_VECTOR_EXACT static void pg_row_##T(T *restrict to, const T *restrict source, const int64_t *taps,        \\
                                               const double *weights, Py_ssize_t count, T divisor, Py_ssize_t n) {   \\
            if (!count) for (Py_ssize_t i = 0; i < n; i++) to[i] = 0;                                                \\
            for (Py_ssize_t t = 0; t < count; t++) {                                                                 \\
                const T *restrict from = source + taps[t] * n;                                                       \\
                const T by = weights ? (T)weights[t] : 1;                                                            \\
                if (t == 0) for (Py_ssize_t i = 0; i < n; i++) to[i] = from[i] * by;                                 \\
                else for (Py_ssize_t i = 0; i < n; i++) to[i] += from[i] * by; }                                     \\
            if (divisor != 1) for (Py_ssize_t i = 0; i < n; i++) to[i] /= divisor; }
    PG_ROW(float)
    PG_ROW(double)
    """
    void pg_row_float(
        float *to, const float *source, const cnp.int64_t *taps, const double *weights, Py_ssize_t count, float divisor,
        Py_ssize_t n
    ) noexcept nogil
    void pg_row_double(
        double *to, const double *source, const cnp.int64_t *taps, const double *weights, Py_ssize_t count,
        double divisor, Py_ssize_t n
    ) noexcept nogil

ctypedef fused real:
    float
    double

cdef enum:
    PIECE = 1 << 14     # elements that are worth giving to a thread


cdef struct Mapping:
    const cnp.int64_t *offsets
    const cnp.int64_t *taps
    const double *weights           # NULL if all are 1
    const double *divisors
    Py_ssize_t size, out, inner
    int size_of                     # an element
    const char *source
    char *to


cdef void map_elements(const real *source, real *to, const Mapping *m) noexcept nogil:
    """Along the last dimension."""
    cdef Py_ssize_t i, t
    cdef real sum
    for i in range(m.out):
        sum = 0
        if m.weights == NULL:
            for t in range(m.offsets[i], m.offsets[i + 1]):
                sum += source[m.taps[t]]
        else:
            for t in range(m.offsets[i], m.offsets[i + 1]):
                sum += source[m.taps[t]] * <real>m.weights[t]
        to[i] = sum if m.divisors[i] == 1 else sum / <real>m.divisors[i]


cdef void map_rows(const real *source, real *to, const Mapping *m) noexcept nogil:
    cdef Py_ssize_t i, first, count
    cdef const double *weights
    for i in range(m.out):
        first = m.offsets[i]
        count = m.offsets[i + 1] - first
        weights = NULL if m.weights == NULL else m.weights + first
        if real is float:
            pg_row_float(to, source, m.taps + first, weights, count, <float>m.divisors[i], m.inner)
        else:
            pg_row_double(to, source, m.taps + first, weights, count, m.divisors[i], m.inner)
        to += m.inner


cdef void map_some(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Mapping *m = <Mapping *>context
    cdef Py_ssize_t i, read = m.size * m.inner * m.size_of, written = m.out * m.inner * m.size_of
    for i in range(begin, end):
        if m.size_of == 4:
            if m.inner == 1:
                map_elements(<const float *>(m.source + i * read), <float *>(m.to + i * written), m)
            else:
                map_rows(<const float *>(m.source + i * read), <float *>(m.to + i * written), m)
        elif m.inner == 1:
            map_elements(<const double *>(m.source + i * read), <double *>(m.to + i * written), m)
        else:
            map_rows(<const double *>(m.source + i * read), <double *>(m.to + i * written), m)


def map_along(
    cnp.ndarray source, cnp.ndarray offsets, cnp.ndarray taps, cnp.ndarray weights, cnp.ndarray divisors
):
    """Apply a sparse map along the middle dimension.

    Parameters
    ----------
    source : ndarray
        (outer, size, inner), C-contiguous, float32 or float64.
    offsets, taps : ndarray
        int64: the elements that output i is a sum of are ``taps[offsets[i] : offsets[i + 1]]``.
    weights : ndarray or None
        float64, of each tap; None if all are 1.
    divisors : ndarray
        float64, of each output.

    Returns
    -------
    (outer, out, inner)
    """
    cdef int kind = cnp.PyArray_TYPE(source)
    cdef cnp.npy_intp dims[3]
    cdef cnp.ndarray out
    cdef Mapping m
    if (kind != cnp.NPY_FLOAT and kind != cnp.NPY_DOUBLE) or not cnp.PyArray_ISCARRAY_RO(source):
        raise ValueError("source must be C-contiguous, float32 or float64")
    m.size = cnp.PyArray_DIM(source, 1)
    m.inner = cnp.PyArray_DIM(source, 2)
    m.out = cnp.PyArray_DIM(divisors, 0)
    dims[0] = cnp.PyArray_DIM(source, 0)
    dims[1] = m.out
    dims[2] = m.inner
    out = fresh(3, dims, kind)
    m.offsets = <const cnp.int64_t *>cnp.PyArray_DATA(offsets)
    m.taps = <const cnp.int64_t *>cnp.PyArray_DATA(taps)
    m.weights = NULL if weights is None else <const double *>cnp.PyArray_DATA(weights)
    m.divisors = <const double *>cnp.PyArray_DATA(divisors)
    m.size_of = 4 if kind == cnp.NPY_FLOAT else 8
    m.source = <const char *>cnp.PyArray_DATA(source)
    m.to = <char *>cnp.PyArray_DATA(out)
    if cnp.PyArray_SIZE(out):
        with nogil:
            parallel_for(dims[0], 1 + PIECE // ((m.size + m.out) * m.inner), map_some, &m)
    return out
