"""Products and extremes of what goes to one place along a dimension: `fold_along_dim`."""

import numpy as np

from plugrad import operator, ops
from plugrad.backends.dtypes import kind, wide
from plugrad_ops.indexing.along import _along_shape, _flat_positions
from plugrad_ops.indexing.placing import numbered
from plugrad_ops.indexing.spec import require_shape

UFUNCS = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def identity(fold, dtype):
    """What changes no value it is combined with."""
    if fold == "prod":
        return 1
    if kind(dtype) == "f":
        return -np.inf if fold == "amax" else np.inf
    if dtype.kind == "b":
        return fold == "amin"
    info = np.iinfo(dtype)
    return info.min if fold == "amax" else info.max


def check_fold(input, indices, src, dim, fold):
    """The dimension counted from 0; everything else must fit.

    Raises
    ------
    RuntimeError
        Shapes do not fit.
    ValueError
        There is no such `fold`.
    """
    if fold not in UFUNCS:
        raise ValueError(f"fold_along_dim: fold must be one of {', '.join(UFUNCS)}, got {fold!r}")
    seen, dim = _along_shape("fold_along_dim", input.shape, indices.shape, dim)
    require_shape("fold_along_dim", src.shape, seen)
    return dim


def _meta(input, indices, src, *, dim, fold, include_self=True):
    check_fold(input, indices, src, dim, fold)
    return input.shape, input.dtype


def _near_tie(input, indices, src, *, tol, dim, fold, include_self=True):
    """Where an element of `input` is of a place in which two of the elements that count are the extreme, or nearly."""
    if fold == "prod" or not input.size:
        return np.zeros(input.shape, bool)
    where = _flat_positions("fold_along_dim", input.shape, indices, dim % max(input.ndim, 1))
    where = np.broadcast_to(where, src.shape).ravel()
    touched = np.zeros(input.size, bool)
    touched[where] = True
    best = input.ravel().copy()
    best[touched & (not include_self)] = identity(fold, input.dtype)
    counts = (~touched | include_self) * 1
    UFUNCS[fold].at(best, where, src.ravel())
    close = counts * (np.abs(input.ravel() - best) <= tol)
    np.add.at(close, where, np.abs(src.ravel() - best[where]) <= tol)
    return (close > 1).reshape(input.shape)


@operator(
    "standard::fold_along_dim",
    dtypes={"input": "numeric", "indices": "integer", "src": "numeric"},
    infer=_meta,
    kinks=_near_tie,
    cuda=".cuda:fold_along_dim",
)
def fold_along_dim(input, indices, src, *, dim, fold, include_self=True):
    """`input` with `src` combined where `take_along_dim` would read.

    Parameters
    ----------
    fold : {"prod", "amax", "amin"}
    include_self : bool
        Whether the elements of `input` count where something of `src` goes.
    """
    dim = check_fold(input, indices, src, dim, fold)
    where = np.broadcast_to(
        _flat_positions("fold_along_dim", input.shape, indices, dim), src.shape
    ).ravel()
    out = input.astype(wide(input.dtype)).ravel()
    if not include_self:
        out[where] = identity(fold, input.dtype)
    UFUNCS[fold].at(out, where, src.ravel().astype(out.dtype))
    return out.astype(input.dtype).reshape(input.shape)


@fold_along_dim.backward
def _(grad, input, indices, src, out, dim, fold, include_self):
    ones = ops.zeros_like(src) + 1
    touched = ops.add_along_dim(ones, indices, shape=input.shape, dim=dim) > 0
    rule = _product_gradient if fold == "prod" else _extreme_gradient
    to_input, to_src = rule(grad, input, indices, src, out, dim, touched, include_self)
    return to_input, None, to_src


def _extreme_gradient(grad, input, indices, src, out, dim, touched, include_self):
    """Shared equally by all that are the extreme."""
    hit = input == out
    if not include_self:
        hit = ops.logical_and(hit, ops.logical_not(touched))
    hit_src = src == ops.take_along_dim(out, indices, dim=dim)
    counts = ops.cast(hit_src, dtype=grad.dtype)
    count = ops.add_along_dim(counts, indices, shape=input.shape, dim=dim)
    share = grad / (count + ops.cast(hit, dtype=grad.dtype))
    return (
        ops.where(hit, share, 0),
        ops.where(hit_src, ops.take_along_dim(share, indices, dim=dim), 0),
    )


def _product_gradient(grad, input, indices, src, out, dim, touched, include_self):
    """The product of the others: the quotient, or where that loses something the product itself."""
    start = input if include_self else ops.where(touched, 1, input)
    usable = ops.logical_and(ops.isfinite(out), out != 0)
    if bool(ops.all(ops.logical_or(usable, ops.logical_not(touched))).item()):
        to_src = ops.take_along_dim(grad * out, indices, dim=dim) / src
        to_input = ops.where(touched, grad * (out / ops.where(touched, start, 1)), grad)
    else:
        to_input, to_src = _multiplied(grad, start, indices, src, dim)
    return (to_input if include_self else ops.where(touched, 0, to_input)), to_src


def _multiplied(grad, input, indices, src, dim):
    """Each element's gradient as the product of those before and after it that go to the same place."""
    count = input.numel()
    everywhere = numbered(input.shape, input.device)
    keys = ops.reshape(ops.take_along_dim(everywhere, indices, dim=dim), (-1,))
    keys = ops.cat([ops.reshape(everywhere, (-1,)), keys])
    values = ops.cat([ops.reshape(input, (-1,)), ops.reshape(src, (-1,))])
    keys, order = ops.sort(keys)
    values = ops.index_select(values, 0, order)
    same = keys[1:] == keys[:-1]
    before = _running(values[:-1], same)
    after = ops.flip(_running(ops.flip(values[1:], 0), ops.flip(same, 0)), 0)
    others = before * after * ops.index_select(ops.reshape(grad, (-1,)), 0, keys)
    found = ops.put_along_dim(others, order, shape=others.shape, dim=0)
    return ops.reshape(found[:count], input.shape), ops.reshape(found[count:], src.shape)


def _running(values, same):
    """The product of what came before each element since its key began; 1 where it begins."""
    dtype = values.dtype
    ones = ops.zeros_like(values[:1]) + 1
    factor = ops.cat([ones, ops.where(same, values, 0)])
    term = ops.cat([ones, ops.cast(ops.logical_not(same), dtype=dtype)])
    return ops.linear_scan(factor, term, dim=0)


@fold_along_dim.samples
def _(make):
    index = np.array([[0, 2, 0], [1, 1, 1]])
    yield make.call(make.normal(2, 3), index, make.normal(2, 3), dim=1, fold="prod")
    yield make.call(make.normal(3, 3), index, make.normal(2, 3), dim=0, fold="amax")
    yield make.call(
        make.distinct(4),
        np.array([2, 0, 2]),
        make.distinct(3),
        dim=0,
        fold="amin",
        include_self=False,
    )
    yield make.call(
        make.values([2.0, 3.0, 5.0]),
        np.array([0, 0, 1]),
        make.values([0.0, 2.0, 3.0]),
        dim=0,
        fold="prod",
    )
    yield make.call(make.normal(), np.array(0), make.normal(), dim=0, fold="amax")
    yield make.call(make.normal(0), np.zeros(0, np.int64), make.normal(0), dim=0, fold="prod")
    yield make.error(
        IndexError,
        "out of bounds",
        make.normal(2),
        np.array([2]),
        make.normal(1),
        dim=0,
        fold="prod",
    )
    yield make.error(
        ValueError, "one of", make.normal(2), np.array([1]), make.normal(1), dim=0, fold="sum"
    )
    yield make.error(
        RuntimeError, "shape", make.normal(2), np.array([1]), make.normal(2), dim=0, fold="prod"
    )
