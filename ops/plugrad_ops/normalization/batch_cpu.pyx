# cython: boundscheck=False, wraparound=False
"""Normalisation of channels in C: a pass for the statistics of all channels, and one for the results; see loops.pxd.

(a) An array without gaps is `count` times `channels` runs of `span` neighbours of one channel, in whatever order its
    dimensions lie. With runs of one element the loops go across channels.
(b) Of long runs threads share the channels; of short ones the count, in at most PARTS parts with sums of their own.
"""

cimport numpy as cnp
import numpy as np
from libc.math cimport sqrt
from libc.stdlib cimport calloc, free

from plugrad.backends.copies cimport contiguous, is_flat, laid_out_as
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.recycling cimport fresh, fresh_like
from plugrad.graph.op cimport Kernel
from plugrad_ops.normalization.loops cimport Loops, is_far
from plugrad_ops.normalization.rows_cpu cimport loops_of

from plugrad.backends import CPU

cnp.import_array()

cdef enum:
    PARTS = 16
    WORK = 32_768   # elements that are worth a thread's attention
    LONG_RUN = 64
    NUMBERS = 8     # arrays of a number per channel


cdef struct Batch:
    const Loops *loops
    Py_ssize_t count, channels, span
    Py_ssize_t parts, part      # of the count; one part where threads share the channels
    const char *x
    const char *g
    char *out
    # A number per channel each, in one block of memory: doubles, then some in the type of the elements.
    double *memory
    double *mean
    double *rstd
    double *scale
    double *added
    double *m1
    double *m2
    double *s
    double *q
    double *sums                # of parts: s and q of each
    char *high
    char *low
    char *r
    char *w
    char *a
    char *b


cdef bint prepare(Batch *the, cnp.ndarray x) noexcept:
    """Fill `the` for an array without gaps; False where there is no memory."""
    cdef Py_ssize_t n = cnp.PyArray_SIZE(x), channels = cnp.PyArray_DIM(x, 1)
    the.loops = loops_of(x)
    the.channels = channels
    the.span = n if channels == 1 else cnp.PyArray_STRIDE(x, 1) // the.loops.size
    the.count = n // (channels * the.span)
    the.parts = 1
    if the.span < LONG_RUN:
        the.parts = max(<Py_ssize_t>1, min(min(<Py_ssize_t>PARTS, the.count), n // (2 * WORK)))
    the.part = (the.count + the.parts - 1) // the.parts
    the.parts = (the.count + the.part - 1) // the.part
    the.x, the.g, the.out = cnp.PyArray_BYTES(x), NULL, NULL
    the.memory = <double *>calloc((NUMBERS + 2 * the.parts + 6) * channels, sizeof(double))
    if the.memory == NULL:
        return False
    the.mean, the.rstd = the.memory, the.memory + channels
    the.scale, the.added = the.memory + 2 * channels, the.memory + 3 * channels
    the.m1, the.m2 = the.memory + 4 * channels, the.memory + 5 * channels
    the.s, the.q = the.memory + 6 * channels, the.memory + 7 * channels
    the.sums = the.memory + NUMBERS * channels
    the.high = <char *>(the.sums + 2 * the.parts * channels)
    the.low, the.r = the.high + channels * the.loops.size, the.high + 2 * channels * the.loops.size
    the.w, the.a = the.high + 3 * channels * the.loops.size, the.high + 4 * channels * the.loops.size
    the.b = the.high + 5 * channels * the.loops.size
    return True


cdef int fill(const Batch *the, double *numbers, object array, double otherwise) except -1:
    """A number per channel, out of an array; without one, the same for all."""
    cdef Py_ssize_t c
    cdef cnp.ndarray x
    cdef const Loops *loops
    if array is None:
        for c in range(the.channels):
            numbers[c] = otherwise
        return 0
    x = <cnp.ndarray>array
    if cnp.PyArray_TYPE(x) != cnp.NPY_DOUBLE and cnp.PyArray_TYPE(x) != cnp.NPY_FLOAT:
        x = np.asarray(x, np.float64)
    x = contiguous(x)
    loops = loops_of(x)
    for c in range(the.channels):
        numbers[c] = loops.at(cnp.PyArray_DATA(x), c)
    return 0


cdef object as_array(const Batch *the, const double *numbers, int type_num):
    cdef cnp.npy_intp[1] dims
    cdef cnp.ndarray out
    dims[0] = the.channels
    out = fresh(1, dims, type_num)
    the.loops.put(numbers, cnp.PyArray_DATA(out), the.channels)
    return out


# ---- sums over each channel ------------------------------------------------------------------------------------

cdef void add_runs(const Batch *the, Py_ssize_t i, Py_ssize_t c, Py_ssize_t end, double *s, double *q) noexcept nogil:
    """What run i of the channels from c on adds: moments about the mean so far or, with g, sums of g and g xhat."""
    cdef Py_ssize_t size = the.loops.size, at = (i * the.channels + c) * the.span * size
    cdef double[2] sums
    for c in range(c, end):
        sums[0] = sums[1] = 0.0
        if the.g == NULL:
            the.loops.moments(the.x + at, the.span, the.mean[c], sums)
        else:
            the.loops.dots(the.g + at, the.x + at, the.span, the.mean[c], the.rstd[c], sums)
        s[c] += sums[0]
        q[c] += sums[1]
        at += the.span * size


cdef void sum_part(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Batch *the = <const Batch *>context
    cdef Py_ssize_t part, first, rows, i, at
    cdef double *s
    cdef double *q
    for part in range(begin, end):
        first = part * the.part
        rows = min(the.part, the.count - first)
        s = the.sums + 2 * part * the.channels
        q = s + the.channels
        if the.span > 1:
            for i in range(first, first + rows):
                add_runs(the, i, 0, the.channels, s, q)
            continue
        at = first * the.channels * the.loops.size
        if the.g == NULL:
            the.loops.moments_across(the.x + at, rows, the.channels, the.high, s, q)
        else:
            the.loops.dots_across(the.g + at, the.x + at, rows, the.channels, the.high, the.low, the.r, s, q)


cdef void sum_channels(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Batch *the = <const Batch *>context
    cdef Py_ssize_t i
    for i in range(the.count):
        add_runs(the, i, begin, end, the.sums, the.sums + the.channels)


cdef void sum_all(const Batch *the) noexcept nogil:
    """s and q of each channel."""
    cdef Py_ssize_t c, part
    for c in range(2 * the.parts * the.channels):
        the.sums[c] = 0.0
    the.loops.split(the.mean, the.high, the.low, the.channels)
    the.loops.put(the.rstd, the.r, the.channels)
    if the.span >= LONG_RUN:
        parallel_for(the.channels, WORK // (the.count * the.span) + 1, sum_channels, <void *>the)
    else:
        parallel_for(the.parts, WORK // (the.part * the.channels * the.span) + 1, sum_part, <void *>the)
    for c in range(the.channels):
        the.s[c] = the.q[c] = 0.0
    for part in range(the.parts):
        for c in range(the.channels):
            the.s[c] += the.sums[2 * part * the.channels + c]
            the.q[c] += the.sums[(2 * part + 1) * the.channels + c]


# ---- results -------------------------------------------------------------------------------------------------

cdef void apply_runs(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Runs of results, or of gradients."""
    cdef const Batch *the = <const Batch *>context
    cdef Py_ssize_t run = the.span * the.loops.size, i, c
    for i in range(begin, end):
        c = i % the.channels
        if the.g == NULL:
            the.loops.apply(the.x + i * run, the.out + i * run, the.span, the.mean[c], the.scale[c], the.added[c])
        else:
            the.loops.slopes(
                the.g + i * run, the.x + i * run, the.out + i * run, the.span, the.mean[c], the.rstd[c], the.scale[c],
                the.m1[c], the.m2[c]
            )


cdef void apply_rows(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Batch *the = <const Batch *>context
    cdef Py_ssize_t row = the.channels * the.loops.size, i
    for i in range(begin, end):
        if the.g == NULL:
            the.loops.apply_across(
                the.x + i * row, the.out + i * row, the.channels, the.high, the.low, the.w, the.a
            )
        else:
            the.loops.slopes_across(
                the.g + i * row, the.x + i * row, the.out + i * row, the.channels, the.high, the.low, the.r, the.w,
                the.a, the.b
            )


cdef void apply_all(const Batch *the) noexcept nogil:
    the.loops.split(the.mean, the.high, the.low, the.channels)
    the.loops.put(the.rstd, the.r, the.channels)
    the.loops.put(the.scale, the.w, the.channels)
    the.loops.put(the.added if the.g == NULL else the.m1, the.a, the.channels)
    the.loops.put(the.m2, the.b, the.channels)
    if the.span == 1:
        parallel_for(the.count, WORK // the.channels + 1, apply_rows, <void *>the)
    else:
        parallel_for(the.count * the.channels, WORK // the.span + 1, apply_runs, <void *>the)


cdef void normalize(Batch *the, double eps) noexcept nogil:
    """The results; means and variances in s and q."""
    cdef Py_ssize_t c, i, first, many = the.count * the.span
    cdef double apart, variance
    cdef bint far
    cdef int turn
    # Of one number alone, among many channels some would lie too far from the mean.
    for i in range(min(<Py_ssize_t>4, many)):
        first = i if the.span >= 4 else i // the.span * the.channels * the.span + i % the.span
        for c in range(the.channels):
            the.mean[c] += the.loops.at(the.x, c * the.span + first)
    for c in range(the.channels):
        the.mean[c] = the.loops.rounded(the.mean[c] / min(<Py_ssize_t>4, many))
    for turn in range(2):
        sum_all(the)
        far = False
        for c in range(the.channels):
            apart = the.s[c] / many
            variance = the.q[c] / many - apart * apart
            far = far or is_far(apart, variance)
            the.q[c] = 0.0 if variance < 0 else variance
            the.s[c] = the.mean[c] + apart
        if not far or turn:
            break
        for c in range(the.channels):
            the.mean[c] = the.loops.rounded(the.s[c])
    for c in range(the.channels):
        the.mean[c] = the.s[c]
        the.scale[c] /= sqrt(the.q[c] + eps)
    apply_all(the)


cdef void slopes(Batch *the, double eps) noexcept nogil:
    """The gradient; those of weight and bias in q and s. m1 and m2 come with the gradients of mean and variance."""
    cdef Py_ssize_t c, many = the.count * the.span
    for c in range(the.channels):
        the.rstd[c] = 1.0 / sqrt(the.rstd[c] + eps)
    sum_all(the)
    if the.out == NULL:
        return
    for c in range(the.channels):
        the.scale[c] *= the.rstd[c] if many > 1 else 0.0  # the result of one number alone does not depend on it
        the.m1[c] = (the.scale[c] * the.s[c] - the.m1[c]) / many
        if the.m2[c] != 0:
            the.m2[c] *= 2.0 / the.rstd[c]  # x - mean = xhat / rstd; rstd is 0 where the variance left the range
        the.m2[c] = (the.scale[c] * the.q[c] - the.m2[c]) / many
    apply_all(the)


cdef bint per_channel(object array, cnp.ndarray x):
    """Whether `x` has channels, and `array` is None or has a number for each."""
    return cnp.PyArray_NDIM(x) > 1 and (
        array is None
        or (cnp.PyArray_NDIM(<cnp.ndarray>array) == 1 and cnp.PyArray_SIZE(<cnp.ndarray>array) == cnp.PyArray_DIM(x, 1))
    )


cdef inline cnp.ndarray gapless(cnp.ndarray x):
    return x if is_flat(x) and cnp.PyArray_ISBEHAVED_RO(x) else contiguous(x)


cdef class NormalizeBatch(Kernel):
    """The forward kernel; the constant is eps."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray x = <cnp.ndarray>args[0], out
        cdef Batch the
        cdef double eps = args[3]
        cdef int code = cnp.PyArray_TYPE(x)
        if loops_of(x) == NULL or cnp.PyArray_SIZE(x) == 0 or not (per_channel(args[1], x) and per_channel(args[2], x)):
            return self.otherwise.call(args, kwnames)
        x = gapless(x)
        out = fresh_like(x, code)
        if not prepare(&the, x):
            raise MemoryError
        try:
            fill(&the, the.scale, args[1], 1.0)
            fill(&the, the.added, args[2], 0.0)
            the.out = cnp.PyArray_BYTES(out)
            with nogil:
                normalize(&the, eps)
            return out, as_array(&the, the.s, code), as_array(&the, the.q, code)
        finally:
            free(the.memory)


def normalize_batch_gradients(grads, input, weight, mean, var, needs, double eps):
    """The gradients of input, weight and bias, for those of out, mean and var."""
    cdef cnp.ndarray x = gapless(<cnp.ndarray>input), g = laid_out_as(<cnp.ndarray>grads[0], x), dx = None
    cdef Batch the
    cdef int code = cnp.PyArray_TYPE(x)
    if needs.input:
        dx = fresh_like(x, code)
    if not prepare(&the, x):
        raise MemoryError
    try:
        fill(&the, the.mean, mean, 0.0)
        fill(&the, the.rstd, var, 0.0)
        fill(&the, the.scale, weight, 1.0)
        fill(&the, the.m1, grads[1], 0.0)
        fill(&the, the.m2, grads[2], 0.0)
        the.g = cnp.PyArray_BYTES(g)
        if dx is not None:
            the.out = cnp.PyArray_BYTES(dx)
        with nogil:
            slopes(&the, eps)
        return (
            dx, as_array(&the, the.q, code) if needs.weight else None,
            as_array(&the, the.s, code) if needs.bias else None
        )
    finally:
        free(the.memory)


# ---- with statistics that are given --------------------------------------------------------------------------

cdef bint is_per_channel(object array, cnp.ndarray x):
    """Whether it is a number or broadcasts against `x` as a number per channel."""
    cdef cnp.ndarray a
    cdef int skipped, d
    if type(array) is float or type(array) is int:
        return True
    if not cnp.PyArray_CheckExact(array):
        return False
    a = <cnp.ndarray>array
    skipped = cnp.PyArray_NDIM(x) - cnp.PyArray_NDIM(a)
    if skipped < 0 or skipped > 1 or cnp.PyArray_TYPE(a) != cnp.PyArray_TYPE(x):
        return False
    for d in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_DIM(a, d) != (cnp.PyArray_DIM(x, 1) if d + skipped == 1 else 1):
            return False
    return True


cdef bint takes(cnp.ndarray x, tuple others):
    if loops_of(x) == NULL or cnp.PyArray_NDIM(x) < 2 or cnp.PyArray_SIZE(x) == 0:
        return False
    for other in others:
        if not is_per_channel(other, x):
            return False
    return True


cdef int fill_any(const Batch *the, double *numbers, object value) except -1:
    """`fill` with an array or a number."""
    if cnp.PyArray_CheckExact(value):
        return fill(the, numbers, value, 0.0)
    return fill(the, numbers, None, value)


cdef class NormalizeWith(Kernel):
    """The forward kernel, from (input, mean, var, weight, bias, eps)."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray x, out
        cdef Batch the
        cdef Py_ssize_t c
        cdef double eps = args[5]
        if not cnp.PyArray_CheckExact(args[0]) or not takes(<cnp.ndarray>args[0], args[1:5]):
            return self.otherwise.call(args, kwnames)
        x = gapless(<cnp.ndarray>args[0])
        out = fresh_like(x, cnp.PyArray_TYPE(x))
        if not prepare(&the, x):
            raise MemoryError
        try:
            fill_any(&the, the.mean, args[1])
            fill_any(&the, the.rstd, args[2])
            fill_any(&the, the.scale, args[3])
            fill_any(&the, the.added, args[4])
            the.out = cnp.PyArray_BYTES(out)
            for c in range(the.channels):
                the.scale[c] /= sqrt(the.rstd[c] + eps)
            with nogil:
                apply_all(&the)
            return out
        finally:
            free(the.memory)


def normalize_with_gradients(grad, input, mean, var, weight, double eps, needs):
    """The gradients of input, weight and bias, the last with as many dimensions as the input.

    None where the loops do not take it.
    """
    cdef cnp.ndarray x, g, dx = None
    cdef Batch the
    cdef Py_ssize_t c
    cdef int code
    cdef bint sums
    cdef char *data = NULL
    if not takes(<cnp.ndarray>input, (mean, var, weight)):
        return None
    x = gapless(<cnp.ndarray>input)
    g = laid_out_as(<cnp.ndarray>grad, x)
    code = cnp.PyArray_TYPE(x)
    if needs.input:
        dx = fresh_like(x, code)
        data = cnp.PyArray_BYTES(dx)
    if not prepare(&the, x):
        raise MemoryError
    try:
        fill_any(&the, the.mean, mean)
        fill_any(&the, the.rstd, var)
        fill_any(&the, the.scale, weight)
        the.g = cnp.PyArray_BYTES(g)
        for c in range(the.channels):
            the.rstd[c] = 1.0 / sqrt(the.rstd[c] + eps)
            the.scale[c] *= the.rstd[c]
        sums = needs[3] or needs[4]
        with nogil:
            if sums:
                sum_all(&the)
            if data != NULL:
                # The gradient of x is `scale` times that of the result.
                the.x, the.g, the.out = the.g, NULL, data
                for c in range(the.channels):
                    the.mean[c] = the.added[c] = 0.0
                apply_all(&the)
        return (
            dx, None, None,
            as_array(&the, the.q, code).reshape(weight.shape) if needs[3] else None,
            as_array(&the, the.s, code).reshape((1, -1) + (1,) * (cnp.PyArray_NDIM(x) - 2)) if needs[4] else None,
        )
    finally:
        free(the.memory)
