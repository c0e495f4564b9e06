# cython: boundscheck=False, wraparound=False
"""Cross entropy over class indices, in C: one pass over the logits, in pieces that stay in the nearest cache.

(a) For float32 and float64 logits (C) or (N, C) in C order, or few enough to be copied, and int64 targets. Everything
    else goes to the NumPy functions of the declaration.
(b) Short rows are taken together until they fill a block, so that their exponentials are one loop that vectorises
    however few the classes are; long ones are taken as softmax takes them. No memory is needed but a block on the
    stack; backward writes them into the gradient.
(c) Exponentials are summed in double, in an order that depends on the number of classes alone.
(d) The greatest element is taken out first unless it is infinite, as in `stable_logsumexp`. A NaN among the others may
    be overlooked there: the loss is NaN in any case.
(e) Threads share the rows. Losses of rows are added in their order, whatever the number of threads.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.math cimport INFINITY, NAN, isfinite, log
from libc.stdlib cimport free, malloc

from plugrad.backends.copies cimport contiguous
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.recycling cimport fresh
from plugrad.graph.op cimport Kernel
from plugrad_ops.activation.softmax_walk cimport row_sums
cimport plugrad_ops.loops  # its macros  # no-cython-lint
cimport plugrad_ops.vector_math  # its macros  # no-cython-lint

from plugrad.backends import CPU

cnp.import_array()

cdef extern from *:
    """
    #define PG_ROWS(T)                                                                            \\
        /* The greatest element of each row. */                                                   \\
        PG_LOOP pg_tops_##T(const T *x, T *restrict tops, Py_ssize_t rows, Py_ssize_t n) {        \\
            for (; rows > 0; rows--, x += n) {                                                    \\
                T top = x[0];                                                                     \\
                for (Py_ssize_t j = 1; j < n; j++) top = x[j] > top ? x[j] : top;                 \\
                *tops++ = top; } }                                                                \\
        /* exp(x - shift) of each row's own shift; their sums are added to `totals`. */           \\
        PG_LOOP pg_exps_##T(const T *x, const T *shifts, T *restrict out, double *restrict totals, \\
                            Py_ssize_t rows, Py_ssize_t n) {                                      \\
            Py_ssize_t i, j; int k;                                                               \\
            for (i = 0; i < rows; i++)                                                            \\
                for (j = 0; j < n; j++) out[i * n + j] = x[i * n + j] - shifts[i];                \\
            for (i = 0; i < rows * n; i++) out[i] = PG_EXP(out[i]);                               \\
            for (i = 0; i < rows; i++, out += n) {                                                \\
                double lane[8] = {0}, total = 0;                                                  \\
                for (j = 0; j + 8 <= n; j += 8)                                                   \\
                    for (k = 0; k < 8; k++) lane[k] += out[j + k];                                \\
                for (; j < n; j++) total += out[j];                                               \\
                for (k = 0; k < 8; k++) total += lane[k];                                         \\
                totals[i] += total; } }                                                           \\
        PG_LOOP pg_scale_##T(T *out, T scale, T shift, Py_ssize_t n) {                            \\
            for (Py_ssize_t i = 0; i < n; i++) out[i] = out[i] * scale + shift; }
    PG_ROWS(float)
    PG_ROWS(double)
    """
    void pg_tops_float(const float *x, float *tops, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void pg_tops_double(const double *x, double *tops, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void pg_exps_float(
        const float *x, const float *shifts, float *out, double *totals, Py_ssize_t rows, Py_ssize_t n
    ) noexcept nogil
    void pg_exps_double(
        const double *x, const double *shifts, double *out, double *totals, Py_ssize_t rows, Py_ssize_t n
    ) noexcept nogil
    void pg_scale_float(float *out, float scale, float shift, Py_ssize_t n) noexcept nogil
    void pg_scale_double(double *out, double scale, double shift, Py_ssize_t n) noexcept nogil

ctypedef fused real:
    float
    double

cdef enum:
    BLOCK = 2048        # elements
    MOST_ROWS = 128     # of a block
    LONG = 64           # elements of a row
    SHARED_FROM = 32768  # elements that are worth several threads

cdef struct Work:
    const void *x
    const cnp.int64_t *target
    const void *grad
    void *out
    double *losses
    Py_ssize_t n
    Py_ssize_t grad_step
    cnp.int64_t ignored
    double smoothing
    double divisor


# ---- rows ----------------------------------------------------------------------------------------------------

cdef inline double finite_or_nan(double total) noexcept nogil:
    """Beside an infinite element there are no probabilities, and inf - inf would be met in some of the classes only."""
    return NAN if total == INFINITY else total


cdef inline void sums_of(
    const real *x, real *tops, real *out, double *totals, Py_ssize_t rows, Py_ssize_t n, bint keep
) noexcept nogil:
    """What is subtracted from each row, its greatest element or 0 for an infinite one; sums of the exponentials.

    Those of short rows are written in any case.
    """
    cdef double[2] found
    cdef Py_ssize_t i
    if n >= LONG:
        for i in range(rows):
            row_sums(real is double, x + i * n, out + i * n if keep else NULL, n, found)
            tops[i], totals[i] = <real>found[0], finite_or_nan(found[1])
        return
    if real is float:
        pg_tops_float(x, tops, rows, n)
    else:
        pg_tops_double(x, tops, rows, n)
    for i in range(rows):
        totals[i] = 0.0
        if not isfinite(tops[i]):
            tops[i] = 0
    if real is float:
        pg_exps_float(x, tops, out, totals, rows, n)
    else:
        pg_exps_double(x, tops, out, totals, rows, n)
    for i in range(rows):
        totals[i] = finite_or_nan(totals[i])


cdef inline Py_ssize_t rows_together(Py_ssize_t n) noexcept nogil:
    return max(1, min(<Py_ssize_t>MOST_ROWS, BLOCK // n))


cdef void forward(Work *the, const real *x, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """The losses of rows; their targets are classes, or ignored."""
    cdef real[BLOCK] exps
    cdef real[MOST_ROWS] tops
    cdef double[MOST_ROWS] totals
    cdef Py_ssize_t n = the.n, i = begin, j, r, rows
    cdef double scale, even
    cdef const real *row
    while i < end:
        rows = min(rows_together(n), end - i)
        row = x + i * n
        sums_of(row, tops, exps, totals, rows, n, False)
        for r in range(rows):
            if the.target[i] == the.ignored:
                the.losses[i] = 0.0
            else:
                scale = log(totals[r]) + tops[r]
                the.losses[i] = scale - row[the.target[i]]
                if the.smoothing != 0.0:
                    even = 0.0
                    for j in range(n):
                        even += row[j]
                    the.losses[i] = (1.0 - the.smoothing) * the.losses[i] + the.smoothing * (scale - even / n)
            row += n
            i += 1


cdef void backward(Work *the, const real *x, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """grad * (softmax - wanted), where wanted is one-hot but for the share `smoothing` spread evenly."""
    cdef real *out = <real *>the.out
    cdef const real *grad = <const real *>the.grad
    cdef real[MOST_ROWS] tops
    cdef double[MOST_ROWS] totals
    cdef Py_ssize_t n = the.n, i = begin, j, r, rows
    cdef double factor
    while i < end:
        rows = min(rows_together(n), end - i)
        sums_of(x + i * n, tops, out + i * n, totals, rows, n, True)
        for r in range(rows):
            if the.target[i] == the.ignored:
                for j in range(n):
                    out[i * n + j] = 0
            else:
                factor = grad[i * the.grad_step] / the.divisor
                if real is float:
                    pg_scale_float(out + i * n, <float>(factor / totals[r]), <float>(-factor * the.smoothing / n), n)
                else:
                    pg_scale_double(out + i * n, factor / totals[r], -factor * the.smoothing / n, n)
                out[i * n + the.target[i]] -= <real>(factor * (1.0 - the.smoothing))
            i += 1


cdef void forward_float(void *the, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    forward[float](<Work *>the, <const float *>(<Work *>the).x, begin, end)


cdef void forward_double(void *the, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    forward[double](<Work *>the, <const double *>(<Work *>the).x, begin, end)


cdef void backward_float(void *the, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    backward[float](<Work *>the, <const float *>(<Work *>the).x, begin, end)


cdef void backward_double(void *the, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    backward[double](<Work *>the, <const double *>(<Work *>the).x, begin, end)


cdef inline void share(Work *the, Py_ssize_t rows, bint narrow, bint back) noexcept nogil:
    """Run over all rows, in several threads where that is worth it."""
    if back:
        parallel_for(rows, max(1, SHARED_FROM // 2 // the.n), backward_float if narrow else backward_double, the)
    else:
        parallel_for(rows, max(1, SHARED_FROM // 2 // the.n), forward_float if narrow else forward_double, the)


# ---- kernels -------------------------------------------------------------------------------------------------

cdef bint suits(cnp.ndarray x, cnp.ndarray target) noexcept:
    """Whether the loops take these arrays."""
    cdef int kind = cnp.PyArray_TYPE(x)
    return (
        (kind == cnp.NPY_FLOAT or kind == cnp.NPY_DOUBLE)
        and cnp.PyArray_TYPE(target) == cnp.NPY_INT64
        and cnp.PyArray_ISBEHAVED_RO(x)
        and cnp.PyArray_ISCARRAY_RO(target)
        and (cnp.PyArray_NDIM(x) == 1 or cnp.PyArray_NDIM(x) == 2)
        and cnp.PyArray_NDIM(target) == cnp.PyArray_NDIM(x) - 1
        and (cnp.PyArray_NDIM(x) == 1 or cnp.PyArray_DIM(x, 0) == cnp.PyArray_DIM(target, 0))
        and cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1) > 0
    )


cdef Py_ssize_t count_kept(
    const cnp.int64_t *target, Py_ssize_t rows, cnp.int64_t ignored, Py_ssize_t n
) noexcept nogil:
    """How many targets are not ignored; -1 if one of them is no class."""
    cdef Py_ssize_t i, kept = 0
    for i in range(rows):
        if target[i] != ignored:
            if target[i] < 0 or target[i] >= n:
                return -1
            kept += 1
    return kept


cdef class CrossEntropy(Kernel):
    """The forward kernel; constants are ignore_index, reduction and label_smoothing, in that order."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray x = <cnp.ndarray>args[0], target = <cnp.ndarray>args[1], out
        cdef object reduction = args[3]
        cdef Work the
        cdef double[MOST_ROWS] few
        cdef double total = 0.0
        cdef Py_ssize_t rows, kept, i
        cdef bint narrow
        the.smoothing, the.ignored = args[4], args[2]
        if not suits(x, target) or reduction not in ("mean", "sum", "none") or not 0.0 <= the.smoothing <= 1.0:
            return self.otherwise.call(args, kwnames)
        x = contiguous(x)
        the.n, rows = cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1), cnp.PyArray_SIZE(target)
        the.x, the.target = cnp.PyArray_DATA(x), <const cnp.int64_t *>cnp.PyArray_DATA(target)
        kept = count_kept(the.target, rows, the.ignored, the.n)
        if kept < 0:
            return self.otherwise.call(args, kwnames)  # which names the target
        narrow = cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT
        the.losses = &few[0]
        if rows > MOST_ROWS:
            the.losses = <double *>malloc(rows * sizeof(double))
        if the.losses == NULL:
            raise MemoryError
        if rows * the.n < SHARED_FROM:
            share(&the, rows, narrow, False)
        else:
            with nogil:
                share(&the, rows, narrow, False)
        out = fresh(
            cnp.PyArray_NDIM(target) if reduction == "none" else 0, cnp.PyArray_DIMS(target), cnp.PyArray_TYPE(x)
        )
        if reduction == "none":
            for i in range(rows):
                write(out, i, the.losses[i])
        else:
            for i in range(rows):
                total += the.losses[i]
            if reduction == "mean":
                total = total / kept if kept else float("nan")
            write(out, 0, total)
        if rows > MOST_ROWS:
            free(the.losses)
        return out


cdef inline void write(cnp.ndarray out, Py_ssize_t i, double value) noexcept:
    if cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT:
        (<float *>cnp.PyArray_DATA(out))[i] = <float>value
    else:
        (<double *>cnp.PyArray_DATA(out))[i] = value


cdef class CrossEntropyGradient(Kernel):
    """The backward kernel, from (grad, input, target, ignore_index, reduction, label_smoothing)."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef cnp.ndarray grad = <cnp.ndarray>args[0], x = <cnp.ndarray>args[1], target = <cnp.ndarray>args[2], out
        cdef object reduction = <object>args[4]
        cdef Work the
        cdef Py_ssize_t rows, kept
        cdef bint narrow
        if (
            not suits(x, target) or cnp.PyArray_TYPE(grad) != cnp.PyArray_TYPE(x)
            or not cnp.PyArray_ISCARRAY_RO(grad)
        ):
            return self.otherwise.call_all(args, n)
        x = contiguous(x)
        the.ignored, the.smoothing = <object>args[3], <object>args[5]
        the.n, rows = cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1), cnp.PyArray_SIZE(target)
        the.x, the.target = cnp.PyArray_DATA(x), <const cnp.int64_t *>cnp.PyArray_DATA(target)
        kept = count_kept(the.target, rows, the.ignored, the.n)
        if kept < 0:
            return self.otherwise.call_all(args, n)
        the.divisor = kept if reduction == "mean" else 1.0
        the.grad, the.grad_step = cnp.PyArray_DATA(grad), reduction == "none"
        narrow = cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT
        out = fresh(cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x), cnp.PyArray_TYPE(x))
        the.out = cnp.PyArray_DATA(out)
        if rows * the.n < SHARED_FROM:
            share(&the, rows, narrow, True)
        else:
            with nogil:
                share(&the, rows, narrow, True)
        return out, None
