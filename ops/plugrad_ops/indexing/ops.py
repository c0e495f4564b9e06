"""Reading at an index: what ``x[...]`` is made of.

Basic indexing (integers, slices, None, Ellipsis) is the view `slice`; indexing with integer arrays is the copy `index`.
Their adjoints, `slice_adjoint` and `index_accumulate`, are operators whose rules are `slice` and `index` again, so there
is a derivative of any order.
"""

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.indexing.spec import (
    ARRAY,
    WHOLE,
    ScalarMask,
    add_at,
    add_rows,
    indexed_shape,
    opened,
    parse_index,
    positions,
    read,
    require_shape,
)
from plugrad_ops.shape.dims import normalize_dim

# ---- reading -------------------------------------------------------------------------------------------------


@composite("standard::getitem")
def getitem(input, index):
    """``input[index]`` as NumPy defines it: a view for integers, slices, None and Ellipsis, else a copy."""
    if type(index) is int:
        return ops.slice(input, index=(index,))
    try:
        spec, arrays = parse_index(index, input)
    except ScalarMask:
        index, input = opened(index, input)
        spec, arrays = parse_index(index, input)
    return ops.index(input, *arrays, spec=spec) if arrays else ops.slice(input, index=spec)


@getitem.samples
def _(make):
    yield make.call(make.normal(3, 4), index=1)
    yield make.call(make.normal(3, 4), index=(slice(None, None, -2), None, Ellipsis, -1))
    yield make.call(make.normal(3, 4), index=([0, 0, 2],))
    yield make.call(make.normal(3, 4), index=(slice(1, 3), [3, 0]))
    yield make.call(make.normal(2, 3, 4), index=(0, slice(None), [3, 0]))
    yield make.call(make.normal(2), index=[True, False])
    yield make.call(make.normal(), index=Ellipsis)
    yield make.call(make.normal(2, 3), index=(slice(None), True, [0, 2]))
    yield make.call(make.normal(0, 3), index=(slice(None), 0))
    yield make.error(IndexError, "out of bounds", make.normal(3), index=3)
    yield make.error(IndexError, "too many indices", make.normal(3), index=(0, 0))
    yield make.error(IndexError, "mask", make.normal(3), index=[True, False])
    yield make.error(IndexError, "integers or bools", make.normal(3), index=[0.5])
    yield make.error(TypeError, "integer, slice", make.normal(3), index="a")


@operator(
    "standard::slice",
    dtypes="any",
    infer=lambda input, *, index: (indexed_shape("slice", input.shape, index), input.dtype),
    view_of="input",
)
def slice_(input, *, index):
    """The view of `input` at `index`: integers, ``(start, stop, step)`` for slices, None, Ellipsis.

    Raises
    ------
    IndexError
        An integer lies outside its dimension, or there are more indices than dimensions.
    """
    return read("slice", input, index)


@slice_.backward
def _(grad, like, index):
    return ops.slice_adjoint(grad, shape=like.input.shape, index=index)


@slice_.samples
def _(make):
    yield make.call(make.normal(3, 4), index=(1,))
    yield make.call(make.normal(3, 4), index=((None, None, -2), None, Ellipsis, -1))
    yield make.call(make.normal(3, 4), index=((0, 0, 1),))
    yield make.call(make.normal(), index=(None,))
    yield make.call(make.normal(0, 3), index=(Ellipsis, 0))
    yield make.error(IndexError, "out of bounds", make.normal(3), index=(3,))
    yield make.error(IndexError, "too many", make.normal(3), index=(0, 0))


def _slice_adjoint_meta(input, *, shape, index):
    require_shape("slice_adjoint", input.shape, indexed_shape("slice_adjoint", shape, index))
    return tuple(shape), input.dtype


@operator(
    "standard::slice_adjoint",
    dtypes="any",
    infer=_slice_adjoint_meta,
    cuda="plugrad_ops.shape.cuda:slice_adjoint",
)
def slice_adjoint(input, *, shape, index):
    """Zeros of `shape` with `input` in the place that `slice` would read."""
    out = np.zeros(shape, input.dtype)
    place = read("slice_adjoint", out, index)
    require_shape("slice_adjoint", input.shape, place.shape)
    place[...] = input
    return out


@slice_adjoint.backward
def _(grad, index):
    return ops.slice(grad, index=index)


@slice_adjoint.samples
def _(make):
    yield make.call(make.normal(4), shape=(3, 4), index=(1,))
    yield make.call(make.normal(2, 1), shape=(3,), index=((None, None, 2), None))
    yield make.call(make.normal(), shape=(3,), index=(-1,))
    yield make.call(make.normal(0), shape=(0, 3), index=(Ellipsis, 0))
    yield make.error(RuntimeError, "shape", make.normal(3), shape=(3, 4), index=(1,))


def _index_meta(input, *indices, spec):
    return indexed_shape("index", input.shape, spec, [i.shape for i in indices]), input.dtype


@operator(
    "standard::index",
    dtypes={"input": "any", "indices": "integer"},
    infer=_index_meta,
    cuda=".cuda:index",
)
def index(input, *indices, spec):
    """The elements of `input` at integer arrays, with NumPy's meaning; `spec` says which array goes where.

    Raises
    ------
    IndexError
        An index lies outside its dimension, or index arrays do not broadcast.
    """
    return np.asarray(read("index", input, spec, indices), order="C")


@index.backward
def _(grad, indices, like, spec):
    out = ops.index_accumulate(grad, *indices, shape=like.input.shape, spec=spec)
    return (out, *(None for _ in indices))


@index.samples
def _(make):
    yield make.call(make.normal(3), make.integers(4, high=3), spec=(ARRAY,))
    yield make.call(make.normal(3, 4), make.integers(2, 2, low=-3, high=3), spec=(ARRAY,))
    yield make.call(
        make.normal(3, 2, 4),
        make.integers(3, high=3),
        make.integers(1, high=4),
        spec=(ARRAY, WHOLE, ARRAY),
    )
    yield make.call(make.normal(2, 3), make.integers(3, high=3), spec=(0, None, ARRAY))
    yield make.call(make.normal(3), make.integers(0, high=3), spec=(ARRAY,))
    yield make.call(make.normal(2, 0), make.integers(3, high=2), spec=(ARRAY,))
    yield make.error(IndexError, "out of bounds", make.normal(3), np.array([0, 3]), spec=(ARRAY,))


def _accumulate_meta(input, *indices, shape, spec):
    seen = indexed_shape("index_accumulate", shape, spec, [i.shape for i in indices])
    require_shape("index_accumulate", input.shape, seen)
    return tuple(shape), input.dtype


@operator(
    "standard::index_accumulate",
    dtypes={"input": "any", "indices": "integer"},
    infer=_accumulate_meta,
    cuda=".cuda:index_accumulate",
)
def index_accumulate(input, *indices, shape, spec):
    """Zeros of `shape` with `input` added where `index` would read; what meets at one position adds up."""
    axis = _alone(spec, indices)
    if axis is not None:
        rows = positions("index_accumulate", shape[axis : axis + 1], (ARRAY,), indices)
        require_shape(
            "index_accumulate", input.shape, (*shape[:axis], *rows.shape, *shape[axis + 1 :])
        )
        if len(shape) > 1:
            moved = add_rows(shape[axis], rows, np.moveaxis(input, axis, 0), input.dtype)
            return np.ascontiguousarray(np.moveaxis(moved, 0, axis))
    else:
        rows = positions("index_accumulate", shape, spec, indices)
        require_shape("index_accumulate", input.shape, rows.shape)
    return add_at(int(np.prod(shape)), rows, input, input.dtype).reshape(shape)


def _alone(spec, indices):
    """The dimension of the only array of indices, if that is 1-d and stands next to whole dimensions only."""
    if len(indices) != 1 or indices[0].ndim != 1 or any(e not in (ARRAY, WHOLE) for e in spec):
        return None
    return spec.index(ARRAY)


@index_accumulate.backward
def _(grad, indices, spec):
    return (ops.index(grad, *indices, spec=spec), *(None for _ in indices))


@index_accumulate.samples
def _(make):
    yield make.call(make.normal(4), make.integers(4, high=3), shape=(3,), spec=(ARRAY,))
    yield make.call(make.normal(5, 2), make.integers(5, high=3), shape=(3, 2), spec=(ARRAY,))
    yield make.call(make.normal(2, 3), make.integers(3, high=4), shape=(2, 4), spec=(WHOLE, ARRAY))
    yield make.call(make.normal(0), make.integers(0, high=3), shape=(3,), spec=(ARRAY,))
    yield make.error(
        RuntimeError, "shape", make.normal(3), make.integers(4, high=3), shape=(3,), spec=(ARRAY,)
    )


@composite("standard::index_select", method=True)
def index_select(input, dim, index):
    """The positions `index` (integers, 1-d) of dimension `dim`, in that order."""
    if index.ndim > 1:
        raise IndexError(f"index_select: index must be 0-d or 1-d, got shape {index.shape}")
    dim = normalize_dim("index_select", dim, input.ndim)
    if not input.ndim:
        return ops.reshape(ops.index(ops.reshape(input, (1,)), index, spec=(ARRAY,)), ())
    return ops.index(input, ops.reshape(index, (-1,)), spec=(WHOLE,) * dim + (ARRAY,))


@index_select.samples
def _(make):
    yield make.call(make.normal(3, 4), dim=0, index=make.integers(5, high=3))
    yield make.call(make.normal(3, 4), dim=-1, index=make.integers(2, high=4))
    yield make.call(make.normal(0, 4), dim=1, index=make.integers(2, high=4))
    yield make.call(make.normal(), dim=0, index=np.array([0]))
    yield make.error(IndexError, "0-d or 1-d", make.normal(3), dim=0, index=make.integers(2, 2))
