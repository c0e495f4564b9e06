# cython: boundscheck=False, wraparound=False
"""Normalisation of channels in C: a pass for the statistics of all channels, and one for the results; see loops.pxd."""

cimport numpy as cnp
import numpy as np
from libc.math cimport sqrt

from plugrad.graph.op cimport Kernel
from plugrad_ops.normalization.loops cimport Loops, is_far, like, loops_of, plain

from plugrad.backends import CPU

cnp.import_array()


cdef struct Batch:
    # `count` times `channels` runs of `span` neighbours, which belong to one channel.
    const Loops *loops
    Py_ssize_t count, channels, span


cdef Batch batch_of(cnp.ndarray x):
    cdef Batch the
    the.loops = loops_of(x)
    the.count, the.channels = cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(x, 1)
    the.span = cnp.PyArray_SIZE(x) // (the.count * the.channels)
    return the


cdef void batch_sums(
    const Batch *the, const char *g, const char *x, const double *a, const double *b, double *s, double *q
) noexcept nogil:
    """Per channel: the moments of x about a or, with g, the sums of g and of g (x - a) b."""
    cdef Py_ssize_t run = the.span * the.loops.size, _i, c
    cdef double[2] sums
    for _i in range(the.count):
        if the.span == 1:
            if g == NULL:
                the.loops.moments_across(x, the.channels, a, s, q)
            else:
                the.loops.dots_across(g, x, the.channels, a, b, s, q)
        else:
            for c in range(the.channels):
                sums[0] = sums[1] = 0.0
                if g == NULL:
                    the.loops.moments(x + c * run, the.span, a[c], sums)
                else:
                    the.loops.dots(g + c * run, x + c * run, the.span, a[c], b[c], sums)
                s[c] += sums[0]
                q[c] += sums[1]
        x += the.channels * run
        if g != NULL:
            g += the.channels * run


cdef void batch_apply(
    const Batch *the, const char *x, char *y, const double *mean, const double *scale, const double *shift
) noexcept nogil:
    cdef Py_ssize_t run = the.span * the.loops.size, _i, c
    for _i in range(the.count):
        if the.span == 1:
            the.loops.apply_across(x, y, the.channels, mean, scale, shift)
        else:
            for c in range(the.channels):
                the.loops.apply(x + c * run, y + c * run, the.span, mean[c], scale[c], shift[c])
        x += the.channels * run
        y += the.channels * run


cdef void batch_slopes(
    const Batch *the, const char *g, const char *x, char *dx, const double *mean, const double *rstd,
    const double *scale, const double *m1, const double *m2
) noexcept nogil:
    cdef Py_ssize_t run = the.span * the.loops.size, _i, c
    for _i in range(the.count):
        if the.span == 1:
            the.loops.slopes_across(g, x, dx, the.channels, mean, rstd, scale, m1, m2)
        else:
            for c in range(the.channels):
                the.loops.slopes(
                    g + c * run, x + c * run, dx + c * run, the.span, mean[c], rstd[c], scale[c], m1[c], m2[c]
                )
        g += the.channels * run
        x += the.channels * run
        dx += the.channels * run


cdef double[::1] numbers(object array, Py_ssize_t n, double otherwise):
    """An array as doubles; without one, n times the same."""
    return np.full(n, otherwise) if array is None else np.array(array, np.float64)


cdef bint per_channel(object array, cnp.ndarray x):
    """Whether `x` has channels, and `array` is None or has a number for each."""
    return cnp.PyArray_NDIM(x) > 1 and (
        array is None
        or (cnp.PyArray_NDIM(<cnp.ndarray>array) == 1 and cnp.PyArray_SIZE(<cnp.ndarray>array) == cnp.PyArray_DIM(x, 1))
    )


cdef class NormalizeBatch(Kernel):
    """The forward kernel; the constant is eps."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray x = <cnp.ndarray>args[0], out
        cdef Batch the
        cdef double eps = args[3], variance
        cdef double[::1] shift, s, q, scale, added
        cdef Py_ssize_t c, many
        cdef bint far
        cdef int turn
        if loops_of(x) == NULL or cnp.PyArray_SIZE(x) == 0 or not (per_channel(args[1], x) and per_channel(args[2], x)):
            return self.otherwise.call(args, kwnames)
        x = plain(x)
        the = batch_of(x)
        many = the.count * the.span
        scale, added = numbers(args[1], the.channels, 1.0), numbers(args[2], the.channels, 0.0)
        first = np.array(args[0][0].reshape(the.channels, the.span)[:, 0], np.float64)
        sums = np.zeros((2, the.channels))
        shift, s, q = first, sums[0], sums[1]
        out = like(x)
        with nogil:
            for turn in range(2):
                batch_sums(&the, NULL, <const char *>cnp.PyArray_DATA(x), &shift[0], NULL, &s[0], &q[0])
                far = False
                for c in range(the.channels):
                    s[c] /= many
                    variance = q[c] / many - s[c] * s[c]
                    far = far or is_far(s[c], variance)
                    q[c] = 0.0 if variance < 0 else variance
                    s[c] += shift[c]
                if not far or turn:
                    break
                for c in range(the.channels):
                    shift[c] = the.loops.rounded(s[c])
                    s[c] = q[c] = 0.0
            for c in range(the.channels):
                scale[c] /= sqrt(q[c] + eps)
            batch_apply(
                &the, <const char *>cnp.PyArray_DATA(x), <char *>cnp.PyArray_DATA(out), &s[0], &scale[0], &added[0]
            )
        return out, sums[0].astype(x.dtype), sums[1].astype(x.dtype)


def normalize_batch_gradients(grads, input, weight, mean, var, needs, double eps):
    """The gradients of input, weight and bias, for those of out, mean and var."""
    cdef cnp.ndarray x = <cnp.ndarray>input, g, dx = None
    cdef Batch the
    cdef double[::1] at, rstd, scale, s, q, m1, m2, of_mean, of_var
    cdef Py_ssize_t c, many
    x, g = plain(x), plain(grads[0])
    the = batch_of(x)
    many = the.count * the.span
    sums, means = np.zeros((2, the.channels)), np.empty((2, the.channels))
    at, rstd, scale = numbers(mean, 0, 0), numbers(var, 0, 0), numbers(weight, the.channels, 1.0)
    of_mean, of_var = numbers(grads[1], 0, 0), numbers(grads[2], 0, 0)
    s, q, m1, m2 = sums[0], sums[1], means[0], means[1]
    if needs.input:
        dx = like(x)
    with nogil:
        for c in range(the.channels):
            rstd[c] = 1.0 / sqrt(rstd[c] + eps)
        batch_sums(
            &the, <const char *>cnp.PyArray_DATA(g), <const char *>cnp.PyArray_DATA(x), &at[0], &rstd[0], &s[0], &q[0]
        )
        if dx is not None:
            for c in range(the.channels):
                scale[c] *= rstd[c]
                m1[c] = (scale[c] * s[c] - of_mean[c]) / many
                m2[c] = (scale[c] * q[c] - 2.0 * of_var[c] / rstd[c]) / many  # x - mean = xhat / rstd
            batch_slopes(
                &the, <const char *>cnp.PyArray_DATA(g), <const char *>cnp.PyArray_DATA(x),
                <char *>cnp.PyArray_DATA(dx), &at[0], &rstd[0], &scale[0], &m1[0], &m2[0]
            )
    return dx, sums[1].astype(x.dtype) if needs.weight else None, sums[0].astype(x.dtype) if needs.bias else None
