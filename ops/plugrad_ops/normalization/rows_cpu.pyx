# cython: boundscheck=False, wraparound=False
"""Normalisation of rows in C: statistics and results of a row in one visit; see loops.pxd.

Gradients of weights are summed over a few rows in the type of the elements, and these sums in double.
"""

cimport numpy as cnp
import numpy as np
from libc.math cimport sqrt
from libc.stdlib cimport calloc, free

from plugrad.graph.op cimport Kernel
from plugrad_ops.normalization.loops cimport Loops, data_of, is_far, like, loops_of, plain

from plugrad.backends import CPU

cnp.import_array()

cdef enum:
    FEW_ROWS = 16  # after which partial sums in the type of the elements go to those in double


cdef struct Rows:
    # `rows` of n elements; row r is of group r % groups, its element j of channel j // span of the group.
    const Loops *loops
    Py_ssize_t rows, n, groups, channels, span
    double eps
    bint centered


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


cdef void normalize(const Rows *the, const char *x, const char *w, const char *b, char *y) noexcept nogil:
    cdef const Loops *loops = the.loops
    cdef Py_ssize_t size = loops.size, step = the.n * size, run = the.span * size, row, k, c
    cdef const char *own_b = b
    cdef double mean, rstd
    for row in range(the.rows):
        statistics(the, x, &mean, &rstd)
        c = row % the.groups * the.channels
        if the.span == 1 and w != NULL:
            if b != NULL:
                own_b = b + c * size
            loops.apply_each(x, y, the.n, mean, rstd, w + c * size, own_b)
        else:
            for k in range(the.channels):
                loops.apply(
                    x + k * run, y + k * run, the.span, mean, rstd if w == NULL else rstd * loops.at(w, c + k),
                    0.0 if b == NULL else loops.at(b, c + k)
                )
        x += step
        y += step


cdef void gradients(
    const Rows *the, const char *g, const char *x, const char *w, char *dx, double *dw, double *db, char *part
) noexcept nogil:
    """Gradients of the rows, and those of weights, added up; NULL: not wanted. With span 1 `part` is room for both."""
    cdef const Loops *loops = the.loops
    cdef Py_ssize_t size = loops.size, step = the.n * size, run = the.span * size, row, k, c
    cdef Py_ssize_t many = the.groups * the.channels
    cdef double[2] sums
    cdef double[2] own
    cdef double mean, rstd, m1, m2, factor
    cdef char *part_b = part + many * size
    for row in range(the.rows):
        statistics(the, x, &mean, &rstd)
        c = row % the.groups * the.channels
        sums[0] = sums[1] = 0.0
        if the.span == 1 and w != NULL:
            loops.dots_each(g, w + c * size, x, the.n, mean, rstd, sums)
        else:
            for k in range(the.channels):
                own[0] = own[1] = 0.0
                loops.dots(g + k * run, x + k * run, the.span, mean, rstd, own)
                factor = 1.0 if w == NULL else loops.at(w, c + k)
                sums[0] += factor * own[0]
                sums[1] += factor * own[1]
                if dw != NULL and part == NULL:
                    db[c + k] += own[0]
                    dw[c + k] += own[1]
        if part != NULL:
            loops.weights(g, x, the.n, mean, rstd, part + c * size, part_b + c * size)
            if row + 1 == the.rows or (row + 1) % (FEW_ROWS * the.groups) == 0:
                loops.flush(part, dw, many)
                loops.flush(part_b, db, many)
        if dx != NULL:
            m1 = rstd * sums[0] / the.n if the.centered else 0.0
            m2 = rstd * sums[1] / the.n
            if the.span == 1 and w != NULL:
                loops.slopes_each(g, w + c * size, x, dx, the.n, mean, rstd, m1, m2)
            else:
                for k in range(the.channels):
                    factor = rstd if w == NULL else rstd * loops.at(w, c + k)
                    loops.slopes(g + k * run, x + k * run, dx + k * run, the.span, mean, rstd, factor, m1, m2)
            dx += step
        x += step
        g += step


cdef Rows rows_of(cnp.ndarray x, object weight, Py_ssize_t length, Py_ssize_t groups):
    """The rows of an array, for a weight or bias, or None."""
    cdef Rows the
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
        cdef const char *w
        cdef const char *b
        if loops_of(x) == NULL or cnp.PyArray_SIZE(x) == 0 or not fit(x, weight, bias, args[3], args[4]):
            return self.otherwise.call(args, kwnames)
        x = plain(x)
        weight = None if weight is None else plain(weight)
        bias = None if bias is None else plain(bias)
        the = rows_of(x, bias if weight is None else weight, args[3], args[4])
        the.eps, the.centered = args[5], args[6]
        out = like(x)
        w, b = data_of(weight), data_of(bias)
        with nogil:
            normalize(&the, <const char *>cnp.PyArray_DATA(x), w, b, <char *>cnp.PyArray_DATA(out))
        return out


def normalize_rows_gradients(grad, input, weight, shape, needs, length, groups, eps, centered):
    """The gradients of input, weight and bias, which have `shape`; None where the loops do not take these arrays."""
    cdef cnp.ndarray x = <cnp.ndarray>input, g, dx = None, dw = None, db = None
    cdef Rows the
    cdef bint wanted = needs.weight or needs.bias
    cdef Py_ssize_t many
    cdef double *sums = NULL
    cdef char *part = NULL
    cdef const char *w
    if loops_of(x) == NULL or cnp.PyArray_SIZE(x) == 0:
        return None
    x, g = plain(x), plain(grad)
    weight = None if weight is None else plain(weight)
    if shape is not None:
        dw, db = np.empty(shape, x.dtype), np.empty(shape, x.dtype)
    the = rows_of(x, dw, length, groups)
    the.eps, the.centered = eps, centered
    many = the.channels * the.groups
    if needs.input:
        dx = like(x)
    if wanted:
        sums = <double *>calloc(2 * many, sizeof(double))
        if the.span == 1:
            part = <char *>calloc(2 * many, the.loops.size)
        if sums == NULL or (the.span == 1 and part == NULL):
            free(sums)
            free(part)
            raise MemoryError()
    w = data_of(weight)
    with nogil:
        gradients(
            &the, <const char *>cnp.PyArray_DATA(g), <const char *>cnp.PyArray_DATA(x), w,
            NULL if dx is None else <char *>cnp.PyArray_DATA(dx), sums, sums + many, part
        )
        if wanted:
            the.loops.put(sums, cnp.PyArray_DATA(dw), many)
            the.loops.put(sums + many, cnp.PyArray_DATA(db), many)
    free(sums)
    free(part)
    return dx, dw if needs.weight else None, db if needs.bias else None
