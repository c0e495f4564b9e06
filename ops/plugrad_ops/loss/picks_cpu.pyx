# cython: boundscheck=False, wraparound=False
"""CPU kernels of losses that pick one class of each sample: the negative log likelihood, and margins between scores.

(a) For float32 and float64 inputs and int64 targets; everything else goes to the NumPy functions of the declarations,
    and so does a target that is no class, which they name.
(b) Losses are added in double and in their order, whatever the number of threads.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from plugrad.backends.copies cimport contiguous
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.real cimport is_real
from plugrad.backends.recycling cimport fresh
from plugrad.graph.op cimport Kernel
cimport plugrad_ops.loops  # its macros  # no-cython-lint

from plugrad.backends import CPU

cnp.import_array()

cdef extern from *:
    """
    #if defined(__GNUC__) && !defined(__clang__)
    #define PG_KEPT_LOOP _Pragma("GCC unroll 1")    /* a short loop that is unrolled is not vectorised any more */
    #else
    #define PG_KEPT_LOOP
    #endif
    #define PG_POSITIVE(v) ((v) <= 0 ? 0 : (v))     /* NaN stays NaN */
    #define PG_LACKS(T)                                                                               \\
        /* total += the sum of what x exceeds `least` by, or its square. */                           \\
        PG_LOOP pg_lacks_##T(const T *x, Py_ssize_t n, T least, int square, double *total) {          \\
            enum { W = 128 / sizeof(T) };                                                             \\
            for (Py_ssize_t i = 0; i < n;) {                                                          \\
                const Py_ssize_t end = n - i > 1024 ? i + 1024 : n;                                   \\
                T s[W] = {0};                                                                         \\
                if (square) for (; i + W <= end; i += W) PG_KEPT_LOOP for (int k = 0; k < W; k++) {   \\
                    const T v = PG_POSITIVE(x[i + k] - least); s[k] += v * v; }                       \\
                else for (; i + W <= end; i += W) PG_KEPT_LOOP for (int k = 0; k < W; k++)            \\
                    s[k] += PG_POSITIVE(x[i + k] - least);                                            \\
                for (; i < end; i++) {                                                                \\
                    const T v = PG_POSITIVE(x[i] - least); *total += square ? v * v : v; }            \\
                for (int k = 0; k < W; k++) *total += s[k];                                           \\
            } }                                                                                       \\
        /* The derivatives of that, times a factor, and their sum. */                                 \\
        PG_LOOP pg_lack_slopes_##T(const T *x, T *restrict o, Py_ssize_t n, T least, int square,      \\
                                   T factor, double *total) {                                         \\
            enum { W = 128 / sizeof(T) };                                                             \\
            if (square) for (Py_ssize_t i = 0; i < n; i++) {                                          \\
                const T v = x[i] - least; o[i] = v <= 0 ? 0 : factor * (2 * v); }                     \\
            else for (Py_ssize_t i = 0; i < n; i++) {                                                 \\
                const T v = x[i] - least; o[i] = v <= 0 ? 0 : v == v ? factor : v; }                  \\
            for (Py_ssize_t i = 0; i < n;) {                                                          \\
                const Py_ssize_t end = n - i > 1024 ? i + 1024 : n;                                   \\
                T s[W] = {0};                                                                         \\
                for (; i + W <= end; i += W) PG_KEPT_LOOP for (int k = 0; k < W; k++) s[k] += o[i + k]; \\
                for (; i < end; i++) *total += o[i];                                                  \\
                for (int k = 0; k < W; k++) *total += s[k];                                           \\
            } }
    PG_LACKS(float)
    PG_LACKS(double)
    """
    void pg_lacks_float(const float *, Py_ssize_t, float, int, double *) noexcept nogil
    void pg_lacks_double(const double *, Py_ssize_t, double, int, double *) noexcept nogil
    void pg_lack_slopes_float(const float *, float *, Py_ssize_t, float, int, float, double *) noexcept nogil
    void pg_lack_slopes_double(const double *, double *, Py_ssize_t, double, int, double, double *) noexcept nogil

ctypedef fused real:
    float
    double

cdef enum:
    FEW = 128       # losses that need no memory
    GRAIN = 16_384  # elements that are worth a thread's attention

cdef struct Job:
    const char *x
    const cnp.int64_t *target
    const char *grad
    char *out
    double *losses
    Py_ssize_t rows, classes, inner     # of a sample's `inner` neighbours each has a target
    Py_ssize_t sample, step, apart      # from a sample, class or neighbour to the next, in elements
    Py_ssize_t grad_step
    double divisor, margin
    bint square


cdef inline bint is_target(object array) noexcept:
    return (
        cnp.PyArray_CheckExact(array) and cnp.PyArray_TYPE(<cnp.ndarray>array) == cnp.NPY_INT64
        and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>array)
    )


cdef bint locate(Job *job, int nd, const cnp.npy_intp *dims, cnp.ndarray target):
    """Set numbers of samples, classes and neighbours of an array in C order; whether the target has their shape."""
    cdef int d, at = 0
    if nd < 1 or cnp.PyArray_NDIM(target) != nd - 1:
        return False
    job.inner = 1
    for d in range(nd):
        if d != (0 if nd == 1 else 1):
            if dims[d] != cnp.PyArray_DIM(target, at):
                return False
            job.inner *= dims[d] if d > 1 else 1
            at += 1
    job.classes = dims[0 if nd == 1 else 1]
    job.rows = cnp.PyArray_SIZE(target)
    job.step = job.inner
    job.apart, job.sample = 1, job.classes * job.inner
    job.target = <const cnp.int64_t *>cnp.PyArray_DATA(target)
    return True


cdef Py_ssize_t count_kept(const Job *job, cnp.int64_t ignored) noexcept:
    """How many targets are not ignored; -1 if one of them is no class."""
    cdef Py_ssize_t i, kept = 0
    for i in range(job.rows):
        if job.target[i] != ignored:
            if job.target[i] < 0 or job.target[i] >= job.classes:
                return -1
            kept += 1
    return kept


cdef cnp.ndarray result(cnp.ndarray target, int type_num, object reduction, const double *losses, double count):
    """Losses of all targets, reduced."""
    cdef Py_ssize_t i, n = cnp.PyArray_SIZE(target)
    cdef bint each = reduction == "none"
    cdef cnp.ndarray out = fresh(cnp.PyArray_NDIM(target) if each else 0, cnp.PyArray_DIMS(target), type_num)
    cdef double total = 0.0
    if each:
        for i in range(n):
            write(out, i, losses[i])
        return out
    for i in range(n):
        total += losses[i]
    write(out, 0, total / count if reduction == "mean" else total)
    return out


cdef inline void write(cnp.ndarray out, Py_ssize_t i, double value) noexcept:
    if cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT:
        (<float *>cnp.PyArray_DATA(out))[i] = <float>value
    else:
        (<double *>cnp.PyArray_DATA(out))[i] = value


cdef class Picking(Kernel):
    """What the forward kernels here share."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)


# ---- negative log likelihood ---------------------------------------------------------------------------------

cdef inline Py_ssize_t place(const Job *job, Py_ssize_t i) noexcept nogil:
    """Where the class that target i names lies, in elements."""
    return i // job.inner * job.sample + i % job.inner * job.apart + job.target[i] * job.step


cdef class Nll(Picking):
    """From (input, target, ignore_index, reduction)."""

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray x, target
        cdef object reduction = args[3]
        cdef double[FEW] few
        cdef Job job
        cdef cnp.int64_t ignored = args[2]
        cdef Py_ssize_t i, kept
        cdef int nd
        if not is_real(args[0]) or not is_target(args[1]) or reduction not in ("mean", "sum", "none"):
            return self.otherwise.call(args, kwnames)
        x, target = <cnp.ndarray>args[0], <cnp.ndarray>args[1]
        nd = cnp.PyArray_NDIM(x)
        if nd > 2 and not cnp.PyArray_IS_C_CONTIGUOUS(x) or not locate(&job, nd, cnp.PyArray_DIMS(x), target):
            return self.otherwise.call(args, kwnames)
        if nd <= 2:
            job.sample = cnp.PyArray_STRIDE(x, 0) // cnp.PyArray_ITEMSIZE(x)
            job.step = cnp.PyArray_STRIDE(x, nd - 1) // cnp.PyArray_ITEMSIZE(x)
        kept = count_kept(&job, ignored)
        if kept < 0:
            return self.otherwise.call(args, kwnames)
        job.losses = &few[0] if job.rows <= FEW else <double *>malloc(job.rows * sizeof(double))
        if job.losses == NULL:
            raise MemoryError
        for i in range(job.rows):
            if job.target[i] == ignored:
                job.losses[i] = 0.0
            elif cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT:
                job.losses[i] = -(<const float *>cnp.PyArray_DATA(x))[place(&job, i)]
            else:
                job.losses[i] = -(<const double *>cnp.PyArray_DATA(x))[place(&job, i)]
        try:
            return result(target, cnp.PyArray_TYPE(x), reduction, job.losses, <double>kept)
        finally:
            if job.losses != &few[0]:
                free(job.losses)


cdef void clear(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    memset((<Job *>context).out + begin, 0, end - begin)


cdef class NllGradient(Picking):
    """From (grad, target, like, ignore_index, reduction)."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef cnp.ndarray grad, target, out
        cdef object reduction = <object>args[4]
        cdef tuple shape
        cdef cnp.npy_intp[64] dims
        cdef Job job
        cdef cnp.int64_t ignored = <object>args[3]
        cdef Py_ssize_t i, kept
        cdef double value
        if not is_real(<object>args[0]) or not is_target(<object>args[1]):
            return self.otherwise.call_all(args, n)
        grad, target = contiguous(<cnp.ndarray>args[0]), <cnp.ndarray>args[1]
        shape = (<object>args[2])[0].shape
        for i in range(len(shape)):
            dims[i] = shape[i]
        if not locate(&job, <int>len(shape), dims, target):
            return self.otherwise.call_all(args, n)
        kept = count_kept(&job, ignored)
        if kept < 0:
            return self.otherwise.call_all(args, n)
        out = fresh(<int>len(shape), dims, cnp.PyArray_TYPE(grad))
        job.out = cnp.PyArray_BYTES(out)
        if cnp.PyArray_NBYTES(out) < 4 * GRAIN:
            clear(&job, 0, cnp.PyArray_NBYTES(out))
        else:
            with nogil:
                parallel_for(cnp.PyArray_NBYTES(out), 16 * GRAIN, clear, &job)
        job.grad_step = reduction == "none"
        for i in range(job.rows):
            if job.target[i] == ignored:
                continue
            if cnp.PyArray_TYPE(grad) == cnp.NPY_FLOAT:
                value = (<const float *>cnp.PyArray_DATA(grad))[i * job.grad_step]
            else:
                value = (<const double *>cnp.PyArray_DATA(grad))[i * job.grad_step]
            write(out, place(&job, i), -(value / kept if reduction == "mean" else value))
        return out, None


# ---- margins between scores ----------------------------------------------------------------------------------

cdef void add_lacks(Job *job, const real *x, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t i, at, n = job.classes
    cdef real least
    for i in range(begin, end):
        at = job.target[i]
        least = x[i * n + at] - <real>job.margin
        job.losses[i] = 0.0
        if real is float:
            pg_lacks_float(x + i * n, at, least, job.square, &job.losses[i])
            pg_lacks_float(x + i * n + at + 1, n - at - 1, least, job.square, &job.losses[i])
        else:
            pg_lacks_double(x + i * n, at, least, job.square, &job.losses[i])
            pg_lacks_double(x + i * n + at + 1, n - at - 1, least, job.square, &job.losses[i])
        job.losses[i] /= n


cdef void write_slopes(
    Job *job, const real *x, real *out, const real *grad, Py_ssize_t begin, Py_ssize_t end
) noexcept nogil:
    cdef Py_ssize_t i, at, n = job.classes
    cdef real least, factor
    cdef double total
    for i in range(begin, end):
        at = job.target[i]
        least = x[i * n + at] - <real>job.margin
        factor = <real>(grad[i * job.grad_step] / job.divisor / n)
        total = 0.0
        if real is float:
            pg_lack_slopes_float(x + i * n, out + i * n, at, least, job.square, factor, &total)
            pg_lack_slopes_float(
                x + i * n + at + 1, out + i * n + at + 1, n - at - 1, least, job.square, factor, &total
            )
        else:
            pg_lack_slopes_double(x + i * n, out + i * n, at, least, job.square, factor, &total)
            pg_lack_slopes_double(
                x + i * n + at + 1, out + i * n + at + 1, n - at - 1, least, job.square, factor, &total
            )
        out[i * n + at] = <real>-total


cdef void lacks_float(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    add_lacks[float](<Job *>context, <const float *>(<Job *>context).x, begin, end)


cdef void lacks_double(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    add_lacks[double](<Job *>context, <const double *>(<Job *>context).x, begin, end)


cdef void slopes_float(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Job *job = <Job *>context
    write_slopes[float](job, <const float *>job.x, <float *>job.out, <const float *>job.grad, begin, end)


cdef void slopes_double(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Job *job = <Job *>context
    write_slopes[double](job, <const double *>job.x, <double *>job.out, <const double *>job.grad, begin, end)


cdef bint are_rows(Job *job, object x, object target):
    """Whether these are scores (N, C) with C > 0 and a class for each."""
    if not is_real(x) or not is_target(target) or cnp.PyArray_NDIM(<cnp.ndarray>x) != 2:
        return False
    return (
        locate(job, 2, cnp.PyArray_DIMS(<cnp.ndarray>x), <cnp.ndarray>target)
        and job.classes > 0 and count_kept(job, -1) == job.rows
    )


cdef class Margins(Picking):
    """From (input, target, p, margin, reduction)."""

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray x
        cdef double[FEW] few
        cdef Job job
        cdef int type_num
        if not are_rows(&job, args[0], args[1]) or args[2] not in (1, 2):
            return self.otherwise.call(args, kwnames)
        x = contiguous(<cnp.ndarray>args[0])
        type_num = cnp.PyArray_TYPE(x)
        job.x, job.square, job.margin = cnp.PyArray_BYTES(x), args[2] == 2, args[3]
        job.losses = &few[0] if job.rows <= FEW else <double *>malloc(job.rows * sizeof(double))
        if job.losses == NULL:
            raise MemoryError
        with nogil:
            parallel_for(
                job.rows, GRAIN // job.classes + 1, lacks_float if type_num == cnp.NPY_FLOAT else lacks_double, &job
            )
        try:
            return result(<cnp.ndarray>args[1], type_num, args[4], job.losses, <double>job.rows)
        finally:
            if job.losses != &few[0]:
                free(job.losses)


cdef class MarginsGradient(Picking):
    """From (grad, input, target, p, margin, reduction)."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef cnp.ndarray x, grad, out
        cdef object reduction = <object>args[5]
        cdef Job job
        cdef int type_num
        if not is_real(<object>args[0]) or not are_rows(&job, <object>args[1], <object>args[2]):
            return self.otherwise.call_all(args, n)
        grad = contiguous(<cnp.ndarray>args[0])
        x = contiguous(<cnp.ndarray>args[1])
        type_num = cnp.PyArray_TYPE(x)
        out = fresh(2, cnp.PyArray_DIMS(x), type_num)
        job.x, job.out, job.grad = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out), cnp.PyArray_BYTES(grad)
        job.square, job.margin = <object>args[3] == 2, <object>args[4]
        job.divisor, job.grad_step = job.rows if reduction == "mean" else 1.0, reduction == "none"
        with nogil:
            parallel_for(
                job.rows, GRAIN // job.classes + 1, slopes_float if type_num == cnp.NPY_FLOAT else slopes_double,
                &job
            )
        return out, None
