"""CUDA launchers of convolution: columns and products of matrices.

(a) As on the CPU: what each tap of the kernel sees is written to columns, whose product with the kernel is that of
    `linalg`. Columns are made for so many images at a time that they take no more than `MOST` bytes.
(b) The adjoint by the images adds columns up in float32 where the images are of a 16-bit dtype, so that there is one rounding.
"""

from __future__ import annotations

import math
from pathlib import Path

from plugrad.backends.cuda import layout
from plugrad.backends.cuda.array import as_strided, contiguous, copied, copy_into, empty
from plugrad.backends.cuda.dtypes import c_type
from plugrad.backends.dtypes import wide
from plugrad_ops.convolution import windows as moved
from plugrad_ops.convolution.ops import (
    _require_bias,
    described,
    described_input,
    described_weight,
)
from plugrad_ops.cuda_source import MOST_BLOCKS, Source, cover, zeros
from plugrad_ops.expressions import kernel
from plugrad_ops.linalg.cuda import matmul

SOURCE = Source(Path(__file__).with_name("convolution.cu"), "convolution")
THREADS = 256
MOST = 1 << 28  # bytes of columns at a time


def seen(array, *shape, first=0):
    """A dense array with another shape, from its element `first` on."""
    size = array.dtype.itemsize
    return as_strided(array, shape, layout.dense_strides(shape, size), first * size)


def counted_in(*counts):
    """The C type that holds the numbers of so many elements."""
    return "int" if max(counts) < 2**31 - THREADS * MOST_BLOCKS else "i64"


def _transposed(matrices):
    """A stack of matrices, its last two dimensions swapped."""
    (n, i, j), (stack, row, column) = matrices.shape, matrices.strides
    return as_strided(matrices, (n, j, i), (stack, column, row))


def _cast(array, dtype):
    return array if array.dtype == dtype else kernel("x", "x", out_dtype=dtype)(array)


# ---- columns -----------------------------------------------------------------------------------------------------


def _read(w, images, apart=True):
    """The columns of images (N, C, …): (N, C * taps, windows), or (C * taps, N * windows)."""
    n, c = images.shape[:2]
    rows = c * w.taps
    shape = (n, rows, w.count) if apart else (rows, n * w.count)
    if w.is_image and (apart or n == 1):
        return seen(images, *shape)
    out = empty(shape, images.dtype)
    steps = (rows * w.count, w.count) if apart else (w.count, n * w.count)
    name = c_type(images.dtype, "convolution")
    launch = SOURCE.kernel("read_columns", T=name, S=name, I=counted_in(out.size, images.size))
    if out.size:
        launch(cover(out.size, THREADS), THREADS, out, images, w.packed, c, *steps, out.size)
    return out


def _added(w, columns, out):
    """Write to images (N, C, …) what columns (N, C * taps, windows) add up to."""
    c, rows = out.shape[1], columns.shape[1]
    names = {"T": c_type(out.dtype, "convolution"), "S": c_type(columns.dtype, "convolution")}
    launch = SOURCE.kernel("add_columns", I=counted_in(out.size, columns.size), **names)
    if out.size:
        steps = (rows * w.count, w.count)
        launch(cover(out.size, THREADS), THREADS, out, columns, w.packed, c, *steps, out.size)


def _parts(w, images, channels, itemsize):
    """Ranges of images whose columns have room."""
    step = max(MOST // max(channels * w.taps * w.count * itemsize, 1), 1)
    return [(i, min(i + step, images)) for i in range(0, images, step)]


def _range(array, begin, end):
    """Some of the images of a dense array."""
    each = math.prod(array.shape[1:])
    return seen(array, end - begin, *array.shape[1:], first=begin * each)


# ---- convolution -------------------------------------------------------------------------------------------------


def _with_bias(out, bias):
    if bias is None:
        return out
    spread = as_strided(bias, (bias.shape[0], *(1,) * (out.ndim - 2)), (*bias.strides, *(0,) * (out.ndim - 2)))  # fmt: skip
    return kernel("x + b", "x", "b")(out, spread)


def convolution(input, weight, bias=None, *, stride, padding, dilation, groups=1):
    """The kernel of ``standard::convolution``."""
    w = described(input, weight, bias, stride, padding, dilation, groups)
    images = contiguous(input)
    (n, c), o = input.shape[:2], weight.shape[0]
    rows = c // groups * w.taps
    matrices = seen(contiguous(weight), groups, o // groups, rows)
    parts = _parts(w, n, c, images.dtype.itemsize)
    out = None if len(parts) == 1 else empty((n, o, w.count), images.dtype)
    for begin, end in parts:
        columns = _read(w, _range(images, begin, end))
        product = matmul(matrices, seen(columns, end - begin, groups, rows, w.count))
        if out is None:
            out = product
        else:
            copy_into(_range(out, begin, end), seen(product, end - begin, o, w.count))
    return _with_bias(seen(out, n, o, *w.out), bias)


def convolution_input(input, weight, bias=None, *, size, stride, padding, dilation, groups=1):
    """The kernel of ``standard::convolution_input``."""
    w = described_input(input, weight, size, stride, padding, dilation, groups)
    _require_bias(weight, bias, groups)
    dtype = input.dtype if w.is_image else wide(input.dtype)
    (n, o), c = input.shape[:2], weight.shape[1] * groups
    rows = c // groups * w.taps
    grad = contiguous(_cast(input, dtype))
    matrices = _transposed(seen(contiguous(_cast(weight, dtype)), groups, o // groups, rows))
    out = empty((n, c, *w.size), input.dtype)
    for begin, end in _parts(w, n, c, dtype.itemsize):
        stack = seen(_range(grad, begin, end), end - begin, groups, o // groups, w.count)
        columns = matmul(matrices, stack)
        part = _range(out, begin, end)
        if w.is_image:
            copy_into(part, seen(columns, *part.shape))
        else:
            _added(w, seen(columns, end - begin, c * w.taps, w.count), part)
    return _with_bias(out, bias)


def convolution_weight(grad_out, input, *, kernel_size, stride, padding, dilation, groups=1):
    """The kernel of ``standard::convolution_weight``."""
    w = described_weight(grad_out, input, kernel_size, stride, padding, dilation, groups)
    (n, o), c = grad_out.shape[:2], input.shape[1]
    shape = (o, c // groups, *w.kernel)
    parts = _parts(w, n, c, input.dtype.itemsize)
    dtype = input.dtype if len(parts) == 1 else wide(input.dtype)  # parts are added up
    images, grad = contiguous(_cast(input, dtype)), contiguous(_cast(grad_out, dtype))
    out = None
    for begin, end in parts:
        count = (end - begin) * w.count
        rows = c // groups * w.taps
        columns = seen(_read(w, _range(images, begin, end), apart=False), groups, rows, count)
        beside = _beside(_range(grad, begin, end), w, groups)
        part = matmul(beside, _transposed(columns))
        out = part if out is None else kernel("a + b", "a", "b")(out, part)
    if out is None or not input.size:
        return zeros(shape, input.dtype)
    return seen(_cast(out, input.dtype), *shape)


def _beside(images, w, groups):
    """Images (N, O, …) side by side, (groups, O / groups, N * windows)."""
    n, o = images.shape[:2]
    flat = seen(images, n, o, w.count)
    turned = as_strided(flat, (o, n, w.count), (flat.strides[1], flat.strides[0], flat.strides[2]))
    return seen(contiguous(turned), groups, o // groups, n * w.count)


# ---- unfolding ---------------------------------------------------------------------------------------------------


def im2col(input, *, kernel_size, stride, padding, dilation):
    """The kernel of ``standard::im2col``."""
    w = moved.described_im2col(input, kernel_size, stride, padding, dilation)
    images = contiguous(input)
    return copied(_read(w, images)) if w.is_image else _read(w, images)


def col2im(input, *, output_size, kernel_size, stride, padding, dilation):
    """The kernel of ``standard::col2im``."""
    w = moved.described_col2im(input, output_size, kernel_size, stride, padding, dilation)
    out = empty((input.shape[0], input.shape[1] // w.taps, *w.size), input.dtype)
    _added(w, contiguous(input), out)
    return out
