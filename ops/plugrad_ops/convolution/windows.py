"""What windows over images see, as columns, and the adjoint; sliding windows as a view."""

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.convolution import columns, reference
from plugrad_ops.convolution.geometry import as_tuple, windows
from plugrad_ops.shape.dims import normalize_dim
from plugrad_ops.shape.strided import c_strides

# ---- columns -----------------------------------------------------------------------------------------------------


def described_im2col(input, kernel_size, stride, padding, dilation):
    """The windows over images."""
    return windows("im2col", tuple(input.shape[2:]), kernel_size, stride, padding, dilation)


def _im2col_meta(input, *, kernel_size, stride, padding, dilation):
    w = described_im2col(input, kernel_size, stride, padding, dilation)
    return (input.shape[0], input.shape[1] * w.taps, w.count), input.dtype


def _im2col_on_host(input, *, kernel_size, stride, padding, dilation):
    return columns.im2col(described_im2col(input, kernel_size, stride, padding, dilation), input)


@operator("standard::im2col", infer=_im2col_meta, cpu=_im2col_on_host, cuda=".cuda:im2col")
def im2col(input, *, kernel_size, stride, padding, dilation):
    """What the windows over images (N, C, …) see, as (N, C * taps, windows).

    Parameters
    ----------
    kernel_size, stride, padding, dilation : tuple of int
        One per spatial dimension.

    Raises
    ------
    RuntimeError
        A number is out of range, or the kernel is larger than the padded image.
    """
    w = described_im2col(input, kernel_size, stride, padding, dilation)
    return reference.im2col(w, input)


@im2col.backward
def _(grad, like, kernel_size, stride, padding, dilation):
    size = tuple(like.input.shape[2:])
    return ops.col2im(
        grad, output_size=size, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation
    )  # fmt: skip


def _numbers(n, kernel=2, stride=1, padding=0, dilation=1):
    return {
        "kernel_size": (kernel,) * n,
        "stride": (stride,) * n,
        "padding": (padding,) * n,
        "dilation": (dilation,) * n,
    }


@im2col.samples
def _(make):
    yield make.call(make.normal(1, 2, 3, 4), **_numbers(2))
    yield make.call(make.normal(2, 1, 4, 3), **_numbers(2, 2, 2, 1, 2))
    yield make.call(make.normal(1, 1, 3, 2, 2), **_numbers(3))
    yield make.call(make.normal(1, 2, 3), **_numbers(1, 1))
    yield make.error(RuntimeError, "larger than", make.normal(1, 1, 2, 2), **_numbers(2, 3))
    yield make.error(RuntimeError, "padding must be", make.normal(1, 1, 2, 2), **_numbers(2, padding=-1))  # fmt: skip


def described_col2im(input, output_size, kernel_size, stride, padding, dilation):
    """The windows whose columns `input` holds."""
    w = windows("col2im", output_size, kernel_size, stride, padding, dilation)
    if len(input.shape) != 3 or input.shape[1] % w.taps or input.shape[2] != w.count:
        raise RuntimeError(
            f"col2im: windows {kernel_size} over an image {output_size} need columns (N, a multiple of {w.taps}, {w.count}), "
            f"got shape {tuple(input.shape)}"
        )
    return w


def _col2im_meta(input, *, output_size, kernel_size, stride, padding, dilation):
    w = described_col2im(input, output_size, kernel_size, stride, padding, dilation)
    return (input.shape[0], input.shape[1] // w.taps, *output_size), input.dtype


def _col2im_on_host(input, *, output_size, kernel_size, stride, padding, dilation):
    w = described_col2im(input, output_size, kernel_size, stride, padding, dilation)
    return columns.col2im(w, input)


@operator("standard::col2im", infer=_col2im_meta, cpu=_col2im_on_host, cuda=".cuda:col2im")
def col2im(input, *, output_size, kernel_size, stride, padding, dilation):
    """The adjoint of `im2col`: images (N, C, *output_size) to which each column is added where it was read.

    Raises
    ------
    RuntimeError
        `input` does not have the shape that `im2col` gives.
    """
    w = described_col2im(input, output_size, kernel_size, stride, padding, dilation)
    return reference.col2im(w, input)


@col2im.backward
def _(grad, kernel_size, stride, padding, dilation):
    return ops.im2col(
        grad, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation
    )


@col2im.samples
def _(make):
    yield make.call(make.normal(1, 8, 6), output_size=(3, 4), **_numbers(2))
    yield make.call(make.normal(2, 4, 4), output_size=(4, 3), **_numbers(2, 2, 2, 1, 2))
    yield make.call(make.normal(1, 8, 2), output_size=(3, 2, 2), **_numbers(3))
    yield make.error(RuntimeError, "need columns", make.normal(1, 8, 5), output_size=(3, 4), **_numbers(2))  # fmt: skip


# ---- PyTorch's unfold and fold, for (N, C, H, W) -----------------------------------------------------------------


def _two(name, kernel_size, dilation, padding, stride):
    given = {
        "kernel_size": kernel_size,
        "dilation": dilation,
        "padding": padding,
        "stride": stride,
    }
    return {word: as_tuple(name, word, value, 2) for word, value in given.items()}


@composite("standard::unfold_images")
def unfold_images(input, kernel_size, dilation=1, padding=0, stride=1):
    """`torch.nn.functional.unfold`: what windows over (N, C, H, W) or (C, H, W) see, as (N, C * taps, windows)."""
    numbers = _two("unfold", kernel_size, dilation, padding, stride)
    if input.ndim not in (3, 4):
        raise RuntimeError(
            f"unfold: expected an input (N, C, H, W) or (C, H, W), got shape {input.shape}"
        )
    images = input if input.ndim == 4 else ops.unsqueeze(input, dim=0)
    out = ops.im2col(images, **numbers)
    return out if input.ndim == 4 else ops.squeeze(out, dim=0)


@unfold_images.samples
def _(make):
    yield make.call(make.normal(1, 1, 3, 3), 2)
    yield make.call(make.normal(2, 3, 4), (1, 2), padding=1, stride=(2, 1))
    yield make.call(make.normal(0, 1, 3, 3), 2)
    yield make.error(RuntimeError, "expected an input", make.normal(3, 3), 2)


@composite("standard::fold_images")
def fold_images(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """`torch.nn.functional.fold`: the adjoint of `unfold`, from (N, C * taps, windows) or (C * taps, windows)."""
    size = as_tuple("fold", "output_size", output_size, 2)
    numbers = _two("fold", kernel_size, dilation, padding, stride)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"fold: expected an input (N, C * taps, windows) or (C * taps, windows), got shape {input.shape}"
        )
    columns = input if input.ndim == 3 else ops.unsqueeze(input, dim=0)
    out = ops.col2im(columns, output_size=size, **numbers)
    return out if input.ndim == 3 else ops.squeeze(out, dim=0)


@fold_images.samples
def _(make):
    yield make.call(make.normal(1, 4, 4), 3, 2)
    yield make.call(make.normal(4, 4), (3, 3), 2)
    yield make.call(make.normal(0, 4, 4), 3, 2)
    yield make.error(RuntimeError, "expected an input", make.normal(4), 3, 2)


# ---- sliding windows ---------------------------------------------------------------------------------------------


def _sliding(shape, dimension, size, step):
    """The dimension as an index, and the number of windows; a 0-d tensor has one dimension of length 1."""
    dim = normalize_dim("unfold", dimension, len(shape))
    length = shape[dim] if shape else 1
    if size < 0 or size > length or step < 1:
        raise RuntimeError(
            f"unfold: size must lie between 0 and {length}, the length of dimension {dim} of shape {tuple(shape)}, and "
            f"step be positive, got size={size} and step={step}"
        )
    return dim, (length - size) // step + 1


def _unfold_meta(input, *, dimension, size, step):
    shape = tuple(input.shape)
    dim, count = _sliding(shape, dimension, size, step)
    return (*shape[:dim], *(count,) * bool(shape), *shape[dim + 1 :], size), input.dtype


@operator("standard::unfold", dtypes="any", infer=_unfold_meta, view_of="input", method=True)
def unfold(input, *, dimension, size, step):
    """All windows of `size` elements along `dimension`, `step` apart, as a view with the windows in a last dimension.

    Raises
    ------
    RuntimeError
        A window would be longer than the dimension, or `step` is not positive.
    """
    dim, count = _sliding(input.shape, dimension, size, step)
    if not input.ndim:
        return input.reshape(1)[:size]
    shape = (*input.shape[:dim], count, *input.shape[dim + 1 :], size)
    along = input.strides[dim]
    strides = (*input.strides[:dim], along * step, *input.strides[dim + 1 :], along)
    return np.lib.stride_tricks.as_strided(input, shape, strides)


@unfold.backward
def _(grad, like, dimension, size, step):
    return ops.unfold_adjoint(
        grad, shape=tuple(like.input.shape), dimension=dimension, size=size, step=step
    )


@unfold.samples
def _(make):
    yield make.call(make.normal(2, 4), dimension=1, size=2, step=1)
    yield make.call(make.normal(5, 2), dimension=0, size=2, step=3)
    yield make.call(make.normal(), dimension=0, size=1, step=1)
    yield make.call(make.normal(2, 3), dimension=-1, size=0, step=2)
    yield make.error(RuntimeError, "size must lie", make.normal(3), dimension=0, size=4, step=1)
    yield make.error(IndexError, "out of range", make.normal(3), dimension=1, size=1, step=1)


@composite("standard::unfold_adjoint")
def unfold_adjoint(input, shape, dimension, size, step):
    """Zeros of `shape` with `input` added where `unfold` would have read it."""
    dim, count = _sliding(shape, dimension, size, step)
    if not shape:
        return ops.reshape(input, ()) if size else ops.sum(input)
    strides = c_strides(shape)
    steps = (*strides[:dim], strides[dim] * step, *strides[dim + 1 :], strides[dim])
    seen = (*shape[:dim], count, *shape[dim + 1 :], size)
    return ops.as_strided_adjoint(input, shape=shape, size=seen, stride=steps)


@unfold_adjoint.samples
def _(make):
    yield make.call(make.normal(2, 3, 2), (2, 4), 1, 2, 1)
    yield make.call(make.normal(2, 2, 2), (5, 2), 0, 2, 3)
    yield make.call(make.normal(1), (), 0, 1, 1)
