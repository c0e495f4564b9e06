"""Where something holds, and the elements there: `nonzero`, `masked_select`, `masked_scatter`, `take`, `put`.

How many elements there are is known only when the values are: on a device these wait for it.
"""

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.indexing.spec import ARRAY


@operator(
    "standard::nonzero_positions",
    dtypes="numeric",
    nondifferentiable=True,
    cuda=".selecting_cuda:nonzero_positions",
)
def nonzero_positions(input):
    """The indices of the elements that are not zero, in C order: one row for each, one column per dimension."""
    if not input.ndim:
        return np.zeros((int(bool(input)), 0), np.int64)
    return np.stack(np.nonzero(input), axis=1)


@nonzero_positions.samples
def _(make):
    yield make.call(make.booleans(3, 4))
    yield make.call(make.values([0.0, 2.0, np.nan, 0.0]))
    yield make.call(make.integers(2, 1, 3, high=2))
    yield make.call(make.values(1.0))
    yield make.call(make.booleans(0, 3))


@composite("standard::nonzero", method=True)
def nonzero(input, *, as_tuple=False):
    """The indices of the elements that are not zero, in C order.

    Parameters
    ----------
    as_tuple : bool
        Give one 1-d tensor per dimension, as an index takes them, in place of a matrix with one row per element.
    """
    if not as_tuple:
        return ops.nonzero_positions(input)
    found = ops.nonzero_positions(input if input.ndim else ops.reshape(input, (1,)))
    return tuple(ops.slice(found, index=(Ellipsis, d)) for d in range(max(input.ndim, 1)))


@nonzero.samples
def _(make):
    yield make.call(make.booleans(3, 4))
    yield make.call(make.integers(2, 3, high=2), as_tuple=True)
    yield make.call(make.values(1.0), as_tuple=True)
    yield make.call(make.booleans(0))


@composite("standard::argwhere", method=True)
def argwhere(input):
    """The indices of the elements that are not zero, in C order: a matrix with one row for each."""
    return ops.nonzero_positions(input)


@argwhere.samples
def _(make):
    yield make.call(make.booleans(3, 4))
    yield make.call(make.integers(3, high=2))
    yield make.call(make.booleans(0))


# ---- masks ---------------------------------------------------------------------------------------------------


def _require_mask(name, mask):
    if mask.dtype != np.bool_:
        raise TypeError(f"{name}: mask must be bool, got {mask.dtype} of shape {mask.shape}")


def _true_places(mask):
    """The positions in the flattened mask where it is true."""
    flat = ops.nonzero_positions(ops.reshape(mask, (mask.numel(),)))
    return ops.reshape(flat, (flat.shape[0],))


@composite("standard::masked_select", method=True)
def masked_select(input, mask):
    """The elements of `input` where `mask` is true, in C order, as a 1-d tensor; the two broadcast.

    Raises
    ------
    TypeError
        `mask` is not bool.
    RuntimeError
        The two do not broadcast.
    """
    _require_mask("masked_select", mask)
    input, mask = ops.broadcast_tensors(input, mask)
    flat = ops.reshape(input, (input.numel(),))
    return ops.index(flat, _true_places(mask), spec=(ARRAY,))


@masked_select.samples
def _(make):
    yield make.call(make.normal(3, 4), make.booleans(3, 4))
    yield make.call(make.normal(3, 1), make.booleans(4))
    yield make.call(make.normal(), np.array(True))
    yield make.call(make.normal(0, 2), make.booleans(2))
    yield make.error(TypeError, "bool", make.normal(2), make.integers(2, high=2))
    yield make.error(RuntimeError, "broadcast", make.normal(2), make.booleans(3))


@composite("standard::masked_scatter", method=True)
def masked_scatter(input, mask, source):
    """`input` with the elements of `source`, in C order, where `mask` is true; `input` and `mask` broadcast.

    Raises
    ------
    TypeError
        `mask` is not bool.
    RuntimeError
        `source` has too few elements or another dtype, or the two do not broadcast.
    """
    _require_mask("masked_scatter", mask)
    if source.dtype != input.dtype:
        raise RuntimeError(
            f"masked_scatter: input and source must have one dtype, got {input.dtype} and {source.dtype}"
        )
    input, mask = ops.broadcast_tensors(input, mask)
    places = _true_places(mask)
    count, room = places.shape[0], source.numel()
    if room < count:
        raise RuntimeError(
            f"masked_scatter: source has {room} elements, fewer than the {count} places where the mask is true"
        )
    flat, values = ops.reshape(input, (input.numel(),)), ops.reshape(source, (room,))
    values = ops.narrow(values, 0, 0, count) if count < room else values
    return ops.reshape(ops.index_write(flat, values, places, spec=(ARRAY,)), input.shape)


@masked_scatter.samples
def _(make):
    yield make.call(make.normal(3, 4), make.booleans(3, 4), make.normal(3, 4))
    yield make.call(make.normal(3, 1), np.array([True, False, True]), make.normal(7))
    yield make.call(make.normal(), np.array(True), make.normal())
    yield make.call(make.normal(0, 2), make.booleans(2), make.normal(1))
    yield make.error(
        RuntimeError, "fewer than", make.normal(2), np.array([True, True]), make.normal(1)
    )
    yield make.error(TypeError, "bool", make.normal(2), np.array([1, 0]), make.normal(2))


# ---- positions in the flattened tensor -----------------------------------------------------------------------


@composite("standard::take", method=True)
def take(input, index):
    """The elements of the flattened tensor at the integers `index`, in their shape."""
    return ops.index(ops.reshape(input, (input.numel(),)), index, spec=(ARRAY,))


@take.samples
def _(make):
    yield make.call(make.normal(2, 3), np.array([[0, 5], [-1, 0]]))
    yield make.call(make.normal(2, 3), np.array(4))
    yield make.call(make.normal(), np.array([0, 0]))
    yield make.call(make.normal(0), np.zeros(0, np.int64))
    yield make.error(IndexError, "out of bounds", make.normal(2), np.array([2]))


@composite("standard::put", method=True)
def put(input, index, source, accumulate=False):
    """`input` with the elements of `source` written, or added, at the integers `index` into the flattened tensor.

    Raises
    ------
    RuntimeError
        `index` and `source` have not equally many elements, or another dtype.
    """
    if index.numel() != source.numel() or source.dtype != input.dtype:
        raise RuntimeError(
            f"put: source must be {input.dtype} with {index.numel()} elements, as index, got {source.dtype} with "
            f"{source.numel()}"
        )
    flat, places = ops.reshape(input, (input.numel(),)), ops.reshape(index, (index.numel(),))
    values = ops.reshape(source, (source.numel(),))
    out = ops.index_write(flat, values, places, spec=(ARRAY,), accumulate=bool(accumulate))
    return ops.reshape(out, input.shape)


@put.samples
def _(make):
    yield make.call(make.normal(2, 3), np.array([[0, 5], [-1, 0]]), make.normal(4))
    yield make.call(make.normal(2, 3), np.array([1, 1]), make.normal(2), accumulate=True)
    yield make.call(make.normal(), np.array(0), make.normal())
    yield make.error(RuntimeError, "as index", make.normal(2), np.array([0]), make.normal(2))
