"""Sorting along a dimension, and the greatest or smallest elements.

(a) NaN counts as the greatest value. Equal elements stay in the order they came in, on every device, whether or not
    that is asked for: the same input gives the same indices.
(b) Gradients go where the values came from. Where elements are equal that is one choice among several.
"""

from typing import Any, NamedTuple

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.dtypes import wide
from plugrad_ops.indexing import cpu
from plugrad_ops.shape.dims import normalize_dim

MOST_KEPT = 1024  # elements that topk keeps in order; for more it sorts


class Sorted(NamedTuple):
    """What `sort` and `topk` return."""

    values: Any
    indices: Any


def order_of(array, axis, descending):
    """The indices that sort an array along an axis."""
    if not descending:
        return np.argsort(array, axis=axis, kind="stable")
    # Reversed twice, so that equal elements keep their order.
    backwards = np.argsort(np.flip(array, axis), axis=axis, kind="stable")
    return np.flip(array.shape[axis] - 1 - backwards, axis)


def near_tie(input, *, tol, dim=-1, **constants):
    """Where an element has another along the dimension that is nearly equal to it."""
    if input.ndim == 0 or not input.size:
        return np.zeros(input.shape, bool)
    axis = normalize_dim("sort", dim, input.ndim)
    order = order_of(input, axis, False)
    close = np.diff(np.take_along_axis(input, order, axis), axis=axis) <= tol
    no = np.zeros_like(np.take(input, [0], axis), bool)
    either = np.concatenate([close, no], axis) | np.concatenate([no, close], axis)
    out = np.zeros(input.shape, bool)
    np.put_along_axis(out, order, either, axis)
    return out


def _sort_meta(input, *, dim=-1, descending=False):
    normalize_dim("sort", dim, input.ndim)
    return [(input.shape, input.dtype), (input.shape, np.dtype(np.int64))]


@operator(
    "standard::sort_dim",
    dtypes="numeric",
    outputs=("values", "indices"),
    nondifferentiable=("indices",),
    infer=_sort_meta,
    kinks=near_tie,
    cuda=".sorting_cuda:sort_dim",
)
def sort_dim(input, *, dim=-1, descending=False):
    """The elements along `dim` in order, and where each was."""
    axis = normalize_dim("sort_dim", dim, input.ndim)
    if not input.ndim:
        return input.copy(), np.zeros((), np.int64)
    order = order_of(input, axis, descending)
    return np.take_along_axis(input, order, axis), order


@sort_dim.backward
def _(grad, indices, like, dim):
    return ops.put_along_dim(grad[0], indices, shape=like.input.shape, dim=dim)


@sort_dim.samples
def _(make):
    yield make.call(make.distinct(5))
    yield make.call(make.distinct(3, 4), dim=0, descending=True)
    yield make.call(make.distinct(2, 3, 2), dim=1)
    yield make.call(make.distinct())
    yield make.call(make.distinct(0, 3), dim=0)
    yield make.error(IndexError, "out of range", make.distinct(3), dim=1)


@composite("standard::sort", method=True, kinks=near_tie)
def sort(input, dim=-1, descending=False, *, stable=False):
    """Named tuple ``(values, indices)``: the elements along `dim` in order, and where each was.

    Parameters
    ----------
    stable : bool
        Whether equal elements keep their order; they do in any case.
    """
    return Sorted(*ops.sort_dim(input, dim=dim, descending=bool(descending)))


@composite("standard::argsort", method=True)
def argsort(input, dim=-1, descending=False, *, stable=False):
    """The indices that sort `input` along `dim`; equal elements keep their order."""
    return ops.sort_dim(input, dim=dim, descending=bool(descending))[1]


def _sort_samples(make):
    yield make.call(make.distinct(5))
    yield make.call(make.distinct(3, 4), dim=0, descending=True)
    yield make.call(make.integers(2, 5, high=3), dim=-1, descending=True)
    yield make.call(make.distinct())
    yield make.call(make.distinct(0, 3), dim=0)
    yield make.error(IndexError, "out of range", make.distinct(3), dim=1)


sort.samples(_sort_samples)
argsort.samples(_sort_samples)


@composite(
    "standard::msort", method=True, kinks=lambda input, *, tol: near_tie(input, tol=tol, dim=0)
)
def msort(input):
    """The elements in order along dimension 0."""
    return ops.sort_dim(input, dim=0)[0]


@msort.samples
def _(make):
    yield make.call(make.distinct(5))
    yield make.call(make.distinct(3, 2))
    yield make.call(make.distinct())


# ---- the first of them ---------------------------------------------------------------------------------------


def top_shape(shape, k, dim):
    """The shape of the result, and the dimension counted from 0.

    Raises
    ------
    RuntimeError
        There are fewer than `k` elements, or `k` is negative.
    """
    axis = normalize_dim("topk", dim, len(shape))
    n = shape[axis] if shape else 1
    if not 0 <= k <= n:
        raise RuntimeError(
            f"topk: k must lie between 0 and {n}, got {k} for shape {tuple(shape)}, dim {dim}"
        )
    return ((*shape[:axis], k, *shape[axis + 1 :]) if shape else ()), axis


def _top_meta(input, *, k, dim=-1, largest=True):
    shape, _ = top_shape(input.shape, k, dim)
    return [(shape, input.dtype), (shape, np.dtype(np.int64))]


def _top(input, *, k, dim=-1, largest=True, out=None):
    """The CPU kernel of `top_dim`: where few of many are wanted they are kept in order while a row is looked through."""
    shape, axis = top_shape(input.shape, k, dim)
    n = input.shape[axis] if input.ndim else 0
    if not (0 < 8 * k < n and k <= MOST_KEPT and input.size):
        return top_dim.function(input, k=k, dim=dim, largest=largest)
    rows = np.moveaxis(input, axis, -1).reshape(-1, n).astype(wide(input.dtype), copy=False)
    found = cpu.first_of_rows(rows, k, largest).reshape(*shape[:axis], *shape[axis + 1 :], k)
    order = np.ascontiguousarray(np.moveaxis(found, -1, axis))
    return np.take_along_axis(input, order, axis), order


@operator(
    "standard::top_dim",
    dtypes="numeric",
    outputs=("values", "indices"),
    nondifferentiable=("indices",),
    infer=_top_meta,
    kinks=near_tie,
    cpu=_top,
    cuda=".sorting_cuda:top_dim",
)
def top_dim(input, *, k, dim=-1, largest=True):
    """The `k` greatest (or smallest) elements along `dim` in order, and where each was."""
    _, axis = top_shape(input.shape, k, dim)
    if not input.ndim:
        return input.copy(), np.zeros((), np.int64)
    order = order_of(input, axis, largest)[(slice(None),) * axis + (slice(k),)]
    return np.take_along_axis(input, order, axis), np.ascontiguousarray(order)


@top_dim.backward
def _(grad, indices, like, dim):
    return ops.put_along_dim(grad[0], indices, shape=like.input.shape, dim=dim)


@top_dim.samples
def _(make):
    yield make.call(make.distinct(5), k=2)
    yield make.call(make.distinct(18, 2), k=2, dim=0, largest=False)
    yield make.call(make.distinct(2, 9), k=1)
    yield make.call(make.distinct(), k=1)
    yield make.call(make.distinct(2, 3), k=0)
    yield make.call(make.distinct(0, 3), k=2)
    yield make.error(RuntimeError, "between 0 and 3", make.distinct(3), k=4)
    yield make.error(IndexError, "out of range", make.distinct(3), k=1, dim=1)


@composite("standard::topk", method=True, kinks=near_tie)
def topk(input, k, dim=-1, largest=True, sorted=True):
    """Named tuple ``(values, indices)``: the `k` greatest, or smallest, elements along `dim`.

    They come in order, whether or not `sorted` asks for that; of equal elements the first ones are taken.

    Raises
    ------
    RuntimeError
        There are fewer than `k` elements.
    """
    return Sorted(*ops.top_dim(input, k=int(k), dim=dim, largest=bool(largest)))


@topk.samples
def _(make):
    yield make.call(make.distinct(5), k=2)
    yield make.call(make.distinct(3, 4), k=1, dim=0, largest=False)
    yield make.call(make.integers(2, 20, high=4), k=2)
    yield make.call(make.distinct(), k=1)
    yield make.call(make.distinct(0, 3), k=2)
    yield make.error(RuntimeError, "between 0 and 3", make.distinct(3), k=4)
