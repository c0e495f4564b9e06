"""Layer, RMS, group and instance normalisation, and that over neighbouring channels.

All but the last are normalisations of rows: see `rows`.
"""

from __future__ import annotations

import math

import numpy as np

from plugrad import composite, ops
from plugrad.backends.dtypes import finfo, kind, wide
from plugrad_ops.shape.dims import as_size

__all__ = ["group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm"]


def _row_length(name, input, normalized_shape, **weights):
    """How many elements are normalised together."""
    shape = as_size(name, normalized_shape, "normalized_shape")
    if not shape:
        raise RuntimeError(f"{name}: normalized_shape must have at least 1 dimension, got ()")
    if input.shape[-len(shape) :] != shape:
        raise RuntimeError(
            f"{name}: normalized_shape={shape} must be the last dimensions of input, got shape {input.shape}"
        )
    for word, given in weights.items():
        if given is not None and given.shape != shape:
            raise RuntimeError(
                f"{name}: {word} must have the shape normalized_shape={shape}, got {given.shape}"
            )
    return math.prod(shape)


@composite("standard::layer_norm")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """`input` less its mean and divided by its deviation over the last dimensions, times `weight`, plus `bias`.

    Parameters
    ----------
    input : (*, *normalized_shape)
    normalized_shape : int or tuple of int
    weight, bias : (*normalized_shape), optional
    eps : float
        Added to the variance, which has no correction.

    Raises
    ------
    RuntimeError
        Shapes do not fit together.
    """
    length = _row_length("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    return ops.normalize_rows(input, weight, bias, length=length, eps=eps)


@layer_norm.samples
def _(make):
    yield make.call(make.normal(3, 4), (4,), make.normal(4), make.normal(4))
    yield make.call(make.normal(2, 2, 3), (2, 3), make.normal(2, 3))
    yield make.call(make.normal(2, 3), 3)
    yield make.call(make.normal(0, 3), (3,), make.normal(3), make.normal(3))
    yield make.error(RuntimeError, "last dimensions", make.normal(2, 3), (2,))
    yield make.error(RuntimeError, "weight must have", make.normal(2, 3), (3,), make.normal(2))
    yield make.error(RuntimeError, "at least 1 dimension", make.normal(2, 3), ())


@composite("standard::rms_norm")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """`input` divided by the root of its mean square over the last dimensions, times `weight`.

    Parameters
    ----------
    input : (*, *normalized_shape)
    normalized_shape : int or tuple of int
    weight : (*normalized_shape), optional
    eps : float, optional
        Added to the mean square; by default the spacing of numbers at 1 in the dtype that is computed in.

    Raises
    ------
    RuntimeError
        Shapes do not fit together.
    """
    length = _row_length("rms_norm", input, normalized_shape, weight=weight)
    if eps is None:
        dtype = input.dtype if kind(input.dtype) == "f" else np.dtype(np.float32)
        eps = float(finfo(wide(dtype)).eps)
    return ops.normalize_rows(input, weight, None, length=length, eps=eps, centered=False)


@rms_norm.samples
def _(make):
    yield make.call(make.normal(3, 4), (4,), make.normal(4))
    yield make.call(make.normal(2, 2, 3), (2, 3), make.normal(2, 3), 0.1)
    yield make.call(make.normal(2, 3), 3, eps=1e-3)
    yield make.call(make.normal(0, 3), (3,), make.normal(3))
    yield make.error(RuntimeError, "last dimensions", make.normal(2, 3), (2,))


def _channels(name, input, least, **weights):
    """The number of channels, which are dimension 1."""
    if input.ndim < least:
        raise RuntimeError(
            f"{name}: input needs {least} dimensions at least, got shape {input.shape}"
        )
    channels = input.shape[1]
    for word, given in weights.items():
        if given is not None and given.shape != (channels,):
            raise RuntimeError(
                f"{name}: {word} must have shape ({channels},), a number per channel of input of shape {input.shape}, "
                f"got {given.shape}"
            )
    return channels


@composite("standard::group_norm")
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Each group of channels less its mean and divided by its deviation (Wu and He, arXiv:1803.08494).

    Parameters
    ----------
    input : (N, C, ...)
    num_groups : int
        Into how many groups of equally many channels C is divided.
    weight, bias : (C), optional
        Of each channel.
    eps : float
        Added to the variance.

    Raises
    ------
    RuntimeError
        C is not a multiple of `num_groups`, or shapes do not fit together.
    """
    channels = _channels("group_norm", input, 2, weight=weight, bias=bias)
    if num_groups < 1 or channels % num_groups:
        raise RuntimeError(
            f"group_norm: num_groups must divide the {channels} channels of input of shape {input.shape}, "
            f"got {num_groups}"
        )
    length = channels // num_groups * math.prod(input.shape[2:])
    return ops.normalize_rows(input, weight, bias, length=length, groups=num_groups, eps=eps)


@group_norm.samples
def _(make):
    yield make.call(make.normal(2, 4, 3), 2, make.normal(4), make.normal(4))
    yield make.call(make.normal(2, 6), 2, make.normal(6))
    yield make.call(make.normal(2, 2, 2, 2), 1)
    yield make.call(make.normal(0, 4, 2), 2, make.normal(4), make.normal(4))
    yield make.error(RuntimeError, "must divide", make.normal(2, 3), 2)
    yield make.error(RuntimeError, "a number per channel", make.normal(2, 4), 2, make.normal(2))


@composite("standard::instance_norm")
def instance_norm(input, weight=None, bias=None, eps=1e-5):
    """Each channel of each sample less its mean and divided by its deviation.

    Parameters
    ----------
    input : (N, C, ...)
    weight, bias : (C), optional
    eps : float
        Added to the variance.

    Raises
    ------
    RuntimeError
        Shapes do not fit together.
    """
    channels = _channels("instance_norm", input, 3, weight=weight, bias=bias)
    length = math.prod(input.shape[2:])
    return ops.normalize_rows(input, weight, bias, length=length, groups=channels, eps=eps)


@instance_norm.samples
def _(make):
    yield make.call(make.normal(2, 3, 4), make.normal(3), make.normal(3))
    yield make.call(make.normal(2, 2, 2, 3), make.normal(2))
    yield make.call(make.normal(1, 2, 5))
    yield make.call(make.normal(0, 2, 3), make.normal(2), make.normal(2))
    yield make.error(RuntimeError, "3 dimensions", make.normal(2, 3))


@composite("standard::local_response_norm")
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """`input` divided by ``(k + alpha * m) ** beta``, m the mean square of `size` neighbouring channels.

    Channels beyond the first and the last are 0, and count.

    Parameters
    ----------
    input : (N, C, ...)
    size : int
        Channels i - size // 2 and following.

    Raises
    ------
    ValueError
        `input` has fewer than 3 dimensions, or `size` is not positive.
    """
    if input.ndim < 3:
        raise ValueError(
            f"local_response_norm: input needs 3 dimensions at least, got shape {input.shape}"
        )
    if size < 1:
        raise ValueError(f"local_response_norm: size must be positive, got {size}")
    if not input.numel():
        return input
    channels = input.shape[1]
    square, total = input * input, None
    for shift in range(-(size // 2), (size - 1) // 2 + 1):
        if abs(shift) >= channels:
            continue
        # Channel i takes square i + shift; those that lie outside count as 0.
        part = ops.narrow(square, 1, max(shift, 0), channels - abs(shift))
        if shift:
            shape = (input.shape[0], abs(shift), *input.shape[2:])
            outside = ops.expand(ops.zeros_like(ops.narrow(square, 1, 0, 1)), size=shape)
            part = ops.cat((outside, part) if shift < 0 else (part, outside), dim=1)
        total = part if total is None else total + part
    return input / (k + (alpha / size) * total) ** beta


@local_response_norm.samples
def _(make):
    yield make.call(make.normal(2, 4, 3), 3, alpha=0.5)
    yield make.call(make.normal(2, 3, 2, 2), 2, alpha=0.5, beta=0.5, k=2.0)
    yield make.call(make.normal(1, 2, 2), 7)
    yield make.call(make.normal(0, 2, 2), 2)
    yield make.error(ValueError, "3 dimensions", make.normal(2, 3), 2)
    yield make.error(ValueError, "size", make.normal(2, 3, 2), 0)
