"""Convolution by columns and products of matrices, and columns by themselves.

(a) What each tap of the kernel sees is written to columns, whose product with the kernel BLAS computes. Columns are made
    for so many images at a time that they stay in the cache, and never for more than `MOST` bytes: of a large image,
    for some rows of windows at a time.
(b) Short images are laid side by side, so that one product is long enough for BLAS to be fast; the result is then
    written image by image. Long ones have a product each, written where it belongs.
(c) Where each window is one element the image is its columns.
"""

from __future__ import annotations

import numpy as np

from plugrad.backends.copies import in_c_order
from plugrad_ops.convolution import cpu

__all__ = [
    "col2im",
    "computable",
    "convolution",
    "convolution_input",
    "convolution_weight",
    "im2col",
]

CACHED = 1 << 20  # bytes of columns for several images
MOST = 1 << 24  # of columns at a time
LONG = 512  # windows of an image that make a product of its own worth while
SMALL = 1 << 12  # results of a product that BLAS cannot share out well …
SERIAL = 1 << 20  # … so that it is faster while it does not try: with up to so many multiplications


def computable(*arrays):
    """The arrays in C order, in float32 or float64; None stays."""
    narrow = all(x is None or x.dtype.itemsize <= 4 for x in arrays)
    dtype = np.float32 if narrow else np.float64
    return [None if x is None else in_c_order(x, dtype) for x in arrays]


def _tiles(w, images, per_window, most=None):
    """Ranges of images and of rows of windows, whose columns take `per_window` bytes a window.

    `most` is the number of windows that several images should have together.
    """
    rows, width = w.count // w.out[-1], w.out[-1]
    if per_window * w.count > MOST:
        step = max(MOST // (per_window * width), 1)
        for i in range(images):
            for first in range(0, rows, step):
                yield i, i + 1, first, min(first + step, rows)
        return
    step = CACHED // max(per_window * w.count, 1)
    if most is not None:
        step = min(step, most // w.count)
    step = max(step, 1)
    for i in range(0, images, step):
        yield i, min(i + step, images), 0, rows


class _Columns:
    """A buffer of columns, used for one tile after the other.

    Parameters
    ----------
    w : Windows
    images : ndarray
        (N, C, …).
    groups : int
    apart : bool
        Whether each image has its columns by itself, (images, groups, taps, windows), or all of them lie side by side,
        (groups, taps, images * windows).
    """

    def __init__(self, w, images, groups, apart):
        self.w = w
        self.images = images
        self.groups = groups
        self.apart = apart
        self.channels = images.shape[1]
        self.height = self.channels * w.taps
        self.memory = None

    def tiles(self, most=None):
        return _tiles(self.w, self.images.shape[0], self.height * self.images.itemsize, most)

    def of(self, tile):
        """The part of the buffer for a tile, its steps, and the same seen as matrices."""
        begin, end, first, last = tile
        cells, count = (last - first) * self.w.out[-1], end - begin
        if self.memory is None:
            self.memory = np.empty(self.height * count * cells, self.images.dtype)
        flat = self.memory[: self.height * count * cells]
        inner = self.height // self.groups
        if self.apart:
            return (
                flat,
                (self.height * cells, cells),
                flat.reshape(count, self.groups, inner, cells),
            )
        return flat, (cells, count * cells), flat.reshape(self.groups, inner, count * cells)

    def read(self, tile):
        """The columns of a tile's images, as matrices."""
        flat, steps, matrices = self.of(tile)
        begin, end, first, last = tile
        cpu.columns_of(
            self.images[begin:end], flat, self.w.table, self.channels, *steps, first, last
        )
        return matrices

    def add(self, tile):
        """Add the columns to the tile's images."""
        flat, steps, _ = self.of(tile)
        begin, end, first, last = tile
        cpu.add_columns(
            self.images[begin:end], flat, self.w.table, self.channels, *steps, first, last
        )


def _cells(w, tile):
    """The windows of a tile, as a slice."""
    return slice(tile[2] * w.out[-1], tile[3] * w.out[-1])


def _add_bias(out, bias):
    if bias is not None:
        np.add(out, bias.reshape(-1, *(1,) * (out.ndim - 2)), out=out)


def convolution(w, input, weight, bias, groups):
    """The convolution of images (N, C, …) with a kernel (O, C / groups, …)."""
    x, kernel, added = computable(input, weight, bias)
    n, o = x.shape[0], weight.shape[0]
    kernel = kernel.reshape(groups, o // groups, -1)
    out = np.empty((n, o, *w.out), x.dtype)
    if not out.size:
        return out.astype(input.dtype, copy=False)
    apart = w.count >= LONG or n == 1
    if w.is_image and apart:
        product = out.reshape(n, groups, o // groups, w.count)
        np.matmul(kernel, x.reshape(n, groups, kernel.shape[2], w.count), out=product)
        _add_bias(out, added)
        return out.astype(input.dtype, copy=False)
    flat = out.reshape(n, o, w.count)
    columns = _Columns(w, x, groups, apart)
    for tile in columns.tiles():
        begin, end, cells = tile[0], tile[1], _cells(w, tile)
        target = flat[begin:end, :, cells]
        seen = columns.read(tile)
        if apart:
            whole = flat[begin:end].reshape(end - begin, groups, o // groups, w.count)
            np.matmul(kernel, seen, out=whole[..., cells])
            _add_bias(target, added)
        else:
            product = np.matmul(kernel, seen).reshape(o, end - begin, -1).swapaxes(0, 1)
            if added is None:
                target[...] = product
            else:
                np.add(product, added[:, None], out=target)
    return out.astype(input.dtype, copy=False)


def convolution_input(w, input, weight, bias, groups):
    """Its adjoint by the images: from (N, O, …) to (N, C, …)."""
    g, kernel, added = computable(input, weight, bias)
    n, o, c = g.shape[0], weight.shape[0], weight.shape[1] * groups
    kernel = kernel.reshape(groups, o // groups, -1).swapaxes(1, 2)
    shape = (n, c, *w.size)
    apart = w.count >= LONG or n == 1
    flat = g.reshape(n, o, w.count)
    if w.is_image and apart:
        out = np.empty(shape, g.dtype)
        product = out.reshape(n, groups, c // groups, w.count)
        np.matmul(kernel, flat.reshape(n, groups, o // groups, w.count), out=product)
        _add_bias(out, added)
        return out.astype(input.dtype, copy=False)
    out = np.zeros(shape, g.dtype)
    _add_bias(out, added)
    if not (out.size and g.size):
        return out.astype(input.dtype, copy=False)
    columns = _Columns(w, out, groups, apart)
    for tile in columns.tiles():
        begin, end, cells = tile[0], tile[1], _cells(w, tile)
        _, _, product = columns.of(tile)
        if apart:
            whole = flat[begin:end].reshape(end - begin, groups, o // groups, w.count)
            np.matmul(kernel, whole[..., cells], out=product)
        else:
            beside = _beside(flat[begin:end, :, cells], groups)
            np.matmul(kernel, beside, out=product)
        columns.add(tile)
    return out.astype(input.dtype, copy=False)


def _beside(images, groups):
    """Images (N, O, windows) side by side, (groups, O / groups, N * windows)."""
    n, o, cells = images.shape
    if n == 1:
        return images.reshape(groups, o // groups, cells)
    return images.swapaxes(0, 1).reshape(groups, o // groups, n * cells)


def convolution_weight(w, grad, input, groups):
    """Its adjoint by the kernel."""
    g, x = computable(grad, input)
    n, o, c = g.shape[0], g.shape[1], x.shape[1]
    shape = (o, c // groups, *w.kernel)
    flat = g.reshape(n, o, w.count)
    out = None
    columns = _Columns(w, x, groups, False)
    results = o // groups * columns.height // groups
    if x.size and g.size:
        for tile in columns.tiles(SERIAL // results if results < SMALL else None):
            beside = _beside(flat[tile[0] : tile[1], :, _cells(w, tile)], groups)
            part = np.matmul(columns.read(tile), beside.swapaxes(1, 2))  # faster than its transpose
            out = part if out is None else np.add(out, part, out=out)
    if out is None:
        return np.zeros(shape, grad.dtype)
    return in_c_order(out.swapaxes(1, 2), grad.dtype).reshape(shape)


def im2col(w, input):
    """What the windows over images (N, C, …) see, as (N, C * taps, windows)."""
    (x,) = computable(input)
    n, c = x.shape[:2]
    out = np.empty((n, c * w.taps, w.count), x.dtype)
    if out.size:
        rows = w.count // w.out[-1]
        cpu.columns_of(x, out, w.table, c, c * w.taps * w.count, w.count, 0, rows)
    return out.astype(input.dtype, copy=False)


def col2im(w, input):
    """Its adjoint."""
    (columns,) = computable(input)
    n, c = columns.shape[0], columns.shape[1] // w.taps
    out = np.zeros((n, c, *w.size), columns.dtype)
    if out.size:
        rows = w.count // w.out[-1]
        cpu.add_columns(out, columns, w.table, c, c * w.taps * w.count, w.count, 0, rows)
    return out.astype(input.dtype, copy=False)
