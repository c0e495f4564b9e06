"""Normalisation of rows, which layer, group, instance and RMS normalisation are.

A tensor in C order is taken as rows of `length` elements, the rows in turn as of `groups` groups. A weight has a number
for each channel of each group; the channels of a row are runs of neighbours of one length.
"""

from __future__ import annotations

import numpy as np

from plugrad import operator, ops
from plugrad.backends.dtypes import wide
from plugrad_ops.normalization import rows_cpu as cpu

__all__ = ["normalize_rows"]


def _meta(input, weight=None, bias=None, *, length, groups=1, eps=1e-5, centered=True):
    size = int(np.prod(input.shape))
    if size and (length < 1 or size % length or size // length % groups):
        raise RuntimeError(
            f"normalize_rows: a tensor of shape {input.shape} does not consist of rows of {length} elements in "
            f"{groups} groups"
        )
    shapes = {tuple(x.shape) for x in (weight, bias) if x is not None}
    if len(shapes) > 1:
        raise RuntimeError(
            f"normalize_rows: weight and bias must have one shape, got {weight.shape} and {bias.shape}"
        )
    for shape in shapes:
        channels = int(np.prod(shape))
        if size and (not channels or channels % groups or length % (channels // groups)):
            raise RuntimeError(
                f"normalize_rows: weight and bias must have a number for each channel of {groups} groups, got shape "
                f"{shape} for rows of {length} elements"
            )
    present = (x.dtype for x in (input, weight, bias) if x is not None)
    return input.shape, np.result_type(*present)


def _blocks(input, channels, length, groups):
    """The shape of rows, groups, channels and neighbours."""
    rows = int(np.prod(input.shape)) // length
    return rows // groups, groups, channels // groups, length // (channels // groups)


def normalize_rows(input, weight=None, bias=None, *, length, groups=1, eps=1e-5, centered=True):
    """Rows less their mean (if `centered`), divided by the root of the mean square of that and `eps`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    weight, bias : Tensor, optional
        Factor and summand of each channel of each group, of one shape.
    length : int
        Elements of a row.
    groups : int, default 1
        Row r is of group ``r % groups``.
    eps : float
        Added to the mean square.
    centered : bool, default True
        Whether the mean is taken away.

    Raises
    ------
    RuntimeError
        The sizes do not fit together.
    """
    _meta(input, weight, bias, length=length, groups=groups, eps=eps, centered=centered)
    if not input.size:
        return np.empty(input.shape, input.dtype)
    either = bias if weight is None else weight
    channels = groups if either is None else either.size
    shape = _blocks(input, channels, length, groups)
    x = input.astype(wide(input.dtype)).reshape(shape)
    for _ in range(2 if centered else 0):
        x = x - np.mean(x, axis=(2, 3), keepdims=True)
    out = x / np.sqrt(np.mean(x * x, axis=(2, 3), keepdims=True) + x.dtype.type(eps))
    if weight is not None:
        out = out * weight.reshape(*shape[1:3], 1)
    if bias is not None:
        out = out + bias.reshape(*shape[1:3], 1)
    return out.reshape(input.shape).astype(input.dtype, copy=False)


normalize_rows = operator(
    "standard::normalize_rows",
    infer=_meta,
    cpu=cpu.NormalizeRows(normalize_rows),
    cuda=".cuda:normalize_rows",
)(normalize_rows)


def _weight_shape(like):
    """The shape of weight and bias; None where there is neither."""
    either = like.bias if like.weight is None else like.weight
    return None if either is None else tuple(either.shape)


@normalize_rows.backward
def _(grad, input, weight, like, needs, length, groups, eps, centered):
    shape = _weight_shape(like)
    if not input.numel():
        return grad, *(_zeros(grad, shape) if wanted else None for wanted in needs[1:])
    channels = groups if shape is None else int(np.prod(shape))
    blocks = _blocks(input, channels, length, groups)
    dtype = wide(input.dtype)
    x, g = (ops.reshape(ops.cast(t, dtype=dtype), blocks) for t in (input, grad))
    for _ in range(2 if centered else 0):  # the second time, what rounding left of a large mean
        x = x - ops.mean(x, dim=(2, 3), keepdim=True)
    rstd = ops.rsqrt(ops.mean(x * x, dim=(2, 3), keepdim=True) + eps)
    x = x * rstd
    grad_input = grad_weight = grad_bias = None
    if needs.weight:
        grad_weight = ops.cast(ops.reshape(ops.sum(g * x, dim=(0, 3)), shape), dtype=grad.dtype)
    if needs.bias:
        grad_bias = ops.cast(ops.reshape(ops.sum(g, dim=(0, 3)), shape), dtype=grad.dtype)
    if needs.input:
        if weight is not None:
            g = g * ops.reshape(ops.cast(weight, dtype=dtype), (*blocks[1:3], 1))
        slope = g - x * ops.mean(g * x, dim=(2, 3), keepdim=True)
        if centered:
            slope = slope - ops.mean(g, dim=(2, 3), keepdim=True)
        grad_input = ops.cast(ops.reshape(slope * rstd, input.shape), dtype=grad.dtype)
    return grad_input, grad_weight, grad_bias


def _zeros(grad, shape):
    """Zeros of another shape, in terms of a gradient without elements."""
    return ops.expand(ops.sum(grad), shape)


@normalize_rows.backward_kernel(cuda=".cuda:normalize_rows_gradients")
def _(grad, input, weight, like, needs, length, groups, eps, centered):
    shape = _weight_shape(like)
    if not input.size:
        dx = np.empty(input.shape, input.dtype) if needs.input else None
        return dx, *(np.zeros(shape, input.dtype) if wanted else None for wanted in needs[1:])
    return cpu.normalize_rows_gradients(
        grad, input, weight, shape, needs, length, groups, eps, centered
    )


@normalize_rows.samples
def _(make):
    yield make.call(make.normal(3, 4), make.normal(4), make.normal(4), length=4)
    yield make.call(make.normal(2, 4, 3), make.normal(4), make.normal(4), length=6, groups=2)
    yield make.call(make.normal(2, 3, 2), None, make.normal(3, 2), length=6, eps=0.1)
    yield make.call(make.normal(2, 12), length=12, centered=False)
    yield make.call(make.normal(2, 3), make.normal(3), length=3, centered=False)
    yield make.call(make.normal(4, 3), make.normal(2, 3), None, length=3, groups=2)
    yield make.call(make.normal(17, 9), make.normal(9), make.normal(9), length=9)
    yield make.call(make.normal(0, 3), make.normal(3), make.normal(3), length=3)
    yield make.error(RuntimeError, "rows of 4", make.normal(2, 3), length=4)
    yield make.error(
        RuntimeError, "one shape", make.normal(2, 4), make.normal(4), make.normal(2), length=4
    )
    yield make.error(RuntimeError, "for each channel", make.normal(2, 4), make.normal(3), length=4)
