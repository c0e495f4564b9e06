# cython: boundscheck=False, wraparound=False
"""CPU loops along a dimension: recurrences, for which NumPy would take one call per step, and running extremes."""

cimport cython
cimport numpy as cnp
import numpy as np

cimport plugrad.backends.simd  # its macros  # no-cython-lint
from plugrad.backends.memory cimport is_dense
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.recycling cimport fresh_like

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


# ---- running sums and products -------------------------------------------------------------------------------

cdef extern from *:
    """
    enum { PG_TOGETHER = 8, PG_TILE = 1024 };   /* PG_TILE running numbers stay in the nearest cache */
    #define PG_RUNNING_OF(name, T, START, OP)                                                                     \\
    /* along `lines` lines of n, up to PG_TOGETHER: one alone would wait for each sum before the next */          \\
    PG_VECTOR static void name##_along_##T(const void *vx, void *vo, Py_ssize_t n, Py_ssize_t step, int lines,    \\
                                           Py_ssize_t apart) {                                                    \\
        const T *x = vx; T *restrict o = vo; double at[PG_TOGETHER];                                              \\
        for (int k = 0; k < PG_TOGETHER; k++) at[k] = START;                                                      \\
        if (lines == PG_TOGETHER)                                                                                 \\
            for (Py_ssize_t i = 0; i < n; i++)                                                                    \\
                for (int k = 0; k < PG_TOGETHER; k++) {                                                           \\
                    at[k] = at[k] OP x[i * step + k * apart]; o[i * step + k * apart] = (T)at[k]; }               \\
        else                                                                                                      \\
            for (int k = 0; k < lines; k++)                                                                       \\
                for (Py_ssize_t i = 0; i < n; i++) {                                                              \\
                    at[k] = at[k] OP x[i * step + k * apart]; o[i * step + k * apart] = (T)at[k]; }               \\
    }                                                                                                             \\
    /* across n rows of up to PG_TILE neighbours */                                                               \\
    PG_VECTOR static void name##_across_##T(const void *vx, void *vo, Py_ssize_t n, Py_ssize_t step,              \\
                                            Py_ssize_t many) {                                                    \\
        const T *x = vx; T *restrict o = vo; double at[PG_TILE];                                                  \\
        for (Py_ssize_t j = 0; j < many; j++) at[j] = START;                                                      \\
        for (Py_ssize_t i = 0; i < n; i++, x += step, o += step)                                                  \\
            for (Py_ssize_t j = 0; j < many; j++) { at[j] = at[j] OP x[j]; o[j] = (T)at[j]; }                     \\
    }
    typedef struct {
        void (*along)(const void *, void *, Py_ssize_t, Py_ssize_t, int, Py_ssize_t);
        void (*across)(const void *, void *, Py_ssize_t, Py_ssize_t, Py_ssize_t);
    } pg_running;
    #define PG_RUNNING(name, START, OP)                                                                           \\
    PG_RUNNING_OF(name, float, START, OP) PG_RUNNING_OF(name, double, START, OP)                                  \\
    static const pg_running name[2] = {{name##_along_float, name##_across_float},                                 \\
                                       {name##_along_double, name##_across_double}};
    PG_RUNNING(pg_sums_so_far, 0, +)
    PG_RUNNING(pg_products_so_far, 1, *)
    """
    ctypedef struct Loops "pg_running":
        void (*along)(const void *, void *, Py_ssize_t, Py_ssize_t, int, Py_ssize_t) noexcept nogil
        void (*across)(const void *, void *, Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil
    const Loops[2] pg_sums_so_far, pg_products_so_far

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
