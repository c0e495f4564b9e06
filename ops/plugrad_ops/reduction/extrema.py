"""Greatest and smallest elements, where they are, and truth of all or any.

Elements that tie for an extreme, or for NaN, share its gradient equally (`amax`, `amin`, and `max`, `min` of a whole tensor): the
subgradient of least norm. With a `dim`, `max` and `min` also say at which index the extreme was found, and that
element alone gets the gradient.
"""

from typing import Any, NamedTuple

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.dtypes import kind
from plugrad_ops.reduction import cpu, folds
from plugrad_ops.reduction.ops import kept, spread_array
from plugrad_ops.shape.dims import normalize_dim, normalize_dims, reduced_shape

# ---- amax, amin ----------------------------------------------------------------------------------------------


def _reduced_meta(input, *, dim=None, keepdim=False):
    return reduced_shape(input.shape, normalize_dims("dim", dim, input.ndim), keepdim), input.dtype


def _extreme(name, ufunc, input, dim, keepdim):
    axes = normalize_dims(name, dim, input.ndim)
    try:
        return ufunc.reduce(input, axis=axes, keepdims=keepdim)
    except ValueError:
        raise RuntimeError(
            f"{name}: a tensor of shape {input.shape} has no elements in dim={dim} to choose from"
        ) from None


def _shared(grad, input, out, dim, keepdim):
    """The gradient, shared by the elements that tie for the extreme `out`."""
    out = kept(out, input.shape, dim, keepdim)
    hit = input == out
    if kind(input.dtype) == "f":  # where there is NaN the extreme is NaN, and equal to nothing
        hit = hit | (ops.isnan(input) & ops.isnan(out))
    hit = ops.cast(hit, dtype=input.dtype)
    share = hit / ops.sum(hit, dim=dim, keepdim=True)
    return kept(grad, input.shape, dim, keepdim) * share


def shared_arrays(grad, input, out, dim, keepdim):
    """`_shared` of arrays."""
    top = spread_array(out, input.shape, dim, keepdim)
    hit = input == top
    if np.isnan(out).any():
        hit |= np.isnan(input) & np.isnan(top)
    count = np.add.reduce(hit, axis=normalize_dims("dim", dim, input.ndim), keepdims=True)
    share = spread_array(grad, input.shape, dim, keepdim)
    if count.size and count.max() > 1:
        share = share / count.astype(grad.dtype)
    return np.where(hit, share, grad.dtype.type(0))


def _ties(sign):
    def near(input, *, tol, dim=None, keepdim=False):
        if not input.size:
            return np.zeros(input.shape, bool)
        axes = normalize_dims("dim", dim, input.ndim)
        input = sign * input
        close = input >= np.max(input, axis=axes, keepdims=True) - tol
        return close & (np.sum(close, axis=axes, keepdims=True) > 1)

    return near


def _extreme_samples(make):
    yield make.call(make.distinct(2, 3))
    yield make.call(make.distinct(2, 3, 2), dim=(0, -1), keepdim=True)
    yield make.call(make.distinct(2, 3), dim=1)
    yield make.call(make.values([1.0, 3.0, 3.0, 2.0, 1.0]))
    yield make.call(make.distinct(), dim=-1)
    yield make.call(make.distinct(0, 3), dim=1)
    yield make.error(RuntimeError, "no elements", make.distinct(0, 3), dim=0)
    yield make.error(IndexError, "out of range", make.distinct(2, 3), dim=2)


def amax(input, *, dim=None, keepdim=False):
    """The greatest element over `dim`; elements that tie share the gradient.

    Raises
    ------
    RuntimeError
        There is no element to choose from.
    """
    return _extreme("amax", np.maximum, input, dim, keepdim)


amax = operator(
    "standard::amax",
    dtypes="numeric",
    infer=_reduced_meta,
    kinks=_ties(1),
    method=True,
    cpu=folds.Extreme(amax, True),
    cuda=".cuda:amax",
)(amax)


@amax.backward
def _(grad, input, out, dim, keepdim):
    return _shared(grad, input, out, dim, keepdim)


amax.backward_kernel(folds.ExtremeSlopes(shared_arrays))
amax.samples(_extreme_samples)


def amin(input, *, dim=None, keepdim=False):
    """The smallest element over `dim`; elements that tie share the gradient.

    Raises
    ------
    RuntimeError
        There is no element to choose from.
    """
    return _extreme("amin", np.minimum, input, dim, keepdim)


amin = operator(
    "standard::amin",
    dtypes="numeric",
    infer=_reduced_meta,
    kinks=_ties(-1),
    method=True,
    cpu=folds.Extreme(amin, False),
    cuda=".cuda:amin",
)(amin)


@amin.backward
def _(grad, input, out, dim, keepdim):
    return _shared(grad, input, out, dim, keepdim)


amin.backward_kernel(folds.ExtremeSlopes(shared_arrays))
amin.samples(_extreme_samples)


# ---- max, min ------------------------------------------------------------------------------------------------


class Extremes(NamedTuple):
    """What `max` and `min` along a dimension return."""

    values: Any
    indices: Any


def _extremes(find, input, dim, keepdim, name):
    dim = normalize_dim(name, dim, input.ndim)
    shape = input.shape
    if not shape:
        input = ops.reshape(input, (1,))
    indices = find(input, dim=dim, keepdim=True)
    values = ops.take_along_dim(input, indices, dim=dim)
    if not keepdim or not shape:
        left = reduced_shape(shape, (dim,), keepdim)
        values, indices = ops.reshape(values, left), ops.reshape(indices, left)
    return Extremes(values, indices)


def _max_samples(make):
    yield make.call(make.distinct(2, 3))
    yield make.call(make.distinct(2, 3), dim=-1, keepdim=True)
    yield make.call(make.distinct(3), dim=0)
    yield make.call(make.distinct(), dim=0)
    yield make.call(make.distinct(0, 3), dim=1)
    yield make.call(make.distinct(2, 3), make.normal(3))
    yield make.error(RuntimeError, "no elements", make.distinct(0))
    yield make.error(RuntimeError, "no elements", make.distinct(0, 3), dim=0)
    yield make.error(IndexError, "out of range", make.distinct(2, 3), dim=2)


def _is_operand(value):
    return value is not None and not isinstance(value, int)


@composite("standard::max", method=True)
def max(input, dim=None, keepdim=False, *, other=None):
    """``max(input)``: the greatest element, ties sharing its gradient; ``max(input, dim)``: named tuple ``(values, indices)``
    along `dim`; ``max(input, other)``: the elementwise `maximum`.
    """
    if _is_operand(dim) or other is not None:
        return ops.maximum(input, dim if other is None else other)
    return ops.amax(input) if dim is None else _extremes(ops.argmax, input, dim, keepdim, "max")


max.samples(_max_samples)


@composite("standard::min", method=True)
def min(input, dim=None, keepdim=False, *, other=None):
    """``min(input)``: the smallest element, ties sharing its gradient; ``min(input, dim)``: named tuple ``(values, indices)``
    along `dim`; ``min(input, other)``: the elementwise `minimum`.
    """
    if _is_operand(dim) or other is not None:
        return ops.minimum(input, dim if other is None else other)
    return ops.amin(input) if dim is None else _extremes(ops.argmin, input, dim, keepdim, "min")


min.samples(_max_samples)


# ---- positions -----------------------------------------------------------------------------------------------


def _position_meta(input, *, dim=None, keepdim=False):
    axes = normalize_dims("dim", dim, input.ndim)
    return reduced_shape(input.shape, axes, keepdim), np.dtype(np.int64)


def _position(name, find, input, dim, keepdim):
    axis = None if dim is None or not input.ndim else normalize_dim(name, dim, input.ndim)
    if dim is not None and not input.ndim:
        normalize_dim(name, dim, 0)
    try:
        return find(input, axis=axis, keepdims=keepdim)
    except ValueError:
        raise RuntimeError(
            f"{name}: a tensor of shape {input.shape} has no elements in dim={dim} to choose from"
        ) from None


def _position_samples(make):
    yield make.call(make.distinct(2, 3))
    yield make.call(make.distinct(2, 3), dim=-1, keepdim=True)
    yield make.call(make.values([1.0, 3.0, 3.0]), dim=0)
    yield make.call(make.distinct())
    yield make.call(make.distinct(0, 3), dim=1)
    yield make.error(RuntimeError, "no elements", make.distinct(0, 3), dim=0)
    yield make.error(IndexError, "out of range", make.distinct(2, 3), dim=2)


def argmax(input, *, dim=None, keepdim=False):
    """The index of the first greatest element along `dim`, or into the flattened tensor."""
    return _position("argmax", np.argmax, input, dim, keepdim)


argmax = operator(
    "standard::argmax",
    dtypes="numeric",
    infer=_position_meta,
    nondifferentiable=True,
    method=True,
    cpu=cpu.Position(argmax, True),
    cuda=".cuda:argmax",
)(argmax)


argmax.samples(_position_samples)


def argmin(input, *, dim=None, keepdim=False):
    """The index of the first smallest element along `dim`, or into the flattened tensor."""
    return _position("argmin", np.argmin, input, dim, keepdim)


argmin = operator(
    "standard::argmin",
    dtypes="numeric",
    infer=_position_meta,
    nondifferentiable=True,
    method=True,
    cpu=cpu.Position(argmin, False),
    cuda=".cuda:argmin",
)(argmin)


argmin.samples(_position_samples)


# ---- truth ---------------------------------------------------------------------------------------------------


def _truth_meta(input, *, dim=None, keepdim=False):
    return reduced_shape(input.shape, normalize_dims("dim", dim, input.ndim), keepdim), np.dtype(
        bool
    )


def _truth_samples(make):
    yield make.call(make.booleans(2, 3))
    yield make.call(make.values([[0.0, 1.0], [2.0, 3.0]]), dim=-1, keepdim=True)
    yield make.call(make.booleans(2, 3, 2), dim=(0, 1))
    yield make.call(make.booleans())
    yield make.call(make.booleans(0, 3), dim=0)
    yield make.call(make.complex(2, 3) * [0, 1, 1], dim=1)
    yield make.error(IndexError, "out of range", make.booleans(2, 3), dim=2)


@operator(
    "standard::all",
    dtypes="number",
    infer=_truth_meta,
    nondifferentiable=True,
    method=True,
    cuda=".cuda:all",
)
def all(input, *, dim=None, keepdim=False):
    """Whether every element over `dim` is nonzero; true where there is none."""
    axes = normalize_dims("all", dim, input.ndim)
    return np.logical_and.reduce(input, axis=axes, keepdims=keepdim)


all.samples(_truth_samples)


@operator(
    "standard::any",
    dtypes="number",
    infer=_truth_meta,
    nondifferentiable=True,
    method=True,
    cuda=".cuda:any",
)
def any(input, *, dim=None, keepdim=False):
    """Whether any element over `dim` is nonzero; false where there is none."""
    axes = normalize_dims("any", dim, input.ndim)
    return np.logical_or.reduce(input, axis=axes, keepdims=keepdim)


any.samples(_truth_samples)
