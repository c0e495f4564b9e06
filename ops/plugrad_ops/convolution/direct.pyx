# cython: boundscheck=False, wraparound=False, cdivision=True
"""Convolution without columns: images are copied once, with their padding, and tiles of the result read them there.

(a) `layouts` tells where elements lie and which offsets the taps have, tiles.h has the loops over tiles.
(b) Images go through in blocks that stay in the cache. In a block first all channels are laid out, then all tiles are
    computed; both are shared out among threads. Each result is computed by one thread, so that their number does not
    change it.
(c) Zeros around images are multiplied like elements. Where that could make nan of infinities that no sum of the
    reference meets, the caller takes another way.
"""

cimport numpy as cnp
from plugrad.backends.parallel cimport parallel_for
from plugrad_ops.convolution.images cimport BEHIND, Copying, Layout, buffer, copy_images, kind_of, new, read_layout

cnp.import_array()

cdef extern from "tiles.h" nogil:
    enum:
        PG_SETS
    const pg_tiles pg_sets[1][2]
    int pg_best_set() noexcept

ctypedef fused real:
    float
    double

cdef enum:
    BLOCK = 1 << 23     # bytes of images laid out at a time
    CHUNK = 1 << 15     # bytes of a channel that a sum over places reads at a time
    TAPS = 72           # columns of a gradient by the kernel that a thread takes together
    PIECE = 1 << 20     # products that are worth giving to a thread

cdef int _set = pg_best_set()


cdef const pg_tiles *tiles_of(int size) except NULL:
    """The tiles in use for elements of so many bytes."""
    if _set < 0:
        raise RuntimeError("there are no tiles for this machine")
    return &pg_sets[_set][0 if size == 4 else 1]


def instruction_sets():
    """How many sets of instructions the tiles are compiled for, and the number of the one in use (-1: none)."""
    return PG_SETS, _set


def use_instruction_set(int number):
    """Use another one, for tests; the machine must have it."""
    global _set
    if not -1 <= number <= pg_best_set():
        raise ValueError(f"there are no tiles of number {number} for this machine")
    _set = number


# ---- products --------------------------------------------------------------------------------------------------------


cdef void pack(
    const real *weight, real *packed, Py_ssize_t rows, Py_ssize_t row_step, Py_ssize_t channels,
    Py_ssize_t channel_step, const Py_ssize_t *taps, Py_ssize_t n, int high
) noexcept nogil:
    """For each block of rows, the elements of a tap side by side, tap after tap."""
    cdef Py_ssize_t m = 0, c, t, i
    cdef const real *of
    while m < rows:
        while high > rows - m:
            high //= 2
        for c in range(channels):
            for t in range(n):
                of = weight + m * row_step + c * channel_step + taps[t]
                for i in range(high):
                    packed[i] = of[i * row_step]
                packed += high
        m += high


cdef struct Product:
    const pg_tiles *tiles
    pg_grid grid
    int size
    Py_ssize_t groups, slices, rows         # slices of depth; rows of the result in a group
    Py_ssize_t across, at_once              # of which a task has so many: places, rows
    Py_ssize_t image_next, group_next, slice_next
    Py_ssize_t out_next, out_slice, out_first
    const char *images
    const char *packed
    const char *bias
    char *out


cdef inline Py_ssize_t tasks_of(const Product *p) noexcept nogil:
    return ((p.grid.length + p.across - 1) // p.across) * ((p.rows + p.at_once - 1) // p.at_once)


cdef void compute_tiles(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Product *p = <Product *>context
    cdef Py_ssize_t each = tasks_of(p), high = (p.rows + p.at_once - 1) // p.at_once
    cdef Py_ssize_t i, task, group, d, image, first, row
    for i in range(begin, end):
        task = i % each
        d = i // each % p.slices
        group = i // each // p.slices % p.groups
        image = i // each // p.slices // p.groups
        first = task // high * p.across
        row = task % high * p.at_once
        p.tiles.rows(
            &p.grid,
            p.images + (image * p.image_next + group * p.group_next + d * p.slice_next) * p.size,
            p.packed + group * p.rows * p.grid.depth * p.size,
            NULL if p.bias == NULL else p.bias + group * p.rows * p.size,
            p.out + (image * p.out_next + group * p.rows * p.grid.channel + d * p.out_slice + p.out_first) * p.size,
            first, min(first + p.across, p.grid.length), row, min(row + p.at_once, p.rows),
        )


cdef void set_grid(Product *p, cnp.ndarray table, const Layout *l, cnp.ndarray out) noexcept:
    """The numbers of a grid, for results laid out as `out`."""
    cdef const Py_ssize_t *n = <const Py_ssize_t *>cnp.PyArray_DATA(table)
    cdef int nd = cnp.PyArray_NDIM(out)
    cdef Py_ssize_t width = cnp.PyArray_DIM(out, nd - 1), height = cnp.PyArray_DIM(out, nd - 2) if nd > 3 else 1
    p.slices = n[0]
    p.slice_next = n[9]
    p.grid.pitch = l.rows[2]
    p.grid.length = (n[1] - 1) * l.rows[2] + n[2]
    p.grid.width = n[2]
    p.grid.step = n[8]
    p.grid.row = n[7] * width
    p.grid.channel = cnp.PyArray_SIZE(out) // (cnp.PyArray_DIM(out, 0) * cnp.PyArray_DIM(out, 1))
    p.out_next = p.grid.channel * cnp.PyArray_DIM(out, 1)
    p.out_slice = n[6] * height * width
    p.out_first = (n[3] * height + n[4]) * width + n[5]


def correlate(
    cnp.ndarray images, cnp.ndarray weight, cnp.ndarray bias, tuple shape, object layout, list grids, Py_ssize_t groups,
    bint adjoint
):
    """A convolution of images or, with `adjoint`, its adjoint by the images.

    Parameters
    ----------
    images : ndarray
        (N, channels, …), C-contiguous and not empty, all arrays float32 or all float64.
    weight : ndarray
        (O, C / groups, …).
    bias : ndarray or None
        Of the channels of the result.
    shape : tuple of int
        Of the result, (N, channels, …).
    layout, grids
        What `layouts.forward` or `layouts.adjoint` tells.
    """
    cdef int kind = kind_of(images, weight), size = 4 if kind == cnp.NPY_FLOAT else 8
    cdef cnp.ndarray out = new(shape, kind)
    cdef Py_ssize_t n = cnp.PyArray_DIM(images, 0), channels = cnp.PyArray_DIM(images, 1)
    cdef Py_ssize_t inner = channels // groups, rows = cnp.PyArray_DIM(out, 1) // groups
    cdef Py_ssize_t kernel = cnp.PyArray_SIZE(weight) // (inner * rows * groups)
    cdef Py_ssize_t row_step = kernel if adjoint else inner * kernel, step = rows * kernel if adjoint else kernel
    cdef Py_ssize_t block, first, count, i, j, c, t, image_bytes, work
    cdef Copying copying
    cdef Product base
    cdef Product *p
    cdef cnp.ndarray memory, packed, offsets, products, shifts, taps
    cdef Py_ssize_t *to
    cdef char *kernels
    cdef int number = len(grids)
    if bias is not None:
        kind_of(bias, out)
    read_layout(layout, &copying.layout)
    image_bytes = channels * cnp.PyArray_STRIDE(images, 1)
    base.tiles = tiles_of(size)
    base.size = size
    base.groups = groups
    base.rows = rows
    base.group_next = inner * copying.layout.channel
    base.image_next = channels * copying.layout.channel
    base.across = 4 * base.tiles.wide * base.tiles.lanes
    base.bias = NULL if bias is None else <const char *>cnp.PyArray_DATA(bias)
    block = max(1, min(BLOCK // (base.image_next * size), n))
    memory = buffer(block * base.image_next + BEHIND, kind)
    packed = buffer(cnp.PyArray_SIZE(weight) + 1, kind)
    offsets = buffer(inner * kernel + 1, cnp.NPY_INTP)
    products = buffer(number * sizeof(Product), cnp.NPY_INT8)
    copying.size = size
    copying.to = <char *>cnp.PyArray_DATA(memory)
    base.images = copying.to
    to = <Py_ssize_t *>cnp.PyArray_DATA(offsets)
    kernels = <char *>cnp.PyArray_DATA(packed)
    for j in range(number):
        p = <Product *>cnp.PyArray_DATA(products) + j
        p[0] = base
        set_grid(p, grids[j].table, &copying.layout, out)
        shifts, taps = grids[j].offsets, grids[j].taps
        t = cnp.PyArray_SIZE(taps)
        p.grid.depth = inner * t
        p.grid.offsets = to
        p.packed = kernels
        for c in range(inner):
            for i in range(t):
                to[i] = (<const Py_ssize_t *>cnp.PyArray_DATA(shifts))[i] + c * copying.layout.channel
            to += t
        for i in range(groups):
            if size == 4:
                pack(
                    <const float *>cnp.PyArray_DATA(weight) + i * inner * rows * kernel, <float *>kernels, rows,
                    row_step, inner, step, <const Py_ssize_t *>cnp.PyArray_DATA(taps), t, base.tiles.high
                )
            else:
                pack(
                    <const double *>cnp.PyArray_DATA(weight) + i * inner * rows * kernel, <double *>kernels, rows,
                    row_step, inner, step, <const Py_ssize_t *>cnp.PyArray_DATA(taps), t, base.tiles.high
                )
            kernels += p.grid.depth * rows * size
        # Where there are few images, and small ones, the rows are shared out too.
        p.at_once = rows
        while block * groups * p.slices * tasks_of(p) < 16 and p.at_once > base.tiles.high:
            p.at_once = (p.at_once // 2 + base.tiles.high - 1) // base.tiles.high * base.tiles.high
    with nogil:
        first = 0
        while first < n:
            count = min(block, n - first)
            copy_images(&copying, <const char *>cnp.PyArray_DATA(images) + first * image_bytes, count * channels)
            for j in range(number):
                p = <Product *>cnp.PyArray_DATA(products) + j
                p.out = <char *>cnp.PyArray_DATA(out) + first * p.out_next * size
                work = p.at_once * min(p.across, p.grid.length) * (p.grid.depth + 8)
                parallel_for(count * groups * p.slices * tasks_of(p), 1 + PIECE // work, compute_tiles, p)
            first += count
    return out


# ---- sums over all places ------------------------------------------------------------------------------------------


cdef struct Sums:
    const pg_tiles *tiles
    int size, added                         # whether something has been summed before
    Py_ssize_t groups, rows, depth          # rows and columns of the result in a group
    Py_ssize_t high, wide                   # of which a task has so many
    Py_ssize_t grad_next, grad_group, image_group
    const Py_ssize_t *offsets
    const pg_stretch *stretches             # in order …
    const Py_ssize_t *chunks                # … and where a part begins that is read at a time
    Py_ssize_t number                       # of parts
    const char *grad
    const char *images
    char *out


cdef void compute_sums(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Sums *s = <Sums *>context
    cdef Py_ssize_t down = (s.rows + s.high - 1) // s.high, across = (s.depth + s.wide - 1) // s.wide
    cdef Py_ssize_t i, c, group, row, column
    for i in range(begin, end):
        group = i // (down * across)
        column = i // down % across * s.wide
        row = i % down * s.high
        for c in range(s.number):
            s.tiles.dots(
                s.stretches + s.chunks[c], s.chunks[c + 1] - s.chunks[c],
                s.grad + (group * s.grad_group + row * s.grad_next) * s.size, s.grad_next, min(s.high, s.rows - row),
                s.images + group * s.image_group * s.size, s.offsets + column, min(s.wide, s.depth - column),
                s.out + ((group * s.rows + row) * s.depth + column) * s.size, s.depth, c == 0 and not s.added
            )


def correlate_grad(
    cnp.ndarray grad, cnp.ndarray images, tuple kernel, object plain, object layout, object grid, Py_ssize_t groups
):
    """The adjoint of a convolution by its kernel, (O, C / groups, *kernel).

    Parameters
    ----------
    grad, images : ndarray
        (N, O, …) and (N, C, …), C-contiguous and not empty, both float32 or both float64.
    kernel : tuple of int
    plain, layout, grid
        What `layouts.plain` tells for `grad`, and `layouts.forward` for `images`.
    """
    cdef int kind = kind_of(grad, images), size = 4 if kind == cnp.NPY_FLOAT else 8
    cdef Py_ssize_t n = cnp.PyArray_DIM(images, 0), channels = cnp.PyArray_DIM(images, 1)
    cdef Py_ssize_t inner = channels // groups, outer = cnp.PyArray_DIM(grad, 1)
    cdef cnp.ndarray shifts = grid.offsets, table = grid.table
    cdef const Py_ssize_t *numbers = <const Py_ssize_t *>cnp.PyArray_DATA(table)
    cdef Py_ssize_t taps = cnp.PyArray_SIZE(shifts), slices = numbers[0]
    cdef Py_ssize_t length, lanes, most, piece, parts, block, count, first, i, d, q, c, held, chunks
    cdef Copying x, g
    cdef Sums s
    cdef cnp.ndarray memory, grads, offsets, stretches, starts, out = new((outer, inner, *kernel), kind)
    cdef Py_ssize_t *to
    cdef pg_stretch *stretch
    read_layout(layout, &x.layout)
    read_layout(plain, &g.layout)
    s.tiles = tiles_of(size)
    s.size = size
    s.added = 0
    s.groups = groups
    s.rows = outer // groups
    s.depth = inner * taps
    s.grad_next = slices * g.layout.channel
    s.grad_group = s.rows * s.grad_next
    s.image_group = inner * x.layout.channel
    lanes = s.tiles.lanes
    length = (numbers[1] - 1) * x.layout.rows[2] + numbers[2]
    length = (length + lanes - 1) // lanes * lanes
    most = CHUNK // size
    piece = min(length, most)
    parts = (length + piece - 1) // piece
    block = max(1, min(BLOCK // ((channels * x.layout.channel + outer * s.grad_next) * size), n))
    memory = buffer(block * channels * x.layout.channel + BEHIND, kind)
    grads = buffer(block * outer * s.grad_next + BEHIND, kind)
    offsets = buffer(s.depth, cnp.NPY_INTP)
    stretches = buffer(3 * block * slices * parts, cnp.NPY_INTP)
    starts = buffer(block * slices * parts + 1, cnp.NPY_INTP)
    x.size = g.size = size
    x.to = <char *>cnp.PyArray_DATA(memory)
    g.to = <char *>cnp.PyArray_DATA(grads)
    s.images = x.to
    s.grad = g.to
    s.out = <char *>cnp.PyArray_DATA(out)
    to = <Py_ssize_t *>cnp.PyArray_DATA(offsets)
    for c in range(inner):
        for i in range(taps):
            to[c * taps + i] = (<const Py_ssize_t *>cnp.PyArray_DATA(shifts))[i] + c * x.layout.channel
    s.offsets = to
    s.stretches = <pg_stretch *>cnp.PyArray_DATA(stretches)
    s.chunks = <Py_ssize_t *>cnp.PyArray_DATA(starts)
    s.high = s.rows
    s.wide = min(s.depth, TAPS)
    while groups * ((s.depth + s.wide - 1) // s.wide) * ((s.rows + s.high - 1) // s.high) < 16 and s.high > 4:
        s.high = (s.high // 2 + 3) // 4 * 4
    with nogil:
        first = 0
        while first < n:
            count = min(block, n - first)
            copy_images(
                &x, <const char *>cnp.PyArray_DATA(images) + first * channels * cnp.PyArray_STRIDE(images, 1),
                count * channels
            )
            copy_images(
                &g, <const char *>cnp.PyArray_DATA(grad) + first * outer * cnp.PyArray_STRIDE(grad, 1),
                count * outer * slices
            )
            stretch = <pg_stretch *>cnp.PyArray_DATA(stretches)
            to = <Py_ssize_t *>cnp.PyArray_DATA(starts)
            held = chunks = 0
            to[0] = 0
            for i in range(count):
                for d in range(slices):
                    q = 0
                    while q < length:
                        stretch.n = min(piece, length - q)
                        stretch.grad = i * outer * s.grad_next + d * g.layout.channel + q
                        stretch.image = i * channels * x.layout.channel + d * numbers[9] + q
                        if held + stretch.n > most:
                            chunks += 1
                            to[chunks] = stretch - <pg_stretch *>cnp.PyArray_DATA(stretches)
                            held = 0
                        held += stretch.n
                        q += stretch.n
                        stretch += 1
            chunks += 1
            to[chunks] = stretch - <pg_stretch *>cnp.PyArray_DATA(stretches)
            s.number = chunks
            parallel_for(
                groups * ((s.depth + s.wide - 1) // s.wide) * ((s.rows + s.high - 1) // s.high),
                1 + PIECE // (s.high * s.wide * count * slices * length), compute_sums, &s
            )
            s.added = 1
            first += count
    return out
