"""Reading and adding along one dimension at indices that differ from place to place."""

import math

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.indexing import cpu
from plugrad_ops.indexing.spec import add_at, require_shape
from plugrad_ops.shape.dims import normalize_dim


def _along_shape(name, shape, index_shape, dim):
    """The shape that reading `shape` along `dim` gives: both broadcast, but for `dim`, which is the index's."""
    if len(shape) != len(index_shape):
        raise RuntimeError(
            f"{name}: the tensor and the indices need equally many dimensions, got shapes {tuple(shape)} and "
            f"{tuple(index_shape)}"
        )
    dim = normalize_dim(name, dim, len(shape))
    others = (*shape[:dim], *(1,) * (len(shape) > 0), *shape[dim + 1 :])
    try:
        return np.broadcast_shapes(others, index_shape), dim
    except ValueError:
        raise RuntimeError(
            f"{name}: shapes {tuple(shape)} and {tuple(index_shape)} do not broadcast outside dimension {dim}"
        ) from None


def _flat_positions(name, shape, indices, dim):
    """For each index its position in the flattened tensor of `shape`."""
    n = shape[dim] if shape else 1
    if indices.size and (indices.min() < -n or indices.max() >= n):
        wrong = indices[(indices < -n) | (indices >= n)].flat[0]
        raise IndexError(
            f"{name}: index {wrong} is out of bounds for dimension {dim} of size {n}; the tensor has shape "
            f"{tuple(shape)}"
        )
    out, step = 0, 1
    for axis in range(len(shape) - 1, -1, -1):
        if axis == dim:
            here = np.where(indices < 0, indices + n, indices)
        else:
            here = np.arange(shape[axis]).reshape((-1,) + (1,) * (len(shape) - 1 - axis))
        out = out + here * step
        step *= shape[axis]
    return out if shape else indices * 0


def _taken(input, indices, *, dim=None, out=None):
    """The CPU kernel of `take_along_dim`."""
    if dim is None:
        input, indices, dim = input.reshape(-1), indices.reshape(-1), 0
    found = cpu.take_along(input, indices, dim)
    return take_along_dim.function(input, indices, dim=dim) if found is None else found


def _take_meta(input, indices, *, dim=None):
    if dim is None:
        return (math.prod(indices.shape),), input.dtype
    return _along_shape("take_along_dim", input.shape, indices.shape, dim)[0], input.dtype


@operator(
    "standard::take_along_dim",
    dtypes={"input": "any", "indices": "integer"},
    infer=_take_meta,
    method=True,
    cpu=_taken,
    cuda=".cuda:take_along_dim",
)
def take_along_dim(input, indices, *, dim=None):
    """``out[i, j, k] = input[i, indices[i, j, k], k]`` for ``dim=1``; the other dimensions broadcast.

    Without `dim` both are flattened first.

    Raises
    ------
    IndexError
        An index lies outside the dimension.
    RuntimeError
        The other dimensions do not broadcast.
    """
    if dim is None:
        input, indices, dim = input.reshape(-1), indices.reshape(-1), 0
    shape, dim = _along_shape("take_along_dim", input.shape, indices.shape, dim)
    where = _flat_positions("take_along_dim", input.shape, indices, dim)
    return input.reshape(-1)[np.broadcast_to(where, shape)]


@take_along_dim.backward
def _(grad, indices, like, dim):
    shape = like.input.shape
    if dim is not None:
        return ops.add_along_dim(grad, indices, shape=shape, dim=dim), None
    indices = ops.reshape(indices, grad.shape)
    flat = ops.add_along_dim(grad, indices, shape=(math.prod(shape),), dim=0)
    return ops.reshape(flat, shape), None


@take_along_dim.samples
def _(make):
    yield make.call(make.normal(2, 3), np.array([[5, 0]]))
    yield make.call(make.normal(3, 4), make.integers(3, 2, high=4), dim=-1)
    yield make.call(make.normal(3, 4), make.integers(2, 4, low=-3, high=3), dim=0)
    yield make.call(make.normal(3, 1), make.integers(1, 4, high=3), dim=0)
    yield make.call(make.normal(), make.integers(high=1), dim=0)
    yield make.call(make.normal(0, 4), make.integers(0, 2, high=4), dim=1)
    yield make.error(IndexError, "out of bounds", make.normal(2), np.array([2]), dim=0)
    yield make.error(
        RuntimeError, "broadcast", make.normal(2, 3), make.integers(3, 1, high=3), dim=1
    )
    yield make.error(
        RuntimeError, "equally many", make.normal(2, 3), make.integers(3, high=2), dim=1
    )


def _add_meta(input, indices, *, shape, dim, name="add_along_dim"):
    seen, _ = _along_shape(name, shape, indices.shape, dim)
    require_shape(name, input.shape, seen)
    return tuple(shape), input.dtype


def _added(input, indices, *, shape, dim, out=None):
    """The CPU kernel of `add_along_dim`."""
    found = cpu.add_along(input, indices, tuple(shape), dim)
    return add_along_dim.function(input, indices, shape=shape, dim=dim) if found is None else found


@operator(
    "standard::add_along_dim",
    dtypes={"input": "any", "indices": "integer"},
    infer=_add_meta,
    cpu=_added,
    cuda=".cuda:add_along_dim",
)
def add_along_dim(input, indices, *, shape, dim):
    """Zeros of `shape` with `input` added where `take_along_dim` would read."""
    seen, dim = _along_shape("add_along_dim", shape, indices.shape, dim)
    require_shape("add_along_dim", input.shape, seen)
    where = np.broadcast_to(_flat_positions("add_along_dim", shape, indices, dim), seen)
    return add_at(math.prod(shape), where, input, input.dtype).reshape(shape)


@add_along_dim.backward
def _(grad, indices, dim):
    return ops.take_along_dim(grad, indices, dim=dim), None


@add_along_dim.samples
def _(make):
    yield make.call(make.normal(3, 2), make.integers(3, 2, high=4), shape=(3, 4), dim=-1)
    yield make.call(make.normal(4, 2), make.integers(4, 1, high=3), shape=(3, 2), dim=0)
    yield make.call(make.normal(), make.integers(high=1), shape=(), dim=0)
    yield make.call(make.normal(0, 2), make.integers(0, 2, high=4), shape=(0, 4), dim=1)
    yield make.error(
        RuntimeError, "shape", make.normal(2), make.integers(3, high=4), shape=(4,), dim=0
    )


def _partial(name, shape, index_shape, dim):
    """The slices, outside `dim`, of a tensor of `shape` that an index of a smaller shape refers to."""
    dim = normalize_dim(name, dim, len(shape))
    if len(shape) != len(index_shape) or any(
        m > n for axis, (n, m) in enumerate(zip(shape, index_shape)) if axis != dim
    ):
        raise RuntimeError(
            f"{name}: the index of shape {tuple(index_shape)} must have as many dimensions as the tensor of shape "
            f"{tuple(shape)} and no greater sizes outside dimension {dim}"
        )
    return tuple(
        (None, None, None) if axis == dim else (0, m, 1) for axis, m in enumerate(index_shape)
    )


@composite("standard::gather", method=True)
def gather(input, dim, index, *, sparse_grad=False):
    """``out[i, j, k] = input[i, index[i, j, k], k]`` for ``dim=1``; outside `dim` the index may be smaller than `input`."""
    inside = _partial("gather", input.shape, index.shape, dim)
    return ops.take_along_dim(ops.slice(input, index=inside), index, dim=dim)


@gather.samples
def _(make):
    yield make.call(make.normal(3, 4), 1, make.integers(3, 2, high=4))
    yield make.call(make.normal(3, 4), 0, make.integers(5, 2, high=3))
    yield make.call(make.normal(0, 4), 1, make.integers(0, 2, high=4))
    yield make.error(
        RuntimeError,
        "no greater sizes",
        make.normal(2, 3),
        dim=1,
        index=make.integers(3, 1, high=3),
    )


@composite("standard::scatter_add", method=True)
def scatter_add(input, dim, index, src):
    """`input` with ``src[i, j, k]`` added at ``[i, index[i, j, k], k]`` for ``dim=1``; not in place."""
    inside = _partial("scatter_add", input.shape, index.shape, dim)
    axis = normalize_dim("scatter_add", dim, input.ndim)
    if src.ndim != index.ndim or any(m > n for n, m in zip(src.shape, index.shape)):
        raise RuntimeError(
            f"scatter_add: src of shape {src.shape} must be at least as large as the index, {index.shape}"
        )
    if src.shape != index.shape:
        src = ops.slice(src, index=tuple((0, m, 1) for m in index.shape))
    shape = tuple(n if d == axis else index.shape[d] for d, n in enumerate(input.shape))
    added = ops.add_along_dim(src, index, shape=shape, dim=dim)
    return input + ops.slice_adjoint(added, shape=input.shape, index=inside)


@scatter_add.samples
def _(make):
    index = make.integers(3, 2, high=4)
    yield make.call(make.normal(3, 4), 1, index, make.normal(3, 2))
    yield make.call(make.normal(4, 4), 0, index, make.normal(3, 3))
    yield make.call(make.normal(0), 0, make.integers(0), make.normal(0))
    yield make.error(
        RuntimeError, "at least as large", make.normal(3, 4), 1, index, make.normal(1, 2)
    )


@operator(
    "standard::one_hot",
    dtypes="integer",
    nondifferentiable=True,
    infer=lambda input, *, num_classes: ((*input.shape, num_classes), np.dtype(np.int64)),
    cuda=".cuda:one_hot",
)
def one_hot(input, *, num_classes):
    """A last dimension of length `num_classes` that is 1 at the class and 0 elsewhere.

    Raises
    ------
    IndexError
        A class lies outside ``[0, num_classes - 1]``.
    """
    if input.size and (input.min() < 0 or input.max() >= num_classes):
        raise IndexError(
            f"one_hot: classes must lie between 0 and {num_classes - 1}, got {input.min()} to {input.max()}"
        )
    return (input[..., None] == np.arange(num_classes)).astype(np.int64)


@one_hot.samples
def _(make):
    yield make.call(make.integers(3, high=4), num_classes=4)
    yield make.call(make.integers(high=4), num_classes=4)
    yield make.call(make.integers(0, 2, high=4), num_classes=5)
    yield make.error(IndexError, "between 0 and 2", np.array([3]), num_classes=3)
