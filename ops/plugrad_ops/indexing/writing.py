"""Writing at an index: into a copy (`index_put`) and in place (``x[...] = v``).

Where several writes meet one position the last one stays, in the C order of the index, and it alone has a gradient. NumPy
keeps that order for one-dimensional indices only, so all others go through flat positions.
"""

import math

import numpy as np

from plugrad import composite, from_numpy, operator, ops
from plugrad.backends.dtypes import check_number
from plugrad_ops.indexing.ops import index_accumulate
from plugrad_ops.indexing.spec import (
    ARRAY,
    SMALL,
    WHOLE,
    ScalarMask,
    indexed_shape,
    numpy_index,
    opened,
    parse_index,
    positions,
    read,
)

# ---- into a copy ---------------------------------------------------------------------------------------------


def store(out, spec, indices, values):
    """``out[index] = values`` in place; the last of several writes to one position stays."""
    if len(indices) < 2 and all(i.ndim == 1 for i in indices) and out.ndim == 1:
        try:
            out[numpy_index(spec, indices)] = values
        except IndexError as error:
            raise IndexError(f"index_write: {error}; the tensor has shape {out.shape}") from None
        return
    if not indices:
        read("index_write", out, spec)[...] = values
        return
    where = positions("index_write", out.shape, spec, indices)
    flat = out.reshape(-1)
    flat[where.ravel()] = np.broadcast_to(values, where.shape).ravel()
    if not np.may_share_memory(flat, out):  # the layout of `out` needed a copy
        out[...] = flat.reshape(out.shape)


def check_values(name, shape, values_shape):
    """Whether values of `values_shape` broadcast to `shape`; leading dimensions of length 1 may be surplus."""
    extra = max(len(values_shape) - len(shape), 0)
    kept = values_shape[extra:]
    fits = all(n == 1 for n in values_shape[:extra]) and all(
        n in (1, m) for n, m in zip(reversed(kept), reversed(shape))
    )
    if not fits:
        raise RuntimeError(
            f"{name}: values of shape {tuple(values_shape)} do not broadcast to the shape {tuple(shape)} of the index"
        )


def _write_meta(input, values, *indices, spec, accumulate=False):
    seen = indexed_shape("index_write", input.shape, spec, [i.shape for i in indices])
    check_values("index_write", seen, values.shape)
    return input.shape, input.dtype


@operator(
    "standard::index_write",
    dtypes={"input": "any", "values": "any", "indices": "integer"},
    infer=_write_meta,
    cuda=".cuda:index_write",
)
def index_write(input, values, *indices, spec, accumulate=False):
    """A copy of `input` with `values` at the index, or added there with ``accumulate=True``.

    Without `accumulate` the last of several writes to one position stays, and it alone has a gradient.
    """
    seen = indexed_shape("index_write", input.shape, spec, [i.shape for i in indices])
    check_values("index_write", seen, values.shape)
    values = values.reshape(values.shape[max(values.ndim - len(seen), 0) :])
    if accumulate and indices:
        values = np.broadcast_to(values, seen)
        return input + index_accumulate.function(values, *indices, shape=input.shape, spec=spec)
    out = input.copy("C")
    if accumulate:
        read("index_write", out, spec)[...] += values
    else:
        store(out, spec, indices, values)
    return out


def _written_gradient(grad, shape, indices, spec, accumulate):
    """The gradient of the values: that of the positions they were written to and stayed at."""
    out = ops.index(grad, *indices, spec=spec) if indices else ops.slice(grad, index=spec)
    if indices and not accumulate:
        out = ops.where(ops.last_writes(*indices, shape=grad.shape, spec=spec), out, 0)
    extra = max(len(shape) - out.ndim, 0)
    if out.shape != shape[extra:]:
        out = ops.sum_to(out, shape=shape[extra:])
    return ops.reshape(out, shape) if extra else out


@index_write.backward
def _(grad, indices, like, needs, spec, accumulate):
    grad_x = grad if accumulate else ops.index_clear(grad, *indices, spec=spec)
    grad_values = None
    if needs.values:
        grad_values = _written_gradient(grad, like.values.shape, indices, spec, accumulate)
    return (grad_x, grad_values, *(None for _ in indices))


@index_write.samples
def _(make):
    twice = np.array([0, 0, 2])
    yield make.call(make.normal(3), make.normal(3), twice, spec=(ARRAY,))
    yield make.call(make.normal(3), make.normal(3), twice, spec=(ARRAY,), accumulate=True)
    yield make.call(
        make.normal(3, 4), make.normal(2, 1), make.integers(2, high=4), spec=((0, 2, 1), ARRAY)
    )
    yield make.call(make.normal(4, 3), make.normal(), make.integers(2, 2, high=4), spec=(ARRAY,))
    yield make.call(make.normal(3, 4), make.normal(1, 2, 4), spec=((1, None, None),))
    yield make.call(make.normal(3), make.normal(0), make.integers(0, high=3), spec=(ARRAY,))
    yield make.error(
        RuntimeError, "broadcast", make.normal(3), make.normal(2), twice, spec=(ARRAY,)
    )


@operator(
    "standard::index_clear",
    dtypes={"input": "any", "indices": "integer"},
    infer=lambda input, *indices, spec: (input.shape, input.dtype),
    cuda=".cuda:index_clear",
)
def index_clear(input, *indices, spec):
    """A copy of `input` with zeros at the index."""
    out = input.copy("C")
    out[numpy_index(spec, indices)] = 0
    return out


@index_clear.backward
def _(grad, indices, spec):
    return (ops.index_clear(grad, *indices, spec=spec), *(None for _ in indices))


@index_clear.samples
def _(make):
    yield make.call(make.normal(3), np.array([0, 0, 2]), spec=(ARRAY,))
    yield make.call(make.normal(3, 4), spec=((1, None, None), 0))
    yield make.call(make.normal(3), make.integers(0, high=3), spec=(ARRAY,))


@operator(
    "standard::last_writes",
    dtypes="integer",
    nondifferentiable=True,
    infer=lambda *indices, shape, spec: (
        indexed_shape("last_writes", shape, spec, [i.shape for i in indices]),
        np.dtype(bool),
    ),
    cuda=".cuda:last_writes",
)
def last_writes(*indices, shape, spec):
    """For each element of the index into `shape`, whether no later one, in C order, meets its position."""
    where = positions("last_writes", shape, spec, indices)
    size = math.prod(shape)
    if (
        size > SMALL and size > 16 * where.size
    ):  # by sorting, which needs nothing of the size of the tensor
        order = np.argsort(where, axis=None, kind="stable")
        ordered = where.ravel()[order]
        out = np.ones(where.size, bool)
        out[order[:-1]] = ordered[1:] != ordered[:-1]
        return out.reshape(where.shape)
    order = np.arange(where.size).reshape(where.shape)
    last = np.zeros(size, np.intp)
    last[where.ravel()] = order.ravel()
    return last[where] == order


@last_writes.samples
def _(make):
    yield make.call(np.array([0, 0, 2]), shape=(3,), spec=(ARRAY,))
    yield make.call(make.integers(2, 2, high=3), shape=(3, 2), spec=(ARRAY,))
    yield make.call(make.integers(0, high=3), shape=(3,), spec=(ARRAY,))


@composite("standard::index_put", method=True)
def index_put(input, indices, values, accumulate=False):
    """A copy of `input` with `values` written (or added, with `accumulate`) at the index `indices`, a tuple.

    Where several writes meet, the last one stays.
    """
    shape = input.shape
    try:
        spec, arrays = parse_index(tuple(indices), input)
    except ScalarMask:
        indices, input = opened(tuple(indices), input)
        spec, arrays = parse_index(indices, input)
    out = ops.index_write(input, values, *arrays, spec=spec, accumulate=bool(accumulate))
    return out if out.shape == shape else ops.reshape(out, shape)


@index_put.samples
def _(make):
    input, v = make.normal(3), make.normal(3)
    yield make.call(input, ([0, 0, 2],), v)
    yield make.call(input, ([0, 0, 2],), v, accumulate=True)
    yield make.call(make.normal(3, 2), (slice(0, 2), [1]), make.normal(1, 1))
    yield make.call(make.normal(0, 2), (slice(0, 0),), make.normal(2))
    yield make.error(RuntimeError, "broadcast", input, ([0, 1],), v)


@composite("standard::masked_fill", method=True)
def masked_fill(input, mask, value):
    """A copy of `input` with `value`, a number or a 0-d tensor, where `mask` is true."""
    return ops.where(mask, value, input)


@masked_fill.samples
def _(make):
    yield make.call(make.normal(3, 4), make.booleans(3, 4), -1.5)
    yield make.call(make.normal(3, 4), make.booleans(4), make.normal())
    yield make.call(make.normal(0), make.booleans(0), 0.0)


# ---- in place ------------------------------------------------------------------------------------------------


@operator(
    "standard::index_write_",
    dtypes={"input": "any", "values": "any", "indices": "integer"},
    infer=lambda input, values, *indices, spec: (input.shape, input.dtype),
    mutates="input",
    cuda=".cuda:index_write_",
)
def index_write_(input, values, *indices, spec):
    """`input` with `values` written at the index, in place; the last of several writes to one position stays.

    Raises
    ------
    RuntimeError
        The values do not broadcast to the index, or elements of `input` share memory (as after `expand`).
    """
    if input.size and any(step == 0 and n > 1 for n, step in zip(input.shape, input.strides)):
        raise RuntimeError(
            f"index_write_: elements of the tensor written to (shape {input.shape}, strides {input.strides} bytes) share "
            "memory; write to a clone()"
        )
    seen = indexed_shape("index_write_", input.shape, spec, [i.shape for i in indices])
    check_values("index_write_", seen, values.shape)
    store(input, spec, indices, values.reshape(values.shape[max(values.ndim - len(seen), 0) :]))
    return input


@index_write_.backward
def _(grad, indices, like, needs, spec):
    grad_x = ops.index_clear(grad, *indices, spec=spec) if needs.input else None
    grad_values = None
    if needs.values:
        grad_values = _written_gradient(grad, like.values.shape, indices, spec, False)
    return (grad_x, grad_values, *(None for _ in indices))


@index_write_.samples
def _(make):
    yield make.call(make.normal(3), make.normal(3), np.array([0, 0, 2]), spec=(ARRAY,))
    yield make.call(make.normal(3, 4), make.normal(1, 2, 4), spec=((1, None, None),))
    yield make.call(make.normal(3, 4), make.normal(), make.integers(2, high=4), spec=(WHOLE, ARRAY))
    yield make.call(make.normal(0, 3), make.normal(1), spec=(Ellipsis, 0))
    yield make.error(RuntimeError, "broadcast", make.normal(3), make.normal(2), spec=(WHOLE,))


@composite("standard::setitem")
def setitem(input, index, value):
    """``input[index] = value``, recorded; `value` is a tensor, an array or a number and takes the dtype of `input`.

    A tensor of another device is moved where there are no arrays of indices, or where it is 0-d.
    """
    try:
        spec, arrays = parse_index(index, input)
    except ScalarMask:
        index, input = opened(index, input)
        spec, arrays = parse_index(index, input)
    if not hasattr(value, "array"):
        check_number("setitem", value, input.dtype)
        value = np.asarray(value, dtype=input.dtype)
        if input.device != "cpu":
            value = from_numpy(value).to(input.device)
    else:
        if not arrays or not value.ndim:
            value = value.to(input.device)
        if value.dtype != input.dtype:
            value = ops.cast(value, dtype=input.dtype)
    return ops.index_write_(input, value, *arrays, spec=spec)


@setitem.samples
def _(make):
    # A composite is checked on leaves, which cannot be written in place, and must leave its inputs as they were: so these
    # write a zero over a zero. The gradient is checked where it is made, at index_write_.
    zero = np.zeros((1, 1), np.int64)
    yield make.call(zero, 0, 0)
    yield make.call(zero, (slice(None), [0, 0]), 0.0)
    yield make.call(np.zeros((0, 4), np.int64), Ellipsis, make.normal(4))
    yield make.error(IndexError, "out of bounds", zero, 3, 0)
    yield make.error(RuntimeError, "broadcast", zero, 0, np.zeros(3, np.int64))
