# cython: boundscheck=False, wraparound=False
"""CPU loops along a dimension: recurrences, for which NumPy would take one call per step, and running extremes."""

cimport cython
cimport numpy as cnp
import numpy as np

cnp.import_array()

ctypedef fused real:
    float
    double


ctypedef fused number:
    float
    double
    float complex
    double complex


cdef void recur(
    const number *factor, const number *term, number *out, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner
) noexcept nogil:
    """out[o, i, k] = factor[o, i, k] * out[o, i - 1, k] + term[o, i, k], all in C order."""
    cdef Py_ssize_t line, begin, at
    for line in range(outer):
        begin = line * n * inner
        for at in range(begin, begin + inner):
            out[at] = term[at]
        for at in range(begin + inner, begin + n * inner):
            out[at] = factor[at] * out[at - inner] + term[at]


cdef void recur_back(
    const number *grad, const number *factor, const number *product, number *out,
    Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner
) noexcept nogil:
    """The gradient of running products: s[i - 1] * product[i - 1] with s[i] = grad[i] + factor[i + 1] * s[i + 1]."""
    cdef Py_ssize_t line, begin, at
    for line in range(outer):
        begin = line * n * inner
        for at in range(begin + (n - 1) * inner, begin + n * inner):
            out[at] = grad[at]
        for at in range(begin + (n - 1) * inner - 1, begin - 1, -1):
            out[at] = grad[at] + factor[at + inner] * out[at + inner]
        for at in range(begin + inner, begin + n * inner):
            out[at] = out[at] * product[at - inner]


cdef void keep_greatest(
    const real *x, real *values, cnp.int64_t *indices, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner, real sign
) noexcept nogil:
    """The greatest of ``sign * x`` so far; a later equal takes over, and NaN stays."""
    cdef Py_ssize_t line, i, begin, at
    cdef real value, kept
    for line in range(outer):
        begin = line * n * inner
        for at in range(begin, begin + inner):
            values[at] = x[at]
            indices[at] = 0
        for i in range(1, n):
            begin += inner
            for at in range(begin, begin + inner):
                value, kept = x[at], values[at - inner]
                if sign * value >= sign * kept or value != value:
                    values[at] = value
                    indices[at] = i
                else:
                    values[at] = kept
                    indices[at] = indices[at - inner]


cdef enum:
    TILE = 1024  # running numbers that stay in the nearest cache


cdef void run_along(
    const float *x, float *out, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner, bint product
) noexcept nogil:
    """Running sums or products along the middle one of three dimensions, carried in double."""
    cdef double[1024] carried
    cdef double one
    cdef Py_ssize_t line, tile, i, _i, j, many, at
    for line in range(outer):
        if inner == 1:
            one = 1.0 if product else 0.0
            at = line * n
            if product:
                for i in range(at, at + n):
                    one *= x[i]
                    out[i] = <float>one
            else:
                for i in range(at, at + n):
                    one += x[i]
                    out[i] = <float>one
            continue
        for tile in range((inner + TILE - 1) // TILE):
            many = min(<Py_ssize_t>TILE, inner - tile * TILE)
            at = line * n * inner + tile * TILE
            for j in range(many):
                carried[j] = 1.0 if product else 0.0
            for _i in range(n):
                if product:
                    for j in range(many):
                        carried[j] *= x[at + j]
                        out[at + j] = <float>carried[j]
                else:
                    for j in range(many):
                        carried[j] += x[at + j]
                        out[at + j] = <float>carried[j]
                at += inner


cdef (Py_ssize_t, Py_ssize_t) around(cnp.ndarray x, int axis):
    """How many elements the dimensions before `axis`, and those after it, span."""
    cdef Py_ssize_t outer = 1, inner = 1, d
    for d in range(axis):
        outer *= cnp.PyArray_DIM(x, d)
    for d in range(axis + 1, cnp.PyArray_NDIM(x)):
        inner *= cnp.PyArray_DIM(x, d)
    return outer, inner


def running_extreme(cnp.ndarray input, int axis, bint greatest):
    """Running extremes of a float32 or float64 array with dimensions, and where each was last met."""
    cdef cnp.ndarray x = np.ascontiguousarray(input)
    cdef cnp.ndarray values = np.empty_like(x)
    cdef cnp.ndarray indices = np.empty_like(x, dtype=np.int64)
    cdef bint wide = cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE
    cdef double sign = 1.0 if greatest else -1.0
    cdef Py_ssize_t outer, inner, n = cnp.PyArray_DIM(x, axis)
    cdef void *a = cnp.PyArray_DATA(x)
    cdef void *b = cnp.PyArray_DATA(values)
    cdef cnp.int64_t *c = <cnp.int64_t *>cnp.PyArray_DATA(indices)
    outer, inner = around(x, axis)
    if cnp.PyArray_SIZE(x):
        with nogil:
            if wide:
                keep_greatest[double](<const double *>a, <double *>b, c, outer, n, inner, sign)
            else:
                keep_greatest[float](<const float *>a, <float *>b, c, outer, n, inner, <float>sign)
    return values, indices


def running(cnp.ndarray input, int axis, bint product):
    """Running sums or products of a float32 array with dimensions; complex64 has running sums."""
    cdef cnp.ndarray x = np.ascontiguousarray(input)
    cdef cnp.ndarray out = np.empty_like(x)
    cdef Py_ssize_t outer, inner, n = cnp.PyArray_DIM(x, axis)
    cdef void *a = cnp.PyArray_DATA(x)
    cdef void *b = cnp.PyArray_DATA(out)
    outer, inner = around(x, axis)
    if cnp.PyArray_TYPE(x) == cnp.NPY_CFLOAT:
        inner *= 2
    with nogil:
        run_along(<const float *>a, <float *>b, outer, n, inner, product)
    return out


def cumprod_backward(cnp.ndarray grad, cnp.ndarray input, cnp.ndarray out, int axis):
    """The gradient of running products of arrays of one shape without empty dimensions, and of one dtype.

    Complex `input` and `out` come conjugated.
    """
    kind = np.promote_types(grad.dtype, np.float32)
    cdef cnp.ndarray g = np.ascontiguousarray(grad, dtype=kind)
    cdef cnp.ndarray f = np.ascontiguousarray(input, dtype=kind)
    cdef cnp.ndarray p = np.ascontiguousarray(out, dtype=kind)
    cdef cnp.ndarray found = np.empty_like(g)
    cdef Py_ssize_t outer, inner, n = cnp.PyArray_DIM(g, axis)
    outer, inner = around(g, axis)
    cdef void *a = cnp.PyArray_DATA(g)
    cdef void *b = cnp.PyArray_DATA(f)
    cdef void *c = cnp.PyArray_DATA(p)
    cdef void *d = cnp.PyArray_DATA(found)
    cdef int code = cnp.PyArray_TYPE(g)
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
        else:
            recur_back[cython.floatcomplex](
                <const float complex *>a, <const float complex *>b, <const float complex *>c,
                <float complex *>d, outer, n, inner
            )
    return found.astype(grad.dtype, copy=False)


def linear_scan(cnp.ndarray factor, cnp.ndarray term, int axis):
    """The recurrence along `axis` of two arrays of one shape without empty dimensions; float16 goes through float32."""
    kind = np.promote_types(term.dtype, np.float32)
    cdef cnp.ndarray f = np.ascontiguousarray(factor, dtype=kind)
    cdef cnp.ndarray t = np.ascontiguousarray(term, dtype=kind)
    cdef cnp.ndarray out = np.empty_like(t)
    cdef Py_ssize_t outer, inner, n = cnp.PyArray_DIM(t, axis)
    outer, inner = around(t, axis)
    cdef void *a = cnp.PyArray_DATA(f)
    cdef void *b = cnp.PyArray_DATA(t)
    cdef void *c = cnp.PyArray_DATA(out)
    cdef int code = cnp.PyArray_TYPE(t)
    with nogil:
        if code == cnp.NPY_DOUBLE:
            recur[double](<const double *>a, <const double *>b, <double *>c, outer, n, inner)
        elif code == cnp.NPY_FLOAT:
            recur[float](<const float *>a, <const float *>b, <float *>c, outer, n, inner)
        elif code == cnp.NPY_CDOUBLE:
            recur[cython.doublecomplex](
                <const double complex *>a, <const double complex *>b, <double complex *>c, outer, n, inner
            )
        else:
            recur[cython.floatcomplex](
                <const float complex *>a, <const float complex *>b, <float complex *>c, outer, n, inner
            )
    return out.astype(term.dtype, copy=False)
