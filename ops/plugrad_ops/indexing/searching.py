"""Searching in sorted numbers, and membership."""

import numpy as np

from plugrad import composite, from_numpy, on_tensors, operator, ops
from plugrad.backends.dtypes import kind


def _check_sequences(boundaries, values):
    if boundaries.ndim != 1 and boundaries.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            "searchsorted: the sorted sequence must be 1-d, or agree with the values in all dimensions but the last; got "
            f"shapes {tuple(boundaries.shape)} and {tuple(values.shape)}"
        )


def _search_meta(boundaries, values, *, right=False):
    if not boundaries.ndim:
        raise RuntimeError("search_rows: the sorted sequence must not be 0-d")
    _check_sequences(boundaries, values)
    return values.shape, np.dtype(np.int64)


@operator(
    "standard::search_rows",
    dtypes="numeric",
    nondifferentiable=True,
    infer=_search_meta,
    cuda=".selecting_cuda:search_rows",
)
def search_rows(boundaries, values, *, right=False):
    """For each value the first position in its sorted row at which it could stand, or with `right` the last.

    NaN counts as the greatest value.
    """
    _search_meta(boundaries, values, right=right)
    if boundaries.ndim == 1:
        return np.searchsorted(boundaries, values, "right" if right else "left").astype(np.int64)
    return _bisected(boundaries, values, right)


def _bisected(boundaries, values, right):
    """Bisection of every row at once."""
    low = np.zeros(values.shape, np.int64)
    high = np.full(values.shape, boundaries.shape[-1], np.int64)
    for _ in range(int(boundaries.shape[-1]).bit_length()):
        middle = (low + high) // 2
        open_ = low < high
        there = np.take_along_axis(boundaries, np.where(open_, middle, 0), -1)
        ahead = there <= values if right else there < values
        if kind(values.dtype) == "f":
            none = np.isnan(values)
            ahead |= none if right else none & ~np.isnan(there)
        low = np.where(open_ & ahead, middle + 1, low)
        high = np.where(open_ & ~ahead, middle, high)
    return low


@search_rows.samples
def _(make):
    rows = np.sort(make.distinct(2, 5))
    yield make.call(rows[0], make.normal(2, 3))
    yield make.call(rows, make.normal(2, 3), right=True)
    yield make.call(np.array([1.0, 2.0, 2.0, np.nan]), np.array([2.0, np.nan, -np.inf, 7.0]))
    yield make.call(np.array([1, 3, 3, 9]), np.array(3), right=True)
    yield make.call(np.zeros((2, 0)), make.normal(2, 2))
    yield make.error(RuntimeError, "agree", rows, make.normal(3, 2))


@composite("standard::searchsorted")
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """For each element the position at which it would keep the sequence sorted.

    Parameters
    ----------
    sorted_sequence : Tensor
        Sorted along its last dimension; 1-d, or of the shape of `input` up to there.
    input : Tensor or number
    right : bool
        Give the last such position in place of the first; also ``side="right"``.
    sorter : Tensor, optional
        Indices that sort the sequence along its last dimension.

    Raises
    ------
    RuntimeError
        Shapes do not fit, or `right` and `side` contradict each other.
    """
    if side is not None and (side not in ("left", "right") or (side == "left" and right)):
        raise RuntimeError(
            f"searchsorted: side must be 'left' or 'right', and agree with right={right}, got {side!r}"
        )
    if not sorted_sequence.ndim:
        raise RuntimeError("searchsorted: the sorted sequence must not be 0-d")
    if not hasattr(input, "array"):
        if sorted_sequence.ndim != 1:
            raise RuntimeError(
                f"searchsorted: a number is searched in a 1-d sequence, got shape {sorted_sequence.shape}"
            )
        input = _number(input, sorted_sequence)
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise RuntimeError(
                f"searchsorted: sorter must have the shape {sorted_sequence.shape} of the sequence, got {sorter.shape}"
            )
        sorted_sequence = ops.take_along_dim(sorted_sequence, sorter, dim=-1)
    out = ops.search_rows(sorted_sequence, input, right=bool(right) or side == "right")
    return ops.cast(out, dtype=np.dtype(np.int32)) if out_int32 else out


def _number(value, like):
    """A number as a 0-d tensor; next to integers, one that is no integer stays what it is."""
    floating = isinstance(value, float) and kind(like.dtype) != "f"
    array = np.asarray(value, np.float64 if floating else None)
    return from_numpy(array if floating else array.astype(like.dtype)).to(like.device)


@searchsorted.samples
def _(make):
    rows = np.sort(make.distinct(2, 5))
    yield make.call(rows[0], make.normal(2, 3))
    yield make.call(rows, make.normal(2, 3), right=True, out_int32=True)
    yield make.call(np.array([3.0, 1.0, 2.0]), 2.5, sorter=np.array([1, 2, 0]))
    yield make.error(RuntimeError, "agree", rows, make.normal(3, 2))
    yield make.error(
        RuntimeError, "'left' or 'right'", rows[0], make.normal(1), right=True, side="left"
    )


@composite("standard::bucketize")
def bucketize(input, boundaries, *, out_int32=False, right=False):
    """For each element the number of the bucket it falls into, between sorted 1-d `boundaries`.

    Parameters
    ----------
    right : bool
        Whether an element equal to a boundary falls into the bucket behind it.
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize: boundaries must be 1-d, got shape {boundaries.shape}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@bucketize.samples
def _(make):
    bounds = np.sort(make.distinct(4))
    yield make.call(make.normal(2, 3), bounds)
    yield make.call(make.normal(3), bounds, right=True)
    yield make.call(np.array([1, 3, 5]), np.array([1, 4]))
    yield make.error(RuntimeError, "1-d", make.normal(3), make.normal(2, 2))


# ---- membership ----------------------------------------------------------------------------------------------


def _among(elements, test_elements):
    """By searching among the sorted ones."""
    known = ops.sort(ops.reshape(test_elements, (test_elements.numel(),)))[0]
    if not known.shape[0]:
        return ops.cast(ops.zeros_like(elements), dtype=np.dtype(bool))
    flat = ops.reshape(elements, (elements.numel(),))
    place = ops.clamp(ops.search_rows(known, flat), None, known.shape[0] - 1)
    return ops.reshape(ops.index_select(known, 0, place) == flat, elements.shape)


@operator(
    "standard::is_among",
    dtypes="numeric",
    nondifferentiable=True,
    infer=lambda elements, test_elements: (elements.shape, np.dtype(bool)),
    cuda=on_tensors(_among),
)
def is_among(elements, test_elements):
    """For each element whether it is equal to one of the others; NaN never is."""
    return np.isin(elements, test_elements)


@is_among.samples
def _(make):
    yield make.call(make.integers(3, 4, high=5), make.integers(3, high=5))
    yield make.call(np.array([1.0, np.nan, 0.5]), np.array([[np.nan, 0.5], [2.0, 3.0]]))
    yield make.call(make.integers(high=3), make.integers(0, high=3))
    yield make.call(make.booleans(3), np.array([True]))


@composite("standard::isin")
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """For each element whether it is among the others, or with `invert` whether it is not; one of the two may be a number."""
    if not hasattr(elements, "array"):
        elements = _number(elements, test_elements)
    elif not hasattr(test_elements, "array"):
        test_elements = _number(test_elements, elements)
    out = ops.is_among(elements, test_elements)
    return ops.logical_not(out) if invert else out


@isin.samples
def _(make):
    yield make.call(make.integers(3, 4, high=5), make.integers(3, high=5))
    yield make.call(make.integers(4, high=3), 2, invert=True)
    yield make.call(2, make.integers(4, high=3))
