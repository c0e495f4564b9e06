"""Order statistics: elements by their rank along a dimension, quantiles.

NaN counts as the greatest value. Of equal elements the one that comes first has the lower rank.
"""

import numpy as np

from plugrad import Tensor, composite, operator, ops
from plugrad.backends.dtypes import kind
from plugrad_ops.reduction import cpu
from plugrad_ops.reduction.extrema import Extremes
from plugrad_ops.shape.dims import normalize_dim, reduced_shape

# ---- by rank -------------------------------------------------------------------------------------------------


def _check_ranks(input, ranks, dim):
    """The axis of `dim`.

    Raises
    ------
    RuntimeError
        Outside `dim` the ranks do not have the shape of the input.
    """
    axis = normalize_dim("order_statistic", dim, input.ndim)
    mine, theirs = [list(x.shape) for x in (input, ranks)]
    if (
        len(mine) != len(theirs)
        or not mine
        or mine[:axis] != theirs[:axis]
        or mine[axis + 1 :] != theirs[axis + 1 :]
    ):
        raise RuntimeError(
            f"order_statistic: outside dim={dim} the ranks must have the shape of the input, {tuple(mine)}, got "
            f"{tuple(theirs)}"
        )
    return axis


def _rank_meta(input, ranks, *, dim):
    _check_ranks(input, ranks, dim)
    return [(ranks.shape, input.dtype), (ranks.shape, np.dtype(np.int64))]


def _close_neighbours(input, ranks, *, tol, dim):
    if not input.size:
        return np.zeros(input.shape, bool)
    order = np.argsort(input, axis=dim)
    gaps = np.diff(np.take_along_axis(input, order, dim), axis=dim) <= tol
    some = np.logical_or.reduce(gaps, axis=dim, keepdims=True)
    return np.broadcast_to(some, input.shape)


def order_statistic(input, ranks, *, dim):
    """The elements that have these ranks in sorted order along `dim`, and where they stand.

    The least has rank 0; negative ranks count from the end, the greatest has -1.

    Raises
    ------
    IndexError
        A rank lies outside the dimension.
    RuntimeError
        Outside `dim` the shapes differ.
    """
    axis = _check_ranks(input, ranks, dim)
    n = input.shape[axis]
    if ranks.size and (ranks.min() < -n or ranks.max() >= n):
        raise IndexError(
            f"order_statistic: ranks must lie between {-n} and {n - 1}, got {ranks.min()} to "
            f"{ranks.max()}"
        )
    if not ranks.size:
        return np.empty(ranks.shape, input.dtype), np.empty(ranks.shape, np.int64)
    ranks = np.where(ranks < 0, ranks + n, ranks)
    if 8 * ranks.shape[axis] < n:
        return _few(input, ranks, axis)
    order = np.argsort(input, axis=axis, kind="stable")
    indices = np.take_along_axis(order, ranks, axis)
    return np.take_along_axis(input, indices, axis), indices


ranked = cpu.Ranked(order_statistic, True)
order_statistic = operator(
    "standard::order_statistic",
    dtypes={"input": "numeric", "ranks": "integer"},
    outputs=("values", "indices"),
    nondifferentiable=("indices",),
    infer=_rank_meta,
    kinks=_close_neighbours,
    cpu=ranked,
    cuda=".order_cuda:order_statistic",
)(order_statistic)


def _few(input, ranks, axis):
    """A few ranks of many elements: values sort several times as fast as positions, which are found afterwards."""
    values = np.take_along_axis(np.sort(input, axis=axis), ranks, axis)
    indices = np.empty(ranks.shape, np.int64)
    for r in range(ranks.shape[axis]):
        this = (*(slice(None),) * axis, slice(r, r + 1))
        value = values[this]
        hit, less = input == value, input < value
        none = np.isnan(value) if input.dtype.kind == "f" else np.zeros(value.shape, bool)
        if none.any():
            hit, less = hit | (none & np.isnan(input)), less | (none & ~np.isnan(input))
        # Of those equal to the value, the one with as many before it as the rank leaves after those below.
        before = ranks[this] - np.sum(less, axis=axis, keepdims=True)
        found = np.cumsum(hit, axis=axis) > before
        indices[this] = np.argmax(found, axis=axis, keepdims=True)
    return values, indices


@order_statistic.backward
def _(grad, indices, like, dim):
    return ops.add_along_dim(grad[0], indices, shape=like.input.shape, dim=dim), None


@order_statistic.samples
def _(make):
    yield make.call(make.distinct(5), np.array([3, 0]), dim=0)
    yield make.call(make.distinct(2, 9), np.array([[4], [-1]]), dim=-1)
    yield make.call(make.distinct(3, 2), make.integers(4, 2, high=3), dim=0)
    yield make.call(make.distinct(0, 3), make.integers(0, 1, high=3), dim=1)
    yield make.error(IndexError, "between -2 and 1", make.normal(2), np.array([2]), dim=0)
    yield make.error(RuntimeError, "shape", make.normal(2, 3), np.array([[0]]), dim=1)


def with_ranks(name, input, dim, keepdim, ranks):
    """Named tuple of the elements of these ranks, one along `dim`; `ranks` is a function of the length."""
    axis = normalize_dim(name, dim, input.ndim)
    shape = input.shape
    if not shape:
        input = ops.reshape(input, (1,))
    n = input.shape[axis]
    left = reduced_shape(shape, (axis,), keepdim)
    if n == 0 and 0 not in left:
        raise RuntimeError(
            f"{name}: a tensor of shape {shape} has no elements in dim={dim} to choose from"
        )
    values, indices = ops.order_statistic(input, ranks(input, axis, n), dim=axis)
    return Extremes(ops.reshape(values, left), ops.reshape(indices, left))


def _constant_ranks(input, axis, rank):
    """The same rank for every row."""
    like = ops.narrow(input, axis, 0, 1) if input.shape[axis] else input
    return ops.cast(ops.zeros_like(like), dtype=np.dtype(np.int64)) + rank


@composite("standard::kthvalue", method=True)
def kthvalue(input, k, dim=-1, keepdim=False):
    """Named tuple ``(values, indices)`` of the `k`-th smallest elements along `dim`, counted from 1.

    Raises
    ------
    RuntimeError
        `k` is not between 1 and the length of the dimension.
    """
    axis = normalize_dim("kthvalue", dim, input.ndim)
    n = input.shape[axis] if input.ndim else 1
    if not 1 <= k <= n:
        raise RuntimeError(
            f"kthvalue: k must lie between 1 and {n}, the size of dim={dim}, got {k}"
        )
    return with_ranks(
        "kthvalue", input, dim, keepdim, lambda x, axis, n: _constant_ranks(x, axis, k - 1)
    )


@kthvalue.samples
def _(make):
    yield make.call(make.distinct(5), 2)
    yield make.call(make.distinct(2, 3), 3, dim=1, keepdim=True)
    yield make.call(make.distinct(), 1)
    yield make.error(RuntimeError, "between 1 and 3", make.distinct(3), 4)


# ---- quantiles -----------------------------------------------------------------------------------------------

INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile(name, input, q, dim, keepdim, interpolation, skip):
    if kind(input.dtype) != "f":
        raise RuntimeError(f"{name}: the input must be floating, got {input.dtype}")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}: interpolation must be one of {', '.join(INTERPOLATIONS)}, got {interpolation!r}"
        )
    single = not isinstance(q, Tensor) or q.ndim == 0
    q = _fractions(name, q, input)
    shape, full = input.shape, dim is None
    axis = 0 if full else normalize_dim(name, dim, len(shape))
    rows = ops.reshape(input, (-1,)) if full or not shape else ops.movedim(input, axis, -1)
    n = rows.shape[-1]
    if n == 0:
        raise RuntimeError(f"{name}: a tensor of shape {shape} has no elements in dim={dim}")
    missing = ops.isnan(rows)
    if skip:
        last = n - 1 - ops.sum(missing, dim=-1, keepdim=True)
        place = q * ops.clamp(ops.cast(last, dtype=q.dtype), min=0)
    else:
        place = ops.where(ops.any(missing, dim=-1, keepdim=True), n - 1, q * (n - 1))
    values = _between(rows, place, interpolation)
    left = reduced_shape(shape, range(len(shape)) if full else (axis,), keepdim)
    if single:
        return ops.reshape(values, left)
    return ops.reshape(ops.movedim(values, -1, 0), (q.shape[0], *left))


def _fractions(name, q, like):
    """`q` as a tensor of one dimension, in float64: positions among many elements need its digits."""
    if isinstance(q, Tensor):
        if q.ndim > 1:
            raise RuntimeError(f"{name}: q must have at most 1 dimension, got shape {q.shape}")
        inside = bool(ops.all((q >= 0) & (q <= 1)))
        q = ops.reshape(ops.cast(q, dtype=np.dtype(np.float64)), (-1,))
    else:
        inside = 0 <= q <= 1
        first = ops.reshape(like.detach(), (-1,))[:1]
        q = ops.cast(ops.zeros_like(first), dtype=np.dtype(np.float64)) + q
    if not inside:
        raise RuntimeError(f"{name}: q must lie between 0 and 1, got {q}")
    return q


def _between(rows, place, interpolation):
    """What stands at these fractional ranks of the last dimension."""
    whole = np.dtype(np.int64)
    if interpolation == "nearest":
        return ops.order_statistic(rows, ops.cast(ops.round(place), dtype=whole), dim=-1)[0]
    below, above = ops.floor(place), ops.ceil(place)
    if interpolation in ("lower", "higher"):
        rank = below if interpolation == "lower" else above
        return ops.order_statistic(rows, ops.cast(rank, dtype=whole), dim=-1)[0]
    ranks = ops.cast(ops.cat([below, above], -1), dtype=whole)
    values = ops.order_statistic(rows, ranks, dim=-1)[0]
    count = place.shape[-1]
    weight = 0.5
    if interpolation == "linear":
        weight = ops.cast(place - below, dtype=rows.dtype)
    return ops.lerp(values[..., :count], values[..., count:], weight)


def _quantile_samples(make):
    yield make.call(make.distinct(2, 3), make.values([0.1, 0.9]), dim=1)
    yield make.call(make.distinct(3), 0.6, dim=0, keepdim=True, interpolation="midpoint")
    yield make.call(make.distinct(), 1.0)
    yield make.error(RuntimeError, "between 0 and 1", make.distinct(3), 1.5)
    yield make.error(RuntimeError, "interpolation", make.distinct(3), 0.5, interpolation="cubic")
    yield make.error(RuntimeError, "no elements", make.distinct(0), 0.5)


@composite("standard::quantile", method=True)
def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """The elements below which a share `q` of a dimension lies, interpolated between neighbours; NaN where there is one.

    With a `q` of one dimension the result has it in front.

    Raises
    ------
    RuntimeError
        `q` lies outside [0, 1] or has several dimensions, or there are no elements.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


quantile.samples(_quantile_samples)


@composite("standard::nanquantile", method=True)
def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """`quantile` of the elements that are not NaN; NaN where there is none."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


@nanquantile.samples
def _(make):
    yield make.call(make.values([[np.nan, 1.0, 3.0], [np.nan, 2.0, np.nan]]), 0.25, dim=1)
    yield make.call(make.distinct(4), 0.3)
    yield make.call(make.distinct(), 1.0)
    yield make.error(RuntimeError, "between 0 and 1", make.distinct(3), 1.5)
