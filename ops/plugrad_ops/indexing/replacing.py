"""A copy of a tensor with another one in the place of a view: the adjoint partners of `select`, slices and `diagonal`."""

import numpy as np

from plugrad import composite, from_numpy, ops
from plugrad_ops.indexing.scattering import _same_dtype
from plugrad_ops.shape.dims import normalize_dim

WHOLE = (None, None, None)


def _replaced(name, input, src, dim, entry):
    """`input` with `src` at an entry of an index into dimension `dim`."""
    axis = normalize_dim(name, dim, input.ndim)
    if not input.ndim:
        raise IndexError(f"{name}: a 0-d tensor has no dimension to write to")
    index = (*(WHOLE,) * axis, entry)
    place = ops.slice(input, index=index).shape
    if src.shape != place:
        raise RuntimeError(
            f"{name}: src must have the shape {place} of what it replaces, got {src.shape}"
        )
    _same_dtype(name, input, src, "src")
    return ops.index_write(input, src, spec=index)


@composite("standard::select_scatter", method=True)
def select_scatter(input, src, dim, index):
    """`input` with `src` at position `index` of dimension `dim`.

    Raises
    ------
    RuntimeError
        `src` has not the shape of ``input.select(dim, index)``, or another dtype.
    """
    return _replaced("select_scatter", input, src, dim, int(index))


@select_scatter.samples
def _(make):
    yield make.call(make.normal(3, 4), make.normal(4), 0, 1)
    yield make.call(make.normal(2, 3, 4), make.normal(2, 4), -2, -1)
    yield make.call(make.normal(0, 2), make.normal(0), 1, 0)
    yield make.error(RuntimeError, "must have the shape", make.normal(3, 4), make.normal(3), 0, 1)
    yield make.error(IndexError, "out of bounds", make.normal(3), make.normal(), 0, 3)


@composite("standard::slice_scatter", method=True)
def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    """`input` with `src` at the slice ``start:end:step`` of dimension `dim`.

    Raises
    ------
    RuntimeError
        `src` has not the shape of that slice, or another dtype.
    """
    return _replaced("slice_scatter", input, src, dim, (start, end, step))


@slice_scatter.samples
def _(make):
    yield make.call(make.normal(5, 2), make.normal(2, 2), 0, 1, 5, 2)
    yield make.call(make.normal(2, 3), make.normal(2, 1), -1, start=-1)
    yield make.call(make.normal(3), make.normal(0), 0, 2, 2)
    yield make.error(RuntimeError, "must have the shape", make.normal(3), make.normal(2), 0, 0, 1)


@composite("standard::diagonal_scatter", method=True)
def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    """`input` with `src` on a diagonal of two dimensions; see `diagonal`.

    Raises
    ------
    RuntimeError
        `src` has not the shape of that diagonal, or another dtype.
    """
    place = ops.diagonal(input, offset, dim1, dim2).shape
    if src.shape != place:
        raise RuntimeError(
            f"diagonal_scatter: src must have the shape {place} of the diagonal it replaces, got {src.shape}"
        )
    _same_dtype("diagonal_scatter", input, src, "src")
    everywhere = from_numpy(np.ones(place, bool)).to(input.device)
    there = ops.diagonal_adjoint(everywhere, input.shape, offset, dim1, dim2)
    return ops.where(there, ops.diagonal_adjoint(src, input.shape, offset, dim1, dim2), input)


@diagonal_scatter.samples
def _(make):
    yield make.call(make.normal(3, 3), make.normal(3))
    yield make.call(make.normal(2, 4, 3), make.normal(3, 2), 1, 0, 1)
    yield make.call(make.normal(4, 2, 3), make.normal(2, 2), -1, -1, 0)
    yield make.call(make.normal(0, 2), make.normal(0))
    yield make.error(RuntimeError, "must have the shape", make.normal(3, 3), make.normal(2))
