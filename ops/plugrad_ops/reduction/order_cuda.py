"""CUDA launchers of order statistics: rows are sorted, and read at their ranks."""

from __future__ import annotations

import numpy as np

from plugrad.backends.cuda.array import as_strided, contiguous, empty
from plugrad.backends.cuda.reduction import Reduction
from plugrad.backends.cuda.sort import sort_rows
from plugrad_ops.expressions import kernel
from plugrad_ops.indexing.cuda import take_along_dim
from plugrad_ops.reduction.order import _check_ranks
from plugrad_ops.shape.dims import normalize_dim

CHOSEN = "last != last ? last : middle"  # NaN is sorted to the end


def median_of_all(input):
    """The kernel of ``standard::median_of_all``."""
    if not input.size:
        raise RuntimeError(
            f"median: a tensor of shape {input.shape} has no elements to choose from"
        )
    size = input.dtype.itemsize
    row = as_strided(contiguous(input), (1, input.size), (input.size * size, size))
    values, _ = sort_rows(row)
    last = as_strided(values, (), (), (input.size - 1) * size)
    middle = as_strided(values, (), (), (input.size - 1) // 2 * size)
    return kernel(CHOSEN, "last", "middle")(last, middle)


MISSING = Reduction(
    map="x != x ? 1 : 0",
    combine="a + b",
    identity="0",
    acc="i64",
    out_dtype=np.int64,
    name="missing",
)
MIDDLE = "missing > 0 ? n - missing : middle"
LEFT = "missing < n ? (n - missing - 1) / 2 : 0"


def middle_rank(input, *, dim, skip=False):
    """The kernel of ``standard::middle_rank``."""
    axis = normalize_dim("middle_rank", dim, len(input.shape))
    n = input.shape[axis]
    missing = MISSING(input, (axis,), True)
    if skip:
        return kernel(LEFT, "missing", constants=("n",))(missing, n=n)
    return kernel(MIDDLE, "missing", constants=("n", "middle"))(
        missing, n=n, middle=max(n - 1, 0) // 2
    )


def order_statistic(input, ranks, *, dim):
    """The kernel of ``standard::order_statistic``."""
    axis = _check_ranks(input, ranks, dim)
    if not ranks.size:
        return empty(ranks.shape, input.dtype), empty(ranks.shape, np.dtype(np.int64))
    n = input.shape[axis]
    if not n:
        raise IndexError(f"order_statistic: dim={dim} has no elements, and so no ranks")
    rows = contiguous(_with_last(input, axis))
    flat = as_strided(rows, (rows.size // n, n), (n * rows.dtype.itemsize, rows.dtype.itemsize))
    values, order = sort_rows(flat)
    places = _with_last(ranks, axis)
    try:
        found = [take_along_dim(_shaped(x, rows), places, dim=-1) for x in (values, order)]
    except IndexError as error:
        raise IndexError(
            f"order_statistic: ranks must lie between {-n} and {n - 1}: {error}"
        ) from None
    return tuple(_restored(x, axis) for x in found)


def _shaped(flat, like):
    """Contiguous elements in the shape of another array in C order."""
    size, strides = flat.dtype.itemsize, []
    for length in reversed(like.shape):
        strides.append(size)
        size *= length
    return as_strided(flat, like.shape, tuple(reversed(strides)))


def _with_last(array, axis):
    """A view with one axis moved to the end."""
    order = [d for d in range(len(array.shape)) if d != axis] + [axis]
    return as_strided(
        array, tuple(array.shape[d] for d in order), tuple(array.strides[d] for d in order)
    )


def _restored(array, axis):
    """The array of a view whose last axis is moved back."""
    order = list(range(len(array.shape) - 1))
    order.insert(axis, len(array.shape) - 1)
    return contiguous(
        as_strided(
            array, tuple(array.shape[d] for d in order), tuple(array.strides[d] for d in order)
        )
    )
