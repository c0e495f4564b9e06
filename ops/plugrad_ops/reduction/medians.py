"""Medians: of all elements, along a dimension, of what is not NaN."""

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.dtypes import kind
from plugrad_ops.reduction import folds
from plugrad_ops.reduction.extrema import shared_arrays
from plugrad_ops.reduction.order import ranked, with_ranks
from plugrad_ops.shape.dims import normalize_dim

_shares = folds.ExtremeSlopes(shared_arrays)


def _middle_ties(input, *, tol):
    near = np.abs(input - _middle(input)) <= tol
    return near & (np.sum(near) > 1)


def _middle(input):
    if not input.size:
        raise RuntimeError(
            f"median: a tensor of shape {input.shape} has no elements to choose from"
        )
    if np.isnan(input).any():
        return np.asarray(np.nan, input.dtype)
    middle = (input.size - 1) // 2
    return np.partition(input, middle, axis=None)[middle]


def _chosen_middle(input):
    """`_middle` for the CPU; of elements in any order."""
    if not input.size or input.dtype.char not in "fd":
        return _middle(input)
    row = input.ravel("K")
    if np.isnan(row).any():
        return np.asarray(np.nan, input.dtype)
    return ranked(row, np.array([(row.size - 1) // 2]), dim=0)[0].reshape(())


@operator(
    "standard::median_of_all",
    dtypes="numeric",
    infer=lambda input: ((), input.dtype),
    kinks=_middle_ties,
    cpu=_chosen_middle,
    cuda=".order_cuda:median_of_all",
)
def median_of_all(input):
    """The middle element of all, the lower one of an even number; elements equal to it share the gradient.

    Raises
    ------
    RuntimeError
        There is no element to choose from.
    """
    return _middle(input)


@median_of_all.backward
def _(grad, input, out):
    hit = (input == out) | (ops.isnan(input) & ops.isnan(out))
    hit = ops.cast(hit, dtype=input.dtype)
    return grad * (hit / ops.sum(hit))


@median_of_all.backward_kernel
def _(grad, input, out):
    return _shares(grad, input, out, None, False)


@median_of_all.samples
def _(make):
    yield make.call(make.distinct(5))
    yield make.call(make.distinct(2, 3))
    yield make.call(make.values([1.0, 2.0, 2.0, 3.0]))
    yield make.call(make.distinct())
    yield make.error(RuntimeError, "no elements", make.distinct(0, 3))


def _rank_meta(input, *, dim, skip=False):
    shape = list(input.shape)
    shape[normalize_dim("middle_rank", dim, input.ndim)] = 1
    return tuple(shape), np.dtype(np.int64)


@operator(
    "standard::middle_rank",
    dtypes="numeric",
    nondifferentiable=True,
    infer=_rank_meta,
    cuda=".order_cuda:middle_rank",
)
def middle_rank(input, *, dim, skip=False):
    """The rank of the median along `dim`, the lower one of two: where there are NaN, which follow all numbers, that of the
    first of them or, with `skip`, of the median of what is left; 0 where nothing is.
    """
    n = input.shape[dim]
    none = np.isnan(input) if kind(input.dtype) == "f" else None
    if none is None or not none.any():
        return np.full(_rank_meta(input, dim=dim)[0], max(n - 1, 0) // 2, np.int64)
    missing = np.add.reduce(none, axis=dim, keepdims=True, dtype=np.int64)
    if skip:
        return np.maximum((n - missing - 1) // 2, 0)
    return np.where(missing > 0, n - missing, (n - 1) // 2)


@middle_rank.samples
def _(make):
    gaps = make.values([[np.nan, 1.0, 3.0], [np.nan, 2.0, np.nan], [np.nan, np.nan, np.nan]])
    yield make.call(make.distinct(2, 4), dim=1)
    yield make.call(make.distinct(3, 2), dim=0, skip=True)
    yield make.call(gaps, dim=-1)
    yield make.call(gaps, dim=-1, skip=True)
    yield make.call(make.distinct(0, 3), dim=1)
    yield make.error(IndexError, "out of range", make.distinct(2, 3), dim=2)


def _ranks(skip):
    return lambda input, axis, n: ops.middle_rank(input, dim=axis, skip=skip)


def _median_samples(make):
    yield make.call(make.distinct(5))
    yield make.call(make.distinct(2, 3))
    yield make.call(make.distinct(2, 4), 1)
    yield make.call(make.distinct(3, 2), dim=0, keepdim=True)
    yield make.call(make.distinct(), dim=0)
    yield make.call(make.integers(4), dim=0)
    yield make.error(RuntimeError, "no elements", make.distinct(0, 3))
    yield make.error(RuntimeError, "no elements", make.distinct(0, 3), dim=0)
    yield make.error(IndexError, "out of range", make.distinct(2, 3), dim=2)


@composite("standard::median", method=True)
def median(input, dim=None, keepdim=False):
    """``median(input)``: the middle element of all, the lower one of an even number, ties sharing its gradient;
    ``median(input, dim)``: named tuple ``(values, indices)`` along `dim`. NaN where there is one.
    """
    if dim is None:
        return ops.median_of_all(input)
    return with_ranks("median", input, dim, keepdim, _ranks(False))


median.samples(_median_samples)


@composite("standard::nanmedian", method=True)
def nanmedian(input, dim=None, keepdim=False):
    """`median` of the elements that are not NaN; NaN where there is none."""
    if kind(input.dtype) != "f":
        return median(input, dim, keepdim)
    if dim is None:
        return with_ranks("nanmedian", ops.reshape(input, (-1,)), 0, False, _ranks(True)).values
    return with_ranks("nanmedian", input, dim, keepdim, _ranks(True))


@nanmedian.samples
def _(make):
    yield from _median_samples(make)
    yield make.call(make.values([[np.nan, 1.0, 3.0], [np.nan, 2.0, np.nan]]), dim=1)
