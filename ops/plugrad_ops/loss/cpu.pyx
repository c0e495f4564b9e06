# cython: boundscheck=False, wraparound=False
"""Cross entropy over class indices, in C: one pass per row instead of a dozen calls of NumPy.

(a) For C-contiguous float32 and float64 logits with the classes last, and int64 targets. Everything else goes to the
    NumPy functions of the declaration.
(b) A row needs no memory but the gradient's own: its exponentials are written there (forward: into one row of scratch),
    in a loop that vectorises, then summed in double.
(c) The greatest element is taken out first unless it is infinite, as in `stable_logsumexp`.
"""

cimport numpy as cnp
from libc.math cimport isfinite, isnan, log
from libc.stdlib cimport free, malloc

from plugrad.graph.op cimport Kernel
cimport plugrad_ops.vector_math  # its macros  # no-cython-lint

from plugrad.graph.backend import backend_named

cnp.import_array()

cdef extern from *:
    """
    #if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
    #define PG_ROW __attribute__((target_clones("avx2", "default"), optimize("no-trapping-math"))) static void
    #else
    #define PG_ROW static void
    #endif
    #define PG_EXP_ROW(T)                                                                     \\
        PG_ROW pg_exp_row_##T(const T *x, T *restrict out, T shift, Py_ssize_t n) {           \\
            for (Py_ssize_t i = 0; i < n; i++) out[i] = PG_EXP(x[i] - shift); }               \\
        PG_ROW pg_scale_row_##T(T *out, T scale, T shift, Py_ssize_t n) {                     \\
            for (Py_ssize_t i = 0; i < n; i++) out[i] = out[i] * scale + shift; }
    PG_EXP_ROW(float)
    PG_EXP_ROW(double)
    """
    void pg_exp_row_float(const float *x, float *out, float shift, Py_ssize_t n) noexcept nogil
    void pg_exp_row_double(const double *x, double *out, double shift, Py_ssize_t n) noexcept nogil
    void pg_scale_row_float(float *out, float scale, float shift, Py_ssize_t n) noexcept nogil
    void pg_scale_row_double(double *out, double scale, double shift, Py_ssize_t n) noexcept nogil

ctypedef fused real:
    float
    double

cdef object CPU = backend_named("cpu")


cdef inline double row_exp(const real *x, real *out, Py_ssize_t n, real *shift) noexcept nogil:
    """Write exp(x - shift) and return its sum; the shift is the greatest finite element, or 0."""
    cdef real top = x[0]
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(1, n):
        top = x[i] if x[i] > top or isnan(x[i]) else top
    if not isfinite(top):
        top = 0
    shift[0] = top
    if real is float:
        pg_exp_row_float(x, out, top, n)
    else:
        pg_exp_row_double(x, out, top, n)
    for i in range(n):
        total += out[i]
    return total


cdef Py_ssize_t forward(
    const real *x, const cnp.int64_t *target, real *losses, real *scratch, Py_ssize_t rows, Py_ssize_t n,
    cnp.int64_t ignored, double smoothing, double *total
) noexcept nogil:
    """Losses of all rows and their sum; returns how many rows count, or -1 - i if target i is no class."""
    cdef Py_ssize_t i, j, kept = 0
    cdef double loss, scale, even
    cdef real shift
    total[0] = 0.0
    for i in range(rows):
        if target[i] == ignored:
            if losses != NULL:
                losses[i] = 0
            continue
        if target[i] < 0 or target[i] >= n:
            return -1 - i
        scale = log(row_exp(&x[i * n], scratch, n, &shift)) + shift
        loss = scale - x[i * n + target[i]]
        if smoothing != 0.0:
            even = 0.0
            for j in range(n):
                even += x[i * n + j]
            loss = (1.0 - smoothing) * loss + smoothing * (scale - even / n)
        if losses != NULL:
            losses[i] = <real>loss
        total[0] += loss
        kept += 1
    return kept


cdef void backward(
    const real *x, const cnp.int64_t *target, const real *grad, Py_ssize_t grad_step, double divisor, real *out,
    Py_ssize_t rows, Py_ssize_t n, cnp.int64_t ignored, double smoothing
) noexcept nogil:
    """grad * (softmax - wanted), where wanted is one-hot but for the share `smoothing` spread evenly."""
    cdef Py_ssize_t i, j
    cdef double factor, total
    cdef real shift
    for i in range(rows):
        if target[i] == ignored:
            for j in range(n):
                out[i * n + j] = 0
            continue
        factor = grad[i * grad_step] / divisor
        total = row_exp(&x[i * n], &out[i * n], n, &shift)
        if real is float:
            pg_scale_row_float(&out[i * n], <float>(factor / total), <float>(-factor * smoothing / n), n)
        else:
            pg_scale_row_double(&out[i * n], factor / total, -factor * smoothing / n, n)
        out[i * n + target[i]] -= <real>(factor * (1.0 - smoothing))


cdef bint suits(cnp.ndarray x, cnp.ndarray target):
    """Whether the loops take these arrays."""
    cdef int kind = cnp.PyArray_TYPE(x)
    return (
        (kind == cnp.NPY_FLOAT or kind == cnp.NPY_DOUBLE)
        and cnp.PyArray_TYPE(target) == cnp.NPY_INT64
        and cnp.PyArray_ISCARRAY_RO(x)
        and cnp.PyArray_ISCARRAY_RO(target)
        and (cnp.PyArray_NDIM(x) == 1 or cnp.PyArray_NDIM(x) == 2)
        and cnp.PyArray_NDIM(target) == cnp.PyArray_NDIM(x) - 1
        and (cnp.PyArray_NDIM(x) == 1 or cnp.PyArray_DIM(x, 0) == cnp.PyArray_DIM(target, 0))
        and cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1) > 0
    )


cdef class CrossEntropy(Kernel):
    """The forward kernel; constants are ignore_index, reduction and label_smoothing, in that order."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray x = <cnp.ndarray>args[0], target = <cnp.ndarray>args[1], out
        cdef object reduction = args[3]
        cdef double smoothing = args[4], total
        cdef cnp.int64_t ignored = args[2]
        cdef Py_ssize_t n, rows, kept
        cdef void *losses = NULL
        cdef void *scratch
        if not suits(x, target) or reduction not in ("mean", "sum", "none") or not 0.0 <= smoothing <= 1.0:
            return self.otherwise.call(args, kwnames)
        n = cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1)
        rows = cnp.PyArray_SIZE(target)
        out = <cnp.ndarray>cnp.PyArray_EMPTY(
            cnp.PyArray_NDIM(target) if reduction == "none" else 0, cnp.PyArray_DIMS(target), cnp.PyArray_TYPE(x), 0
        )
        if reduction == "none":
            losses = cnp.PyArray_DATA(out)
        scratch = malloc(n * cnp.PyArray_ITEMSIZE(x))
        if scratch == NULL:
            raise MemoryError()
        with nogil:
            if cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT:
                kept = forward[float](
                    <const float *>cnp.PyArray_DATA(x), <const cnp.int64_t *>cnp.PyArray_DATA(target), <float *>losses,
                    <float *>scratch, rows, n, ignored, smoothing, &total
                )
            else:
                kept = forward[double](
                    <const double *>cnp.PyArray_DATA(x), <const cnp.int64_t *>cnp.PyArray_DATA(target),
                    <double *>losses, <double *>scratch, rows, n, ignored, smoothing, &total
                )
        free(scratch)
        if kept < 0:
            return self.otherwise.call(args, kwnames)  # which names the target
        if losses == NULL:
            if reduction == "mean":
                total = total / kept if kept else float("nan")
            if cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT:
                (<float *>cnp.PyArray_DATA(out))[0] = <float>total
            else:
                (<double *>cnp.PyArray_DATA(out))[0] = total
        return out


def cross_entropy_gradient(
    cnp.ndarray grad, cnp.ndarray input, cnp.ndarray target, ignore_index, str reduction, double label_smoothing
):
    """The gradient of the logits; None where the loops do not take these arrays."""
    cdef double divisor = 1.0
    cdef cnp.int64_t ignored = ignore_index
    cdef const cnp.int64_t *t
    cdef cnp.ndarray out
    cdef Py_ssize_t n, rows, i, kept = 0, step = 1 if reduction == "none" else 0
    cdef int kind = cnp.PyArray_TYPE(input)
    if not suits(input, target) or cnp.PyArray_TYPE(grad) != kind or not cnp.PyArray_ISCARRAY_RO(grad):
        return None
    n = cnp.PyArray_DIM(input, cnp.PyArray_NDIM(input) - 1)
    rows = cnp.PyArray_SIZE(target)
    t = <const cnp.int64_t *>cnp.PyArray_DATA(target)
    if reduction == "mean":
        for i in range(rows):
            kept += t[i] != ignored
        divisor = kept
    out = <cnp.ndarray>cnp.PyArray_EMPTY(cnp.PyArray_NDIM(input), cnp.PyArray_DIMS(input), kind, 0)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            backward[float](
                <const float *>cnp.PyArray_DATA(input), t, <const float *>cnp.PyArray_DATA(grad), step, divisor,
                <float *>cnp.PyArray_DATA(out), rows, n, ignored, label_smoothing
            )
        else:
            backward[double](
                <const double *>cnp.PyArray_DATA(input), t, <const double *>cnp.PyArray_DATA(grad), step, divisor,
                <double *>cnp.PyArray_DATA(out), rows, n, ignored, label_smoothing
            )
    return out
