# cython: boundscheck=False, wraparound=False
"""CPU kernels of errors between predictions and targets: a formula of each pair, reduced as it is computed.

(a) The formula is a loop of plugrad_ops.nary. For a sum or mean it writes a block that stays in the cache, whose
    elements are then added: up to 16 or 32 in their own type, and what that gives in double.
(b) Long arrays are cut into pieces of PIECE elements whatever the number of threads, and their sums are added in order.
(c) The gradient by the input is one loop over the incoming gradient (a number, where there was a reduction), the input
    and the target; that by the target is its negative.
(d) What broadcasts, or is of another dtype, is left to the NumPy functions of the declarations.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdlib cimport free, malloc

from plugrad.backends.copies cimport contiguous, is_flat, lie_alike
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.real cimport is_real
from plugrad.backends.recycling cimport fresh
from plugrad.graph.op cimport Kernel
from plugrad_ops.loops cimport as_number
from plugrad_ops.nary cimport Nary, nary, pg_nary, pg_nary_loops

import numpy as np

from plugrad.backends import CPU

cnp.import_array()

cdef extern from *:
    """
    #define PG_NEAR(e) (e < z ? e : z)
    PG_TWO(pg_square_error, (x - y) * (x - y))
    PG_TWO(pg_absolute_error, PG_F(fabs, x - y))
    PG_THREE(pg_huber_error, PG_NEAR(PG_F(fabs, x - y)) * (PG_F(fabs, x - y) - (real)0.5 * PG_NEAR(PG_F(fabs, x - y))))
    /* x: the incoming gradient; y: the input; z: the target; w: delta */
    PG_THREE(pg_square_slope, 2 * (x * (y - z)))      /* in an order in which what is finite does not overflow */
    PG_THREE(pg_absolute_slope, y - z > 0 ? x : y - z < 0 ? -x : x * (y - z))      /* NaN stays NaN */
    PG_FOUR(pg_huber_slope, x * (y - z < -w ? -w : y - z > w ? w : y - z))

    #if defined(__GNUC__) && !defined(__clang__)
    #define PG_KEPT_LOOP _Pragma("GCC unroll 1")    /* a short loop that is unrolled is not vectorised any more */
    #else
    #define PG_KEPT_LOOP
    #endif
    #define PG_TOTAL(T)                                                                             \\
        PG_LOOP pg_total_##T(const void *vx, Py_ssize_t n, double *total) {                         \\
            enum { W = 128 / sizeof(T) };                                                           \\
            const T *x = vx; T s[W] = {0}; Py_ssize_t i = 0;                                        \\
            for (; i + W <= n; i += W) PG_KEPT_LOOP for (int k = 0; k < W; k++) s[k] += x[i + k];   \\
            for (int k = 0; k < W; k++) *total += s[k];                                             \\
            for (; i < n; i++) *total += x[i]; }
    PG_TOTAL(float)
    PG_TOTAL(double)
    """
    const pg_nary_loops pg_square_error, pg_absolute_error, pg_huber_error
    const pg_nary_loops pg_square_slope, pg_absolute_slope, pg_huber_slope
    void pg_total_float(const void *, Py_ssize_t, double *) noexcept nogil
    void pg_total_double(const void *, Py_ssize_t, double *) noexcept nogil

cdef enum:
    BLOCK = 512
    PIECE = 16_384


cdef struct Job:
    pg_nary loop
    bint double
    Py_ssize_t n, size
    const char *x
    const char *y
    double delta
    double *sums            # of pieces


cdef void sum_pieces(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef double[BLOCK] values
    cdef double[BLOCK] deltas
    cdef const void *at[3]
    cdef Py_ssize_t piece, i, last, count
    for i in range(BLOCK):
        if job.double:
            deltas[i] = job.delta
        else:
            (<float *>deltas)[i] = <float>job.delta
    for piece in range(begin, end):
        job.sums[piece] = 0.0
        i, last = piece * PIECE, min((piece + 1) * PIECE, job.n)
        while i < last:
            count = min(<Py_ssize_t>BLOCK, last - i)
            at[0], at[1], at[2] = job.x + i * job.size, job.y + i * job.size, deltas
            job.loop(at, values, count)
            if job.double:
                pg_total_double(values, count, &job.sums[piece])
            else:
                pg_total_float(values, count, &job.sums[piece])
            i += BLOCK


cdef double total(Job *job) except? -1.0:
    cdef Py_ssize_t pieces = (job.n + PIECE - 1) // PIECE, i
    cdef double first = 0.0
    if pieces <= 1:
        job.sums = &first
        sum_pieces(job, 0, pieces)
        return first
    job.sums = <double *>malloc(pieces * sizeof(double))
    if job.sums == NULL:
        raise MemoryError("no memory for the sums of pieces")
    with nogil:
        parallel_for(pieces, 1, sum_pieces, job)
    for i in range(pieces):
        first += job.sums[i]
    free(job.sums)
    return first


cdef inline bint alike(object a, object b) noexcept:
    """Whether two arrays have one shape and dtype that loops take."""
    return (
        is_real(a) and is_real(b)
        and cnp.PyArray_TYPE(<cnp.ndarray>a) == cnp.PyArray_TYPE(<cnp.ndarray>b)
        and cnp.PyArray_SAMESHAPE(<cnp.ndarray>a, <cnp.ndarray>b)
    )


cdef class Error(Kernel):
    """The forward kernel, from (input, target, reduction) and perhaps delta."""

    cdef Kernel otherwise
    cdef Nary each

    cdef object call(self, tuple args, tuple kwnames):
        cdef object a = args[0], b = args[1], reduction = args[2]
        cdef PyObject *given[3]
        cdef cnp.ndarray x, y, out
        cdef double value
        cdef Job job
        if not alike(a, b) or reduction not in ("mean", "sum", "none"):
            return self.otherwise.call(args, kwnames)
        job.delta = 0.0
        if self.each.loops.arity == 3 and not (as_number(args[3], &job.delta) and job.delta > 0.0):
            return self.otherwise.call(args, kwnames)
        if reduction == "none":
            given[0], given[1], given[2] = <PyObject *>a, <PyObject *>b, <PyObject *>args[len(args) - 1]
            return self.each.run(given)
        x, y = <cnp.ndarray>a, <cnp.ndarray>b
        if not (lie_alike(x, y) and is_flat(x)):
            x, y = contiguous(x), contiguous(y)
        job.double = cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE
        job.loop = self.each.loops.of[1 if job.double else 0]
        job.n, job.size = cnp.PyArray_SIZE(x), cnp.PyArray_ITEMSIZE(x)
        job.x, job.y = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(y)
        value = total(&job)
        if reduction == "mean":
            value /= job.n
        out = fresh(0, NULL, cnp.PyArray_TYPE(x))
        if job.double:
            (<double *>cnp.PyArray_DATA(out))[0] = value
        else:
            (<float *>cnp.PyArray_DATA(out))[0] = <float>value
        return out


cdef class ErrorGradient(Kernel):
    """The gradients, from (grad, input, target, like, needs, reduction) and perhaps delta."""

    cdef Kernel otherwise
    cdef Nary slope

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef object grad = <object>args[0], reduction = <object>args[5]
        cdef tuple needs = <tuple>args[4]
        cdef PyObject *given[4]
        cdef double value
        if not is_real(grad) or not alike(<object>args[1], <object>args[2]):
            return self.otherwise.call_all(args, n)
        given[1], given[2], given[3] = args[1], args[2], args[n - 1]
        if reduction == "none":
            given[0] = <PyObject *>grad
            slope = self.slope.run(given)
            return slope if needs[0] else None, np.negative(slope) if needs[1] else None
        if cnp.PyArray_SIZE(<cnp.ndarray>grad) != 1:
            return self.otherwise.call_all(args, n)
        if cnp.PyArray_TYPE(<cnp.ndarray>grad) == cnp.NPY_DOUBLE:
            value = (<double *>cnp.PyArray_DATA(<cnp.ndarray>grad))[0]
        else:
            value = (<float *>cnp.PyArray_DATA(<cnp.ndarray>grad))[0]
        if reduction == "mean":
            value /= max(cnp.PyArray_SIZE(<cnp.ndarray><object>args[1]), 1)
        return (
            self.scaled(value, given) if needs[0] else None,
            self.scaled(-value, given) if needs[1] else None,
        )

    cdef object scaled(self, double value, PyObject **given):
        """The slopes times a number."""
        cdef object number = value
        given[0] = <PyObject *>number
        return self.slope.run(given)


# ---- kernels -------------------------------------------------------------------------------------------------

cdef Nary _square_slope = nary(lambda grad, input, target: 2 * (grad * (input - target)), &pg_square_slope)
cdef Nary _absolute_slope = nary(lambda grad, input, target: grad * np.sign(input - target), &pg_absolute_slope)
cdef Nary _huber_slope = nary(
    lambda grad, input, target, delta: grad * np.clip(input - target, -delta, delta), &pg_huber_slope
)
cdef Nary _square_error = nary(lambda input, target: np.square(input - target), &pg_square_error)
cdef Nary _absolute_error = nary(lambda input, target: np.abs(input - target), &pg_absolute_error)


def _huber_error_of(input, target, delta):
    error = np.abs(input - target)
    near = np.minimum(error, delta)
    return near * (error - near * 0.5)


cdef Nary _huber_error = nary(_huber_error_of, &pg_huber_error)


cdef Error error_of(object function, Nary each):
    cdef Error kernel = Error(function)
    kernel.otherwise, kernel.each = CPU.kernel(function), each
    return kernel


cdef ErrorGradient gradient_of(object function, Nary slope):
    cdef ErrorGradient kernel = ErrorGradient(function)
    kernel.otherwise, kernel.slope = CPU.kernel(function), slope
    return kernel


def mse_loss(function):
    """The kernel for `function`, which is the loss in NumPy."""
    return error_of(function, _square_error)


def l1_loss(function):
    return error_of(function, _absolute_error)


def huber_loss(function):
    return error_of(function, _huber_error)


def mse_loss_gradient(function):
    """The kernel for `function`, which is the gradient in NumPy."""
    return gradient_of(function, _square_slope)


def l1_loss_gradient(function):
    return gradient_of(function, _absolute_slope)


def huber_loss_gradient(function):
    return gradient_of(function, _huber_slope)
