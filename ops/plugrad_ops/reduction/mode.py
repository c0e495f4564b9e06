"""The most frequent element along a dimension."""

import numpy as np

from plugrad import composite, ops
from plugrad_ops.reduction.extrema import Extremes
from plugrad_ops.shape.dims import normalize_dim, reduced_shape


@composite("standard::mode", method=True)
def mode(input, dim=-1, keepdim=False):
    """Named tuple ``(values, indices)`` of the most frequent elements along `dim`; of equally frequent ones the smallest.

    The index is that of its last occurrence, and that element gets the gradient. NaN is equal to nothing.

    Raises
    ------
    RuntimeError
        There is no element to choose from.
    """
    axis = normalize_dim("mode", dim, input.ndim)
    shape = input.shape
    x = input if shape else ops.reshape(input, (1,))
    n = x.shape[axis]
    left = reduced_shape(shape, (axis,), keepdim)
    if n == 0 and 0 not in left:
        raise RuntimeError(
            f"mode: a tensor of shape {shape} has no elements in dim={dim} to choose from"
        )
    if n == 0 or 0 in left:
        nothing = ops.narrow(x, axis, 0, min(n, 1))
        values = ops.reshape(nothing, left)
        return Extremes(values, ops.cast(values.detach(), dtype=np.dtype(np.int64)))
    found, places = ops.sort(x.detach(), dim=axis, stable=True)
    here = ops.cumsum(ops.zeros_like(places) + 1, dim=axis)
    differs = ops.narrow(found, axis, 1, n - 1) != ops.narrow(found, axis, 0, n - 1)
    begins = ops.where(differs, ops.narrow(here, axis, 1, n - 1), 0)
    begins = ops.cat([ops.narrow(here, axis, 0, 1), begins], axis)
    # The longest run of equal elements is first reached at the end of the first longest one.
    end = ops.argmax(here - ops.running_max(begins, dim=axis)[0], dim=axis, keepdim=True)
    indices = ops.take_along_dim(places, end, dim=axis)
    values = ops.take_along_dim(x, indices, dim=axis)
    return Extremes(ops.reshape(values, left), ops.reshape(indices, left))


@mode.samples
def _(make):
    yield make.call(make.distinct(5))
    yield make.call(make.distinct(2, 3), dim=0, keepdim=True)
    yield make.call(make.distinct())
    yield make.call(make.integers(3, 6, high=3), dim=1)
    yield make.error(RuntimeError, "no elements", make.distinct(0, 3), dim=0)
