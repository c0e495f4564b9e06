# cython: boundscheck=False, wraparound=False, cdivision=True
"""Copies of images, with their padding, as the tiles of a convolution read them; `layouts` tells where elements go."""

cimport numpy as cnp
cimport plugrad.backends.simd  # its macros  # no-cython-lint
from libc.string cimport memcpy, memset
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.recycling cimport fresh

cnp.import_array()

cdef extern from *:
    """
    #include <float.h>
    /* Whether an element lies beyond `most` on either side, or is nan. */
    #define PG_BEYOND(T)                                                                                             \\
        PG_VECTOR static int pg_beyond_##T(const T *x, Py_ssize_t n, T most) {                                       \\
            int found = 0;                                                                                           \\
            for (Py_ssize_t i = 0; i < n; i++) found |= !(x[i] <= most) | !(x[i] >= -most);                          \\
            return found;                                                                                            \\
        }
    PG_BEYOND(float)
    PG_BEYOND(double)
    """
    double FLT_MAX, DBL_MAX
    int pg_beyond_float(const float *x, Py_ssize_t n, float most) noexcept nogil
    int pg_beyond_double(const double *x, Py_ssize_t n, double most) noexcept nogil

cdef extern from "runs.h" nogil:
    void pg_copy_bytes(char *to, const char *source, Py_ssize_t bytes) noexcept

ctypedef fused real:
    float
    double

cdef enum:
    COPIED = 1 << 15    # elements that are worth giving to a thread


cdef inline Py_ssize_t clamp(Py_ssize_t value, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    return low if value < low else high if value > high else value


cdef void lay_out(const real *image, real *to, const Layout *l) noexcept nogil:
    """Copy one channel."""
    cdef Py_ssize_t a, b, c, d, h, z, y, i, lo, hi, width = l.rows[2], stride = l.stride[2], first
    cdef real *begin = to
    cdef real *end
    cdef const real *line
    for a in range(l.planes[0]):
        for b in range(l.planes[1]):
            for c in range(l.planes[2]):
                first = l.phases[l.planes[0] + l.planes[1] + c] - l.shift[2]  # the element at place 0 of a row
                lo = clamp(-(first // stride) if first < 0 else 0, 0, width)
                if first + lo * stride < 0:
                    lo = clamp(lo + 1, 0, width)
                hi = clamp((l.size[2] - first + stride - 1) // stride if first < l.size[2] else 0, lo, width)
                end = to + l.plane
                for d in range(l.rows[0]):
                    z = d * l.stride[0] + l.phases[a] - l.shift[0]
                    for h in range(l.rows[1]):
                        y = h * l.stride[1] + l.phases[l.planes[0] + b] - l.shift[1]
                        if z < 0 or z >= l.size[0] or y < 0 or y >= l.size[1]:
                            memset(to, 0, width * sizeof(real))
                        else:
                            line = image + (z * l.size[1] + y) * l.size[2] + first
                            for i in range(lo):
                                to[i] = 0
                            if stride != 1:
                                for i in range(lo, hi):
                                    to[i] = line[i * stride]
                            elif hi - lo > 128:
                                memcpy(to + lo, line + lo, (hi - lo) * sizeof(real))
                            else:
                                pg_copy_bytes(<char *>(to + lo), <const char *>(line + lo), (hi - lo) * sizeof(real))
                            for i in range(hi, width):
                                to[i] = 0
                        to += width
                memset(to, 0, <char *>end - <char *>to)
                to = end
    memset(to, 0, (l.channel - (to - begin)) * sizeof(real))


cdef void copy_channels(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Copying *c = <Copying *>context
    cdef Py_ssize_t i, each = c.layout.size[0] * c.layout.size[1] * c.layout.size[2] * c.size
    for i in range(begin, end):
        if c.size == 4:
            lay_out(<const float *>(c.images + i * each), <float *>(c.to + i * c.layout.channel * 4), &c.layout)
        else:
            lay_out(<const double *>(c.images + i * each), <double *>(c.to + i * c.layout.channel * 8), &c.layout)


cdef void copy_images(Copying *c, const char *images, Py_ssize_t channels) noexcept nogil:
    """Lay out so many channels, and zeros behind them."""
    c.images = images
    parallel_for(channels, 1 + COPIED // c.layout.channel, copy_channels, c)
    memset(c.to + channels * c.layout.channel * c.size, 0, BEHIND * c.size)


cdef int read_layout(object given, Layout *l) except -1:
    cdef cnp.ndarray table = given.table, phases = given.phases
    cdef const Py_ssize_t *n = <const Py_ssize_t *>cnp.PyArray_DATA(table)
    cdef int i
    for i in range(3):
        l.size[i] = n[i]
        l.stride[i] = n[3 + i]
        l.shift[i] = n[6 + i]
        l.planes[i] = n[9 + i]
        l.rows[i] = n[12 + i]
    l.plane = n[15]
    l.channel = n[16]
    l.phases = <const Py_ssize_t *>cnp.PyArray_DATA(phases)
    return 0


cdef cnp.ndarray buffer(Py_ssize_t n, int kind):
    cdef cnp.npy_intp length = n
    return fresh(1, &length, kind)


cdef cnp.ndarray new(tuple shape, int kind):
    cdef cnp.npy_intp dims[5]
    cdef int i
    if len(shape) > 5:
        raise ValueError("images have at most three dimensions")
    for i in range(len(shape)):
        dims[i] = shape[i]
    return fresh(<int>len(shape), dims, kind)


cdef int kind_of(cnp.ndarray a, cnp.ndarray b) except -1:
    """The type of both, which are C-contiguous."""
    cdef int kind = cnp.PyArray_TYPE(a)
    if (
        (kind != cnp.NPY_FLOAT and kind != cnp.NPY_DOUBLE) or cnp.PyArray_TYPE(b) != kind
        or not cnp.PyArray_ISCARRAY_RO(a) or not cnp.PyArray_ISCARRAY_RO(b)
    ):
        raise ValueError("arrays must be C-contiguous, all float32 or all float64")
    return kind


# ---- elements ------------------------------------------------------------------------------------------------------


cdef struct Looking:
    const char *data
    int size, found
    double most


cdef void look(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Looking *seen = <Looking *>context
    if seen.size == 4:
        if pg_beyond_float(<const float *>seen.data + begin, end - begin, <float>seen.most):
            seen.found = 1
    elif pg_beyond_double(<const double *>seen.data + begin, end - begin, seen.most):
        seen.found = 1


cdef bint within(cnp.ndarray array, double narrow, double wide) except -1:
    """Whether all elements lie between -most and most: the first number is that of float32, the second of float64."""
    cdef Looking seen
    seen.size = 4 if kind_of(array, array) == cnp.NPY_FLOAT else 8
    seen.most = narrow if seen.size == 4 else wide
    seen.data = <const char *>cnp.PyArray_DATA(array)
    seen.found = 0
    with nogil:
        parallel_for(cnp.PyArray_SIZE(array), COPIED, look, &seen)
    return not seen.found


def finite(cnp.ndarray array):
    """Whether a C-contiguous array of float32 or float64 has only finite elements."""
    return within(array, FLT_MAX, DBL_MAX)


def moderate(cnp.ndarray array):
    """Whether its elements are so far from overflow that products of two, and sums of these, stay finite."""
    return within(array, 1e15, 1e150)
