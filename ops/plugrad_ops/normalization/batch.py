"""Normalisation of channels over the batch; channels are dimension 1."""

from __future__ import annotations

import math

import numpy as np

from plugrad import elementwise, operator, ops
from plugrad.backends.dtypes import wide
from plugrad_ops.normalization import batch_cpu as cpu

__all__ = ["channel_shape", "normalize_batch", "normalize_with"]


def channel_shape(input, weight, bias):
    """The shape in which a number per channel broadcasts.

    Raises
    ------
    RuntimeError
        There is no dimension 1, or weight and bias do not have its length.
    """
    if len(input.shape) < 2:
        raise RuntimeError(
            f"normalize_batch: input needs a batch and a dimension of channels, got shape {tuple(input.shape)}"
        )
    channels = input.shape[1]
    for word, given in (("weight", weight), ("bias", bias)):
        if given is not None and tuple(given.shape) != (channels,):
            raise RuntimeError(
                f"normalize_batch: {word} must have shape ({channels},), a number per channel, got {tuple(given.shape)}"
            )
    return 1, channels, *(1 for _ in input.shape[2:])


def _meta(input, weight=None, bias=None, *, eps=1e-5):
    shape = channel_shape(input, weight, bias)
    dtype = np.result_type(*(x.dtype for x in (input, weight, bias) if x is not None))
    statistics = shape[1:2], wide(dtype)
    return [(input.shape, dtype), statistics, statistics]


def normalize_batch(input, weight=None, bias=None, *, eps=1e-5):
    """Each channel less its mean over the batch, divided by the root of its variance and `eps`.

    Parameters
    ----------
    input : (N, C, ...)
    weight, bias : (C), optional
    eps : float
        Added to the variance.

    Returns
    -------
    out : Tensor
        Of the shape of `input`.
    mean, var : (C)
        Of each channel, the variance without correction.

    Raises
    ------
    RuntimeError
        Shapes do not fit together.
    """
    shape = channel_shape(input, weight, bias)
    dtype = wide(input.dtype)
    if not input.size:
        return input.copy(), np.zeros(shape[1], dtype), np.zeros(shape[1], dtype)
    x = input.astype(dtype)
    axes = tuple(d for d in range(x.ndim) if d != 1)
    mean = np.mean(x, axis=axes, keepdims=True)
    x = x - mean
    var = np.mean(x * x, axis=axes, keepdims=True)
    x /= np.sqrt(var + dtype.type(eps))
    if weight is not None:
        x = x * weight.reshape(shape)
    if bias is not None:
        x = x + bias.reshape(shape)
    return x.astype(input.dtype, copy=False), mean.reshape(shape[1]), var.reshape(shape[1])


normalize_batch = operator(
    "standard::normalize_batch",
    outputs=("out", "mean", "var"),
    infer=_meta,
    cpu=cpu.NormalizeBatch(normalize_batch),
    cuda=".cuda:normalize_batch",
)(normalize_batch)


@normalize_batch.backward
def _(grad, input, weight, needs, eps):
    (grad, of_mean, of_var), shape = grad, channel_shape(input, None, None)
    dims = tuple(d for d in range(input.ndim) if d != 1)
    if not input.numel():
        nothing = ops.sum(grad, dim=dims)
        return grad, nothing if needs.weight else None, nothing if needs.bias else None
    dtype = wide(input.dtype)
    x, g = ops.cast(input, dtype=dtype), ops.cast(grad, dtype=dtype)
    centered = x - ops.mean(x, dim=dims, keepdim=True)
    centered = centered - ops.mean(
        centered, dim=dims, keepdim=True
    )  # what rounding left of a large mean
    rstd = ops.rsqrt(ops.mean(centered * centered, dim=dims, keepdim=True) + eps)
    x = centered * rstd
    along, across = ops.sum(g, dim=dims, keepdim=True), ops.sum(g * x, dim=dims, keepdim=True)
    grad_input = None
    if needs.input:
        count, scale = input.numel() // math.prod(shape), rstd
        if weight is not None:
            scale = rstd * ops.reshape(ops.cast(weight, dtype=dtype), shape)
        of_mean, of_var = ops.reshape(of_mean, shape), ops.reshape(of_var, shape)
        slope = scale * (g - along / count - x * (across / count))
        slope = slope + (of_mean + centered * (2.0 * of_var)) / count
        grad_input = ops.cast(slope, dtype=grad.dtype)
    sums = (
        ops.cast(ops.reshape(t, shape[1:2]), dtype=grad.dtype) if wanted else None
        for t, wanted in zip((across, along), needs[1:])
    )
    return grad_input, *sums


@normalize_batch.backward_kernel(cuda=".cuda:normalize_batch_gradients")
def _(grad, input, weight, mean, var, needs, eps):
    dtype = input.dtype
    if not input.size:
        nothing = np.zeros(input.shape[1], dtype)
        dx = np.empty(input.shape, dtype) if needs.input else None
        return dx, nothing if needs.weight else None, nothing.copy() if needs.bias else None
    return cpu.normalize_batch_gradients(grad, input, weight, mean, var, needs, eps)


@normalize_batch.samples
def _(make):
    yield make.call(make.normal(4, 3), make.normal(3), make.normal(3))
    yield make.call(make.normal(2, 3, 2, 2), make.normal(3), make.normal(3), eps=0.1)
    yield make.call(make.normal(5, 2), None, make.normal(2))
    yield make.call(make.normal(2, 2, 9), make.normal(2))
    yield make.call(make.normal(0, 3), make.normal(3), make.normal(3))
    yield make.error(RuntimeError, "a number per channel", make.normal(2, 3), make.normal(2))
    yield make.error(RuntimeError, "dimension of channels", make.normal(3))


def _with(input, mean, var, weight, bias, eps):
    """`normalize_with` of arrays."""
    one = input.dtype.type(1)
    return (input - mean) * (one / np.sqrt(var + input.dtype.type(eps)) * weight) + bias


def _with_slopes(grad, input, mean, var, weight, eps, needs):
    """The gradients of `normalize_with`, which whoever asked sums to the operands' shapes."""
    if not (needs.mean or needs.var):
        found = cpu.normalize_with_gradients(grad, input, mean, var, weight, eps, needs)
        if found is not None:
            return found
    dtype = input.dtype.type
    apart, rstd = input - mean, dtype(1) / np.sqrt(var + dtype(eps))
    slope = grad * (rstd * weight)
    return (
        slope if needs.input else None,
        -slope if needs.mean else None,
        slope * apart * (rstd * rstd * dtype(-0.5)) if needs.var else None,
        grad * (apart * rstd) if needs.weight else None,
        grad if needs.bias else None,
    )


normalize_with = elementwise(
    "standard::normalize_with",
    "(input - mean) * (rsqrt(var + eps) * weight) + bias",
    constants={"eps": 1e-5},
    cpu=cpu.NormalizeWith(_with),
    cpu_backward=_with_slopes,
    doc="`input` less `mean`, divided by the root of `var` and `eps`, times `weight`, plus `bias`; all broadcast.",
    samples=lambda make: (
        make.call(
            make.normal(3, 4), make.normal(4), make.positive(4), make.normal(4), make.normal(4)
        ),
        make.call(make.normal(2, 3), make.normal(3), make.positive(3), 1.0, 0.0, eps=0.1),
        make.call(make.normal(2, 3, 2), *(make.positive(3, 1) for _ in range(4))),
    ),
)
