# cython: boundscheck=False, wraparound=False
"""Normalisation of rows in C: statistics and results of a row in one visit; see loops.pxd.

Gradients of weights are summed over a few rows in the type of the elements, and these sums in double. Threads share the
rows, in at most PARTS parts with such sums of their own, which are added in order.
"""

cimport numpy as cnp
import numpy as np
from libc.math cimport sqrt
from libc.stdlib cimport calloc, free

from plugrad.backends.copies cimport contiguous
from plugrad.backends.parallel cimport parallel_for
from plugrad.graph.op cimport Kernel
from plugrad_ops.normalization.loops cimport Loops, data_of, is_far, like

from plugrad.backends import CPU

cnp.import_array()

cdef extern from *:
    """
    PG_NORM(float)
    PG_NORM(double)
    """
    const Loops pg_norm_float, pg_norm_double

cdef enum:
    FEW_ROWS = 16  # after which partial sums in the type of the elements go to those in double
    PARTS = 16
    WORK = 32_768  # elements that are worth a thread's attention


cdef struct Rows:
    # `rows` of n elements; row r is of group r % groups, its element j of channel j // span of the group.
    const Loops *loops
    Py_ssize_t rows, n, groups, channels, span
    double eps
    bint centered
    const char *x
    const char *g
    const char *w
    const char *b
    char *out
    Py_ssize_t part         # rows of a part
    double *sums            # of each part: gradients of weight and bias, ...
    char *few               # ... and with span 1 both over a few rows


cdef const Loops *loops_of(cnp.ndarray x) noexcept:
    """The loops for a float32 or float64 array; NULL for any other."""
    cdef int kind = cnp.PyArray_TYPE(x)
    return &pg_norm_float if kind == cnp.NPY_FLOAT else &pg_norm_double if kind == cnp.NPY_DOUBLE else NULL


cdef void statistics(const Rows *the, const char *x, double *mean, double *rstd) noexcept nogil:
    cdef double[2] sums
    cdef double shift = the.loops.at(x, 0) if the.centered else 0.0, apart, variance
    cdef int _turn
    for _turn in range(2):
        sums[0] = sums[1] = 0.0
        the.loops.moments(x, the.n, shift, sums)
        apart = sums[0] / the.n if the.centered else 0.0
        variance = sums[1] / the.n - apart * apart
        mean[0] = shift + apart
        if not is_far(apart, variance):
            break
        shift = the.loops.rounded(mean[0])
    rstd[0] = 1.0 / sqrt((0.0 if variance < 0 else variance) + the.eps)


cdef void normalize(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Rows *the = <const Rows *>context
    cdef const Loops *loops = the.loops
    cdef Py_ssize_t size = loops.size, run = the.span * size, row, k, c
    cdef const char *x = the.x + begin * the.n * size
    cdef const char *own_b = the.b
    cdef char *y = the.out + begin * the.n * size
    cdef double mean, rstd
    for row in range(begin, end):
        statistics(the, x, &mean, &rstd)
        c = row % the.groups * the.channels
        if the.span == 1 and the.w != NULL:
            if the.b != NULL:
                own_b = the.b + c * size
            loops.apply_each(x, y, the.n, mean, rstd, the.w + c * size, own_b)
        else:
            for k in range(the.channels):
                loops.apply(
                    x + k * run, y + k * run, the.span, mean,
                    rstd if the.w == NULL else rstd * loops.at(the.w, c + k),
                    0.0 if the.b == NULL else loops.at(the.b, c + k)
                )
        x += the.n * size
        y += the.n * size


cdef void gradients(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Gradients of the rows of some parts, and those of weights, added up."""
    cdef const Rows *the = <const Rows *>context
    cdef Py_ssize_t part, many = 2 * the.groups * the.channels
    for part in range(begin, end):
        row_gradients(
            the, part * the.part, min(the.rows, (part + 1) * the.part),
            NULL if the.sums == NULL else the.sums + part * many,
            NULL if the.few == NULL else the.few + part * many * the.loops.size
        )


cdef void row_gradients(
    const Rows *the, Py_ssize_t begin, Py_ssize_t end, double *dw, char *few
) noexcept nogil:
    cdef const Loops *loops = the.loops
    cdef Py_ssize_t size = loops.size, run = the.span * size, at, row, k, c
    cdef Py_ssize_t many = the.groups * the.channels
    cdef double[2] sums
    cdef double[2] own
    cdef double mean, rstd, m1, m2, factor
    cdef char *few_b = NULL if few == NULL else few + many * size
    cdef double *db = NULL if dw == NULL else dw + many
    cdef const char *x
    cdef const char *g
    for row in range(begin, end):
        at = row * the.n * size
        x, g = the.x + at, the.g + at
        statistics(the, x, &mean, &rstd)
        c = row % the.groups * the.channels
        sums[0] = sums[1] = 0.0
        if the.span == 1 and the.w != NULL:
            loops.dots_each(g, the.w + c * size, x, the.n, mean, rstd, sums)
        else:
            for k in range(the.channels):
                own[0] = own[1] = 0.0
                loops.dots(g + k * run, x + k * run, the.span, mean, rstd, own)
                factor = 1.0 if the.w == NULL else loops.at(the.w, c + k)
                sums[0] += factor * own[0]
                sums[1] += factor * own[1]
                if dw != NULL and few == NULL:
                    db[c + k] += own[0]
                    dw[c + k] += own[1]
        if few != NULL:
            loops.weights(g, x, the.n, mean, rstd, few + c * size, few_b + c * size)
            if row + 1 == end or (row + 1) % (FEW_ROWS * the.groups) == 0:
                loops.flush(few, dw, many)
                loops.flush(few_b, db, many)
        if the.out == NULL:
            continue
        if the.n == 1 and the.centered:
            own[0] = (loops.at(x, 0) - loops.at(x, 0)) * loops.at(g, 0) + 0.0  # 0, or NaN for what is not finite
            loops.put(own, the.out + at, 1)
            continue
        m1 = rstd * sums[0] / the.n if the.centered else 0.0
        m2 = rstd * sums[1] / the.n
        if the.span == 1 and the.w != NULL:
            loops.slopes_each(g, the.w + c * size, x, the.out + at, the.n, mean, rstd, m1, m2)
        else:
            for k in range(the.channels):
                factor = rstd if the.w == NULL else rstd * loops.at(the.w, c + k)
                loops.slopes(
                    g + k * run, x + k * run, the.out + at + k * run, the.span, mean, rstd, factor, m1, m2
                )


cdef Rows rows_of(cnp.ndarray x, object weight, Py_ssize_t length, Py_ssize_t groups):
    """The rows of an array, for a weight or bias, or None."""
    cdef Rows the
    the.x, the.g, the.w, the.b, the.out, the.sums, the.few = cnp.PyArray_BYTES(x), NULL, NULL, NULL, NULL, NULL, NULL
    the.loops = loops_of(x)
    the.rows, the.n, the.groups = cnp.PyArray_SIZE(x) // length, length, groups
    the.channels = 1 if weight is None else cnp.PyArray_SIZE(<cnp.ndarray>weight) // groups
    the.span = length // the.channels
    return the


cdef bint fit(cnp.ndarray x, object weight, object bias, Py_ssize_t length, Py_ssize_t groups):
    """Whether the sizes go together; where not, the reference function says why."""
    cdef Py_ssize_t channels = groups
    if length < 1 or groups < 1 or cnp.PyArray_SIZE(x) % (length * groups):
        return False
    if weight is not None and bias is not None and not cnp.PyArray_SAMESHAPE(<cnp.ndarray>weight, <cnp.ndarray>bias):
        return False
    if weight is not None or bias is not None:
        channels = cnp.PyArray_SIZE(<cnp.ndarray>(bias if weight is None else weight))
    return channels > 0 and channels % groups == 0 and length % (channels // groups) == 0


cdef class NormalizeRows(Kernel):
    """The forward kernel; constants are length, groups, eps and centered, in that order."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray x = <cnp.ndarray>args[0], out
        cdef object weight = args[1], bias = args[2]
        cdef Rows the
        if loops_of(x) == NULL or cnp.PyArray_SIZE(x) == 0 or not fit(x, weight, bias, args[3], args[4]):
            return self.otherwise.call(args, kwnames)
        x = contiguous(x)
        weight = None if weight is None else contiguous(weight)
        bias = None if bias is None else contiguous(bias)
        the = rows_of(x, bias if weight is None else weight, args[3], args[4])
        the.eps, the.centered = args[5], args[6]
        out = like(x)
        the.w, the.b, the.out = data_of(weight), data_of(bias), cnp.PyArray_BYTES(out)
        with nogil:
            parallel_for(the.rows, WORK // the.n + 1, normalize, &the)
        return out


def normalize_rows_gradients(grad, input, weight, shape, needs, length, groups, eps, centered):
    """The gradients of input, weight and bias, which have `shape`; None where the loops do not take these arrays."""
    cdef cnp.ndarray x = <cnp.ndarray>input, g, dx = None, dw = None, db = None
    cdef Rows the
    cdef bint wanted = needs.weight or needs.bias
    cdef Py_ssize_t many, parts, i
    if loops_of(x) == NULL or cnp.PyArray_SIZE(x) == 0:
        return None
    x, g = contiguous(x), contiguous(grad)
    weight = None if weight is None else contiguous(weight)
    if shape is not None:
        dw, db = np.empty(shape, x.dtype), np.empty(shape, x.dtype)
    the = rows_of(x, dw, length, groups)
    the.eps, the.centered = eps, centered
    the.g, the.w = cnp.PyArray_BYTES(g), data_of(weight)
    if needs.input:
        dx = like(x)
        the.out = cnp.PyArray_BYTES(dx)
    # Every part goes once through sums as long as a few rows.
    parts = min(<Py_ssize_t>PARTS, min(the.rows // FEW_ROWS if wanted else the.rows, the.rows * the.n // (2 * WORK)))
    the.part = the.rows if parts < 1 else (the.rows + parts - 1) // parts
    parts = (the.rows + the.part - 1) // the.part
    many = 2 * the.channels * the.groups
    if wanted:
        the.sums = <double *>calloc(parts * many, sizeof(double))
        if the.span == 1:
            the.few = <char *>calloc(parts * many, the.loops.size)
        if the.sums == NULL or (the.span == 1 and the.few == NULL):
            free(the.sums)
            free(the.few)
            raise MemoryError()
    with nogil:
        parallel_for(parts, 1 + WORK // (the.part * the.n), gradients, &the)
        if wanted:
            for i in range(many, parts * many):
                the.sums[i % many] += the.sums[i]
            the.loops.put(the.sums, cnp.PyArray_DATA(dw), many // 2)
            the.loops.put(the.sums + many // 2, cnp.PyArray_DATA(db), many // 2)
    free(the.sums)
    free(the.few)
    return dx, dw if needs.weight else None, db if needs.bias else None
