"""CUDA launchers of sorting: rows in C order, each sorted by itself."""

from __future__ import annotations

import numpy as np

from plugrad.backends.cuda.array import as_strided, contiguous, copied, from_host, view_by
from plugrad.backends.cuda.sort import sort_rows
from plugrad_ops.cuda_source import zeros
from plugrad_ops.indexing.addressing import addresses
from plugrad_ops.indexing.cuda import _gathered
from plugrad_ops.indexing.distinct import check_matrix
from plugrad_ops.indexing.sorting import top_shape
from plugrad_ops.indexing.spec import ARRAY
from plugrad_ops.shape.dims import normalize_dim


def sort_dim(input, *, dim=-1, descending=False):
    """The kernel of ``standard::sort_dim``."""
    axis = normalize_dim("sort_dim", dim, input.ndim)
    if not input.ndim:
        return copied(input), zeros((), np.int64)
    return tuple(contiguous(x) for x in _sorted(input, axis, descending))


def top_dim(input, *, k, dim=-1, largest=True):
    """The kernel of ``standard::top_dim``."""
    _, axis = top_shape(input.shape, k, dim)
    if not input.ndim:
        return copied(input), zeros((), np.int64)
    first = (slice(None),) * axis + (slice(k),)
    found = _sorted(input, axis, largest)
    return tuple(copied(view_by(lambda ghost: ghost[first], x)) for x in found)


def _sorted(input, axis, descending):
    """Values and indices, sorted along an axis, in any layout."""
    behind = contiguous(view_by(np.moveaxis, input, axis, -1))
    n = behind.shape[-1]
    rows = as_strided(
        behind, (behind.size // max(n, 1), n), (n * behind.dtype.itemsize, behind.dtype.itemsize)
    )
    found = sort_rows(rows, descending)
    return tuple(
        view_by(lambda ghost: np.moveaxis(ghost.reshape(behind.shape), -1, axis), x) for x in found
    )


def lexsort_rows(input):
    """The kernel of ``standard::lexsort_rows``: sorted by every column, the last one first, keeping what is equal."""
    check_matrix(input)
    rows, columns = input.shape
    order = None
    for column in reversed(range(columns)):
        keys = view_by(lambda ghost, c=column: ghost[:, c], input)
        if order is not None:
            keys = _taken(keys, order)
        line = contiguous(keys)
        _, moved = sort_rows(
            as_strided(line, (1, rows), (rows * line.dtype.itemsize, line.dtype.itemsize))
        )
        moved = as_strided(moved, (rows,), (8,))
        order = moved if order is None else _taken(order, moved)
    return from_host(np.arange(rows)) if order is None else order


def _taken(array, positions):
    found = addresses("lexsort_rows", array, (ARRAY,), [positions])
    return _gathered("lexsort_rows", found, array.dtype)
