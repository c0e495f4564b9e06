"""Writing along one dimension at indices that differ from place to place.

The last of several writes to one place stays, in the C order of the indices, and it alone has a gradient.
"""

import math

import numpy as np

from plugrad import from_numpy, operator, ops
from plugrad_ops.indexing import cpu
from plugrad_ops.indexing.along import _add_meta, _along_shape, _flat_positions
from plugrad_ops.indexing.spec import require_shape


def numbered(shape, device):
    """0, 1, 2, … for the elements of a shape, in C order."""
    return from_numpy(np.arange(math.prod(shape)).reshape(shape)).to(device)


def _stayed(indices, seen, shape, dim):
    """For each write whether no later one meets its place."""
    numbers = numbered(seen, indices.device)
    last = ops.put_along_dim(numbers, indices, shape=shape, dim=dim)
    return ops.take_along_dim(last, indices, dim=dim) == numbers


def _write(name, out, indices, values, dim):
    """Write into `out`, an array in C order."""
    seen, dim = _along_shape(name, out.shape, indices.shape, dim)
    require_shape(name, values.shape, seen)
    where = _flat_positions(name, out.shape, indices, dim)
    out.reshape(-1)[np.broadcast_to(where, seen).ravel()] = values.ravel()
    return out


# ---- into zeros ----------------------------------------------------------------------------------------------


def _put(input, indices, *, shape, dim, out=None):
    """The CPU kernel of `put_along_dim`."""
    made = np.zeros(shape, input.dtype)
    if cpu.write_along(made, indices, input, dim) is None:
        return _write("put_along_dim", made, indices, input, dim)
    return made


@operator(
    "standard::put_along_dim",
    dtypes={"input": "any", "indices": "integer"},
    infer=lambda input, indices, *, shape, dim: _add_meta(
        input, indices, shape=shape, dim=dim, name="put_along_dim"
    ),
    cpu=_put,
    cuda=".cuda:put_along_dim",
)
def put_along_dim(input, indices, *, shape, dim):
    """Zeros of `shape` with `input` written where `take_along_dim` would read."""
    return _write("put_along_dim", np.zeros(shape, input.dtype), indices, input, dim)


@put_along_dim.backward
def _(grad, indices, like, shape, dim):
    stayed = _stayed(indices, like.input.shape, shape, dim)
    return ops.where(stayed, ops.take_along_dim(grad, indices, dim=dim), 0), None


@put_along_dim.samples
def _(make):
    yield make.call(make.normal(2, 2), np.array([[0, 2], [1, 0]]), shape=(2, 3), dim=-1)
    yield make.call(make.normal(2, 2), np.array([[2], [1]]), shape=(3, 2), dim=0)
    yield make.call(make.normal(3), np.array([1, 0, 1]), shape=(3,), dim=0)
    yield make.call(make.normal(), np.array(0), shape=(), dim=0)
    yield make.call(make.normal(0, 2), np.zeros((0, 2), np.int64), shape=(0, 4), dim=1)
    yield make.error(RuntimeError, "shape", make.normal(2), np.arange(3), shape=(4,), dim=0)
    yield make.error(IndexError, "out of bounds", make.normal(1), np.array([4]), shape=(4,), dim=0)


# ---- into a copy ---------------------------------------------------------------------------------------------


def _written(input, indices, src, *, dim, out=None):
    """The CPU kernel of `write_along_dim`."""
    made = input.copy("C")
    if cpu.write_along(made, indices, src, dim) is None:
        return _write("write_along_dim", made, indices, src, dim)
    return made


def _write_meta(input, indices, src, *, dim):
    seen, _ = _along_shape("write_along_dim", input.shape, indices.shape, dim)
    require_shape("write_along_dim", src.shape, seen)
    return input.shape, input.dtype


@operator(
    "standard::write_along_dim",
    dtypes={"input": "any", "indices": "integer", "src": "any"},
    infer=_write_meta,
    cpu=_written,
    cuda=".cuda:write_along_dim",
)
def write_along_dim(input, indices, src, *, dim):
    """A copy of `input` with `src` written where `take_along_dim` would read."""
    return _write("write_along_dim", input.copy("C"), indices, src, dim)


@write_along_dim.backward
def _(grad, indices, like, needs, dim):
    to_input = to_src = None
    seen = like.src.shape
    if needs.input:
        nothing = ops.zeros_like(ops.take_along_dim(grad, indices, dim=dim))
        to_input = ops.write_along_dim(grad, indices, nothing, dim=dim)
    if needs.src:
        stayed = _stayed(indices, seen, grad.shape, dim)
        to_src = ops.where(stayed, ops.take_along_dim(grad, indices, dim=dim), 0)
    return to_input, None, to_src


@write_along_dim.backward_kernel
def _(grad, indices, like, dim):
    found = cpu.unwrite_along(grad, indices, dim)
    if found is not None:
        return found[0], None, found[1]
    seen = like.src.shape
    where = _flat_positions("write_along_dim", grad.shape, indices, dim % max(grad.ndim, 1))
    where = np.broadcast_to(where, seen)
    order = np.arange(where.size).reshape(seen)
    last = np.zeros(grad.size, np.intp)
    last[where.ravel()] = order.ravel()
    left = grad.copy("C")
    left.reshape(-1)[where.ravel()] = 0
    return left, None, np.where(last[where] == order, grad.reshape(-1)[where], 0)


@write_along_dim.samples
def _(make):
    yield make.call(make.normal(2, 3), np.array([[0, 2], [1, 1]]), make.normal(2, 2), dim=-1)
    yield make.call(make.normal(3, 2), np.array([[2], [1]]), make.normal(2, 2), dim=0)
    yield make.call(make.normal(), np.array(0), make.normal(), dim=0)
    yield make.call(make.normal(0, 4), np.zeros((0, 2), np.int64), make.normal(0, 2), dim=1)
    yield make.error(RuntimeError, "shape", make.normal(4), np.arange(3), make.normal(2), dim=0)
    yield make.error(
        IndexError, "out of bounds", make.normal(4), np.array([4]), make.normal(1), dim=0
    )
