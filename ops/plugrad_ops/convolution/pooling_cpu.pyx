# cython: boundscheck=False, wraparound=False, cdivision=True
"""Maxima over windows and sparse maps along a dimension, in C.

(a) Arrays are float32 or float64 and C-contiguous; an image has depth, height and width, of which those that it has not
    are 1.
(b) A map along the last dimension adds up element by element, one along another dimension whole rows.
"""

cimport numpy as cnp
from libc.math cimport isnan

cnp.import_array()

cdef extern from *:
    """
    #define PG_SCALED(T)                                                                                              \\
        static inline void pg_scaled_row_##T(T *restrict to, const T *restrict from, T by, Py_ssize_t n, int first) { \\
            if (first) for (Py_ssize_t i = 0; i < n; i++) to[i] = from[i] * by;                                       \\
            else for (Py_ssize_t i = 0; i < n; i++) to[i] += from[i] * by; }
    PG_SCALED(float)
    PG_SCALED(double)
    """
    void pg_scaled_row_float(float *to, const float *source, float by, Py_ssize_t n, int first) noexcept nogil
    void pg_scaled_row_double(double *to, const double *source, double by, Py_ssize_t n, int first) noexcept nogil

ctypedef fused real:
    float
    double


cdef bint suits(cnp.ndarray a, cnp.ndarray b):
    """Whether both are C-contiguous, of one dtype that the loops know."""
    cdef int kind = cnp.PyArray_TYPE(a)
    return (
        (kind == cnp.NPY_FLOAT or kind == cnp.NPY_DOUBLE) and cnp.PyArray_TYPE(b) == kind
        and cnp.PyArray_ISCARRAY_RO(a) and cnp.PyArray_ISCARRAY_RO(b)
    )


# ---- maxima --------------------------------------------------------------------------------------------------


cdef void maxima(
    const real *image, real *values, cnp.int64_t *indices, const cnp.int64_t **spans, const Py_ssize_t *size,
    const Py_ssize_t *out, const Py_ssize_t *step, Py_ssize_t count
) noexcept nogil:
    """The greatest element of each window and where it is; the first of equals, NaN before all."""
    cdef Py_ssize_t _, i, j, k, d, h, base, at, best
    cdef Py_ssize_t d0, d1, h0, h1, w0, w1
    cdef real top, value
    for _ in range(count):
        for i in range(out[0]):
            d0 = spans[0][2 * i]
            d1 = spans[0][2 * i + 1]
            for j in range(out[1]):
                h0 = spans[1][2 * j]
                h1 = spans[1][2 * j + 1]
                for k in range(out[2]):
                    w0 = spans[2][2 * k]
                    w1 = spans[2][2 * k + 1]
                    best = (d0 * size[1] + h0) * size[2] + w0
                    top = image[best]
                    d = d0
                    while d < d1:
                        h = h0
                        while h < h1:
                            base = (d * size[1] + h) * size[2]
                            at = base + w0
                            while at < base + w1:
                                value = image[at]
                                if value > top or isnan(value):
                                    top = value
                                    best = at
                                at += step[2]
                            h += step[1]
                        d += step[0]
                    values[0] = top
                    indices[0] = best
                    values += 1
                    indices += 1
        image += size[0] * size[1] * size[2]


def maxima_over(
    cnp.ndarray images, cnp.ndarray values, cnp.ndarray indices, list spans, tuple size, tuple out, tuple step
):
    """Write the maxima over windows, and where in its plane each lies.

    Parameters
    ----------
    images, values, indices : ndarray
        (count, *size), and twice (count, *out); the last is int64.
    spans : list of ndarray
        Per dimension (three) the first element of each window and the one behind its last, int64 (out, 2).
    size, out, step : tuple of int
        Per dimension; `step` goes from element to element of a window.
    """
    cdef const cnp.int64_t *ends[3]
    cdef Py_ssize_t n[3]
    cdef Py_ssize_t m[3]
    cdef Py_ssize_t s[3]
    cdef Py_ssize_t count = cnp.PyArray_SIZE(values)
    cdef int i
    if not suits(images, values) or cnp.PyArray_TYPE(indices) != cnp.NPY_INT64 or not cnp.PyArray_ISCARRAY(indices):
        raise ValueError("images and values must be C-contiguous, both float32 or float64, and indices int64")
    for i in range(3):
        ends[i] = <const cnp.int64_t *>cnp.PyArray_DATA(<cnp.ndarray>spans[i])
        n[i] = size[i]
        m[i] = out[i]
        s[i] = step[i]
        count = count // m[i] if m[i] else 0
    with nogil:
        if cnp.PyArray_TYPE(images) == cnp.NPY_FLOAT:
            maxima[float](
                <const float *>cnp.PyArray_DATA(images), <float *>cnp.PyArray_DATA(values),
                <cnp.int64_t *>cnp.PyArray_DATA(indices), ends, n, m, s, count
            )
        else:
            maxima[double](
                <const double *>cnp.PyArray_DATA(images), <double *>cnp.PyArray_DATA(values),
                <cnp.int64_t *>cnp.PyArray_DATA(indices), ends, n, m, s, count
            )


cdef void add_at(
    const real *grad, const cnp.int64_t *indices, real *out, Py_ssize_t count, Py_ssize_t each, Py_ssize_t plane
) noexcept nogil:
    cdef Py_ssize_t _, i
    for _ in range(count):
        for i in range(each):
            out[indices[i]] += grad[i]
        grad += each
        indices += each
        out += plane


def add_at_maxima(cnp.ndarray grad, cnp.ndarray indices, cnp.ndarray out, Py_ssize_t count):
    """Add each element of `grad` to its plane of `out`, of which there are `count`, at its index."""
    cdef Py_ssize_t each, plane
    if not suits(grad, out) or cnp.PyArray_TYPE(indices) != cnp.NPY_INT64 or not cnp.PyArray_ISCARRAY_RO(indices):
        raise ValueError("grad and out must be C-contiguous, both float32 or float64, and indices int64")
    if not count:
        return
    each = cnp.PyArray_SIZE(grad) // count
    plane = cnp.PyArray_SIZE(out) // count
    with nogil:
        if cnp.PyArray_TYPE(grad) == cnp.NPY_FLOAT:
            add_at[float](
                <const float *>cnp.PyArray_DATA(grad), <const cnp.int64_t *>cnp.PyArray_DATA(indices),
                <float *>cnp.PyArray_DATA(out), count, each, plane
            )
        else:
            add_at[double](
                <const double *>cnp.PyArray_DATA(grad), <const cnp.int64_t *>cnp.PyArray_DATA(indices),
                <double *>cnp.PyArray_DATA(out), count, each, plane
            )


# ---- sparse maps ---------------------------------------------------------------------------------------------


cdef void mapped(
    const real *source, real *to, const cnp.int64_t *offsets, const cnp.int64_t *taps, const double *weights,
    const double *divisors, Py_ssize_t outer, Py_ssize_t size, Py_ssize_t out, Py_ssize_t inner
) noexcept nogil:
    cdef Py_ssize_t _, i, j, t
    cdef real sum, by
    for _ in range(outer):
        for i in range(out):
            if inner == 1:
                sum = 0
                for t in range(offsets[i], offsets[i + 1]):
                    sum += source[taps[t]] * <real>weights[t]
                to[0] = sum / <real>divisors[i]
                to += 1
                continue
            if offsets[i] == offsets[i + 1]:
                for j in range(inner):
                    to[j] = 0
            for t in range(offsets[i], offsets[i + 1]):
                by = <real>weights[t]
                if real is float:
                    pg_scaled_row_float(to, source + taps[t] * inner, by, inner, t == offsets[i])
                else:
                    pg_scaled_row_double(to, source + taps[t] * inner, by, inner, t == offsets[i])
            by = <real>divisors[i]
            if by != 1:
                for j in range(inner):
                    to[j] = to[j] / by
            to += inner
        source += size * inner


def map_along(
    cnp.ndarray source, cnp.ndarray out, cnp.ndarray offsets, cnp.ndarray taps, cnp.ndarray weights,
    cnp.ndarray divisors
):
    """Apply a sparse map along the middle dimension.

    Parameters
    ----------
    source, out : ndarray
        (outer, size, inner) and (outer, out, inner).
    offsets, taps : ndarray
        int64: the elements that output i is a sum of are ``taps[offsets[i] : offsets[i + 1]]``.
    weights, divisors : ndarray
        float64: of each tap, and of each output.
    """
    if not suits(source, out):
        raise ValueError("both arrays must be C-contiguous, both float32 or float64")
    cdef Py_ssize_t outer = cnp.PyArray_DIM(source, 0), size = cnp.PyArray_DIM(source, 1)
    cdef Py_ssize_t inner = cnp.PyArray_DIM(source, 2), n = cnp.PyArray_DIM(out, 1)
    cdef const cnp.int64_t *first = <const cnp.int64_t *>cnp.PyArray_DATA(offsets)
    cdef const cnp.int64_t *at = <const cnp.int64_t *>cnp.PyArray_DATA(taps)
    cdef const double *by = <const double *>cnp.PyArray_DATA(weights)
    cdef const double *over = <const double *>cnp.PyArray_DATA(divisors)
    with nogil:
        if cnp.PyArray_TYPE(source) == cnp.NPY_FLOAT:
            mapped[float](
                <const float *>cnp.PyArray_DATA(source), <float *>cnp.PyArray_DATA(out), first, at, by, over,
                outer, size, n, inner
            )
        else:
            mapped[double](
                <const double *>cnp.PyArray_DATA(source), <double *>cnp.PyArray_DATA(out), first, at, by, over,
                outer, size, n, inner
            )
