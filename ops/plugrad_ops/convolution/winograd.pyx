# cython: boundscheck=False, wraparound=False, cdivision=True
"""Convolution with kernels of 3 by 3, in 4 products for each result instead of 9.

(a) Four results of a square come from a sum over channels of 16 products, of numbers made from 16 elements of the image
    with numbers made from the kernel (Winograd's minimal filtering F(2x2, 3x3); Lavin and Gray, CVPR 2016, 4013-4021).
    All factors are 0, 1 and 1/2: rounding errors are about twice those of plain sums.
(b) Images are laid out as for windows with a stride of two, so that the same element of neighbouring squares lies side
    by side. Sixteen products of matrices follow, by the tiles of tiles.h, of some squares at a time so that all stays
    in the cache.
(c) Differences of elements that are far from each other, infinite or nan, would spoil results that do not see them:
    the caller takes another way unless all elements are moderate (`images.moderate`).
"""

cimport numpy as cnp
cimport plugrad.backends.simd  # its macros  # no-cython-lint
from plugrad.backends.parallel cimport parallel_for, threads
from plugrad_ops.convolution.direct cimport pg_tiles, tiles_of
from plugrad_ops.convolution.images cimport BEHIND, Copying, buffer, copy_images, kind_of, new, read_layout

cnp.import_array()

cdef extern from "squares.h" nogil:
    void pg_from_image_float(const float *, Py_ssize_t, Py_ssize_t, float *, Py_ssize_t, Py_ssize_t) noexcept
    void pg_from_image_double(const double *, Py_ssize_t, Py_ssize_t, double *, Py_ssize_t, Py_ssize_t) noexcept
    void pg_to_rows_float(const float *, Py_ssize_t, float, float *, float *, Py_ssize_t) noexcept
    void pg_to_rows_double(const double *, Py_ssize_t, double, double *, double *, Py_ssize_t) noexcept
    void pg_from_kernel_float(const float *, int, float *, Py_ssize_t) noexcept
    void pg_from_kernel_double(const double *, int, double *, Py_ssize_t) noexcept

cdef extern from "runs.h" nogil:
    void pg_copy_bytes(char *to, const char *source, Py_ssize_t bytes) noexcept

ctypedef fused real:
    float
    double

cdef enum:
    BLOCK = 1 << 22     # bytes of images laid out at a time
    TOGETHER = 48       # squares that are computed together, at least
    LINE = 16           # the 16 numbers are an odd number of these apart, so that they fall on all places of a cache
    DEPTH = 512         # channels whose products are summed in registers
    PIECE = 1 << 14     # numbers of kernels that are worth giving to a thread


# ---- kernels -------------------------------------------------------------------------------------------------------


cdef struct Kernels:
    const char *weight
    char *packed
    Py_ssize_t rows, inner          # of a group: rows of the result, channels
    Py_ssize_t next                 # elements from one of the 16 numbers to the next
    int size, high, adjoint


cdef void pack(const real *weight, real *packed, const Kernels *k, Py_ssize_t group, Py_ssize_t m) noexcept nogil:
    """Of a few rows, one of the 16 numbers of each row side by side, channel after channel."""
    cdef Py_ssize_t c, i, place, last = min(m + k.high, k.rows)
    cdef int high = k.high
    packed += (group * k.rows + m) * k.inner
    while m < last:
        while high > last - m:
            high //= 2
        for c in range(k.inner):
            for i in range(high):
                if k.adjoint:
                    place = (group * k.inner + c) * k.rows + m + i
                else:
                    place = (group * k.rows + m + i) * k.inner + c
                if real is float:
                    pg_from_kernel_float(weight + 9 * place, k.adjoint, packed + i, k.next)
                else:
                    pg_from_kernel_double(weight + 9 * place, k.adjoint, packed + i, k.next)
            packed += high
        m += high


cdef void pack_rows(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Kernels *k = <Kernels *>context
    cdef Py_ssize_t each = (k.rows + k.high - 1) // k.high, i
    for i in range(begin, end):
        if k.size == 4:
            pack(<const float *>k.weight, <float *>k.packed, k, i // each, i % each * k.high)
        else:
            pack(<const double *>k.weight, <double *>k.packed, k, i // each, i % each * k.high)


# ---- results -------------------------------------------------------------------------------------------------------


cdef struct Squares:
    const pg_tiles *tiles
    int size
    Py_ssize_t groups, inner, rows          # channels and rows of a group
    Py_ssize_t plane, channel, pitch        # of the images laid out
    Py_ssize_t across, length               # squares of a row, and of an image with what lies between rows
    Py_ssize_t together, count              # squares of a task, and of all images of a block
    Py_ssize_t next, kernel_next            # elements from one of the 16 numbers to the next
    Py_ssize_t height, width                # of the result
    Py_ssize_t pieces, bytes                # of work, and of scratch for each
    const Py_ssize_t *offsets
    const char *images
    const char *packed
    const char *bias
    char *out
    char *scratch


cdef void write_rows(
    const real *upper, const real *lower, real *out, const Squares *s, Py_ssize_t first, Py_ssize_t n
) noexcept nogil:
    """Two rows for each row of squares, from the square `first` of an image on."""
    cdef Py_ssize_t y = first // s.pitch, x = first % s.pitch, at = 0, rest, wanted
    cdef real *to
    while at < n:
        rest = min(s.pitch - x, n - at)
        wanted = min(2 * min(rest, s.across - x), s.width - 2 * x)
        if wanted > 0:
            to = out + 2 * y * s.width + 2 * x
            pg_copy_bytes(<char *>to, <const char *>(upper + 2 * at), wanted * sizeof(real))
            if 2 * y + 1 < s.height:
                pg_copy_bytes(<char *>(to + s.width), <const char *>(lower + 2 * at), wanted * sizeof(real))
        at += rest
        x = 0
        y += 1


cdef void read_squares(
    const real *images, real *numbers, const Squares *s, Py_ssize_t group, Py_ssize_t first, Py_ssize_t n
) noexcept nogil:
    """Sixteen numbers of each channel and square."""
    cdef Py_ssize_t at = 0, image, q, part, wide, c
    cdef const real *of
    while at < n:
        image = (first + at) // s.length
        q = (first + at) % s.length
        part = min(n - at, s.length - q)
        wide = min((part + LINE - 1) // LINE * LINE, s.together - at)  # whole vectors; the next part comes over it
        for c in range(s.inner):
            of = images + ((image * s.groups + group) * s.inner + c) * s.channel + q
            if real is float:
                pg_from_image_float(
                    of, s.plane, s.pitch, numbers + c * s.together + at, s.next, wide
                )
            else:
                pg_from_image_double(
                    of, s.plane, s.pitch, numbers + c * s.together + at, s.next, wide
                )
        at += part


cdef void write_squares(
    const real *rows, real *out, const Squares *s, Py_ssize_t row, Py_ssize_t first, Py_ssize_t n
) noexcept nogil:
    """Two rows of a channel for each row of squares, which may belong to several images."""
    cdef Py_ssize_t at = 0, image, q, part
    while at < n:
        image = (first + at) // s.length
        q = (first + at) % s.length
        part = min(n - at, s.length - q)
        write_rows(
            rows + 2 * at, rows + 2 * (s.together + at),
            out + (image * s.groups * s.rows + row) * s.height * s.width, s, q, part
        )
        at += part


cdef void some_squares(
    const real *images, const real *packed, const real *bias, real *out, real *scratch, const Squares *s,
    Py_ssize_t group, Py_ssize_t first, Py_ssize_t n
) noexcept nogil:
    """All rows of a group for the squares from `first` on."""
    cdef Py_ssize_t wide = s.tiles.wide * s.tiles.lanes, across = (n + wide - 1) // wide, m = 0, i, k, t, c
    cdef int high = s.tiles.high
    cdef real *sums = scratch + 16 * s.next     # 16 tiles, the rows of which are `wide` apart
    cdef real *rows = sums + 16 * high * wide   # 2 * high * 2 * together
    cdef Py_ssize_t each = high * wide
    cdef real added
    read_squares(images, scratch, s, group, first, n)
    while m < s.rows:
        while high > s.rows - m:
            high //= 2
        for t in range(across):
            for k in range(16):
                c = 0
                while c < s.inner:
                    s.tiles.tile(
                        high, s.tiles.wide, min(DEPTH, s.inner - c),
                        packed + k * s.kernel_next + (group * s.rows + m) * s.inner + c * high,
                        scratch + k * s.next + t * wide, s.offsets + c, NULL, sums + k * each, c == 0
                    )
                    c += DEPTH
            for i in range(high):
                added = <real>0 if bias == NULL else bias[group * s.rows + m + i]
                if real is float:
                    pg_to_rows_float(
                        sums + i * wide, each, added, rows + (4 * i * s.together + 2 * t * wide),
                        rows + ((4 * i + 2) * s.together + 2 * t * wide), wide
                    )
                else:
                    pg_to_rows_double(
                        sums + i * wide, each, added, rows + (4 * i * s.together + 2 * t * wide),
                        rows + ((4 * i + 2) * s.together + 2 * t * wide), wide
                    )
        for i in range(high):
            write_squares(rows + 4 * i * s.together, out, s, group * s.rows + m + i, first, n)
        m += high


cdef void all_squares(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Squares *s = <Squares *>context
    cdef Py_ssize_t each = (s.count + s.together - 1) // s.together, tasks = s.groups * each, piece, task, first, n
    for piece in range(begin, end):
        for task in range(piece * tasks // s.pieces, (piece + 1) * tasks // s.pieces):
            first = task % each * s.together
            n = min(s.together, s.count - first)
            if s.size == 4:
                some_squares(
                    <const float *>s.images, <const float *>s.packed, <const float *>s.bias, <float *>s.out,
                    <float *>(s.scratch + piece * s.bytes), s, task // each, first, n
                )
            else:
                some_squares(
                    <const double *>s.images, <const double *>s.packed, <const double *>s.bias, <double *>s.out,
                    <double *>(s.scratch + piece * s.bytes), s, task // each, first, n
                )


def convolve(
    cnp.ndarray images, cnp.ndarray weight, cnp.ndarray bias, tuple shape, object layout, Py_ssize_t groups,
    bint adjoint
):
    """A convolution of images with kernels of 3 by 3 and a stride of one or, with `adjoint`, its adjoint by the images.

    Parameters
    ----------
    images : ndarray
        (N, channels, height, width), C-contiguous and not empty, `moderate`, all arrays float32 or all float64.
    weight : ndarray
        (O, C / groups, 3, 3), `moderate`.
    bias : ndarray or None
        Of the channels of the result.
    shape : tuple of int
        Of the result, (N, channels, height, width).
    layout
        What `layouts.squares` tells.
    """
    cdef int kind = kind_of(images, weight), size = 4 if kind == cnp.NPY_FLOAT else 8
    cdef cnp.ndarray out = new(shape, kind), memory, packed, offsets, scratch
    cdef Py_ssize_t n = cnp.PyArray_DIM(images, 0), channels = cnp.PyArray_DIM(images, 1), block, first, count, i
    cdef Copying copying
    cdef Squares s
    cdef Kernels k
    if bias is not None:
        kind_of(bias, out)
    read_layout(layout, &copying.layout)
    s.tiles = tiles_of(size)
    s.groups = groups
    s.inner = k.inner = channels // groups
    s.rows = k.rows = cnp.PyArray_DIM(out, 1) // groups
    s.plane = copying.layout.plane
    s.channel = copying.layout.channel
    s.pitch = copying.layout.rows[2]
    s.height = cnp.PyArray_DIM(out, 2)
    s.width = cnp.PyArray_DIM(out, 3)
    s.across = (s.width + 1) // 2
    s.length = ((s.height + 1) // 2 - 1) * s.pitch + s.across
    s.together = s.tiles.wide * s.tiles.lanes
    s.together *= (TOGETHER + s.together - 1) // s.together
    s.next = ((s.inner * s.together + LINE - 1) // LINE | 1) * LINE
    s.bytes = (16 * s.next + s.tiles.high * (16 * s.tiles.wide * s.tiles.lanes + 4 * s.together)) * size
    s.kernel_next = k.next = ((groups * s.rows * s.inner + LINE - 1) // LINE | 1) * LINE
    block = max(1, min(BLOCK // (channels * s.channel * size), n))
    s.pieces = max(1, min(4 * threads(), groups * ((block * s.length + s.together - 1) // s.together)))
    memory = buffer(block * channels * s.channel + BEHIND, kind)
    packed = buffer(16 * s.kernel_next, kind)
    offsets = buffer(s.inner, cnp.NPY_INTP)
    scratch = buffer(s.pieces * s.bytes, cnp.NPY_INT8)
    for i in range(s.inner):
        (<Py_ssize_t *>cnp.PyArray_DATA(offsets))[i] = i * s.together
    s.size = k.size = copying.size = size
    s.offsets = <const Py_ssize_t *>cnp.PyArray_DATA(offsets)
    s.images = copying.to = <char *>cnp.PyArray_DATA(memory)
    s.packed = k.packed = <char *>cnp.PyArray_DATA(packed)
    s.scratch = <char *>cnp.PyArray_DATA(scratch)
    s.bias = NULL if bias is None else <const char *>cnp.PyArray_DATA(bias)
    k.weight = <const char *>cnp.PyArray_DATA(weight)
    k.high = s.tiles.high
    k.adjoint = adjoint
    with nogil:
        parallel_for(
            groups * ((s.rows + k.high - 1) // k.high), 1 + PIECE // (16 * k.high * s.inner), pack_rows, &k
        )
        first = 0
        while first < n:
            count = min(block, n - first)
            copy_images(
                &copying, <const char *>cnp.PyArray_DATA(images) + first * channels * cnp.PyArray_STRIDE(images, 1),
                count * channels
            )
            s.count = count * s.length
            s.out = <char *>cnp.PyArray_DATA(out) + first * cnp.PyArray_STRIDE(out, 0)
            parallel_for(s.pieces, 1, all_squares, &s)
            first += count
    return out
