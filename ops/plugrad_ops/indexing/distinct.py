"""Distinct elements, or slices, of a tensor: `unique` and `unique_consecutive`.

Both find where a run of equal neighbours begins, `unique` after sorting. The result takes its values, and its gradient,
from one element of each run.
"""

import numpy as np

from plugrad import composite, from_numpy, operator, ops
from plugrad_ops.shape.dims import normalize_dim


def check_matrix(input):
    """Raise unless there are rows to sort."""
    if input.ndim != 2:
        raise RuntimeError(f"lexsort_rows: expected 2 dimensions, got shape {input.shape}")


@operator(
    "standard::lexsort_rows",
    dtypes="numeric",
    nondifferentiable=True,
    infer=lambda input: (input.shape[:1], np.dtype(np.int64)),
    cuda=".sorting_cuda:lexsort_rows",
)
def lexsort_rows(input):
    """The indices that sort the rows of a matrix by their first column, those equal there by the second, and so on.

    Raises
    ------
    RuntimeError
        `input` is no matrix.
    """
    check_matrix(input)
    if not input.shape[1]:
        return np.arange(len(input))
    return np.lexsort(input.T[::-1])


@lexsort_rows.samples
def _(make):
    yield make.call(make.integers(6, 3, high=2))
    yield make.call(make.normal(4, 2))
    yield make.call(make.normal(3, 0))
    yield make.call(make.normal(0, 2))
    yield make.error(RuntimeError, "2 dimensions", make.normal(3))


def _rows(name, input, dim):
    """The slices of `input` along `dim` as rows of a matrix."""
    axis = normalize_dim(name, dim, input.ndim)
    n = input.shape[axis]
    others = (*input.shape[:axis], *input.shape[axis + 1 :])
    if not input.numel() and n and 0 in others:
        raise RuntimeError(
            f"{name}: slices along dim {dim} of shape {input.shape} have no elements to compare"
        )
    moved = ops.movedim(input, axis, 0)
    return ops.reshape(moved, (n, input.numel() // n if n else 0)), axis


def _grouped(name, input, order, rows, axis, return_inverse, return_counts):
    """The result for rows (or elements) that are brought in an order, or stand in it."""
    count = rows.shape[0]
    if not count:
        numbers = from_numpy(np.zeros(0, np.int64)).to(input.device)
        out, ids, counts = input, numbers, numbers
    else:
        found = rows if order is None else ops.index_select(rows, 0, order)
        differs = ops.ne(ops.narrow(found, 0, 1, count - 1), ops.narrow(found, 0, 0, count - 1))
        if rows.ndim == 2:
            differs = ops.any(differs, dim=1)
        differs = ops.cat([from_numpy(np.ones(1, bool)).to(input.device), differs])
        starts = ops.reshape(ops.nonzero_positions(differs), (-1,))
        firsts = starts if order is None else ops.index_select(order, 0, starts)
        out = ops.index_select(input, axis, firsts)
        ids = ops.cumsum(differs, dim=0) - 1
        if order is not None and return_inverse:
            ids = ops.put_along_dim(ids, order, shape=(count,), dim=0)
        end = from_numpy(np.array([count])).to(input.device)
        counts = ops.cat([ops.narrow(starts, 0, 1, starts.shape[0] - 1), end]) - starts
    more = (ids,) * bool(return_inverse) + (counts,) * bool(return_counts)
    return (out, *more) if more else out


def _with_shape(result, shape, return_inverse):
    """The inverse, which is the second of several results, in the shape of the tensor."""
    if not return_inverse:
        return result
    return (result[0], ops.reshape(result[1], shape), *result[2:])


@composite("standard::unique", method=True)
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements in order, or the distinct slices along `dim`.

    Parameters
    ----------
    sorted : bool
        They are, in any case.
    return_inverse, return_counts : bool
        Whether to give also, for each element, where it is in the result, and how often each one occurred.

    Returns
    -------
    Tensor or tuple of Tensor
    """
    if dim is None:
        flat = ops.reshape(input, (input.numel(),))
        order = ops.argsort(flat, 0)
        found = _grouped("unique", flat, order, flat, 0, return_inverse, return_counts)
        return _with_shape(found, input.shape, return_inverse)
    rows, axis = _rows("unique", input, dim)
    order = ops.lexsort_rows(rows)
    return _grouped("unique", input, order, rows, axis, return_inverse, return_counts)


@composite("standard::unique_consecutive", method=True)
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The first element of each run of equal neighbours, or the first slice along `dim`; see `unique`."""
    if dim is None:
        flat = ops.reshape(input, (input.numel(),))
        found = _grouped("unique_consecutive", flat, None, flat, 0, return_inverse, return_counts)
        return _with_shape(found, input.shape, return_inverse)
    rows, axis = _rows("unique_consecutive", input, dim)
    return _grouped("unique_consecutive", input, None, rows, axis, return_inverse, return_counts)


def _repeating(make):
    yield make.call(make.integers(3, 4, high=4), return_inverse=True, return_counts=True)
    yield make.call(make.integers(6, 2, high=2), return_inverse=True, dim=0)
    yield make.call(make.distinct(4))
    yield make.call(make.integers(2, 5, high=2), return_counts=True, dim=-1)
    yield make.call(make.integers(0, high=2), return_inverse=True, return_counts=True)
    yield make.error(RuntimeError, "no elements", make.integers(2, 0, high=2), dim=0)


unique.samples(_repeating)
unique_consecutive.samples(_repeating)
