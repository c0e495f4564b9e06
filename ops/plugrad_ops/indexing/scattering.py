"""Writing and combining at indices along a dimension: `scatter`, `scatter_reduce`, `index_add` and their like.

(a) None of them works in place; the in-place form of each (``scatter_``) comes of itself.
(b) Where several elements go to one place, the last one in C order is written, and it alone has a gradient. Of extremes
    that tie each has the same share of it.
"""

import numpy as np

from plugrad import composite, from_numpy, ops
from plugrad_ops.indexing.along import _partial
from plugrad_ops.indexing.spec import ARRAY, WHOLE
from plugrad_ops.shape.dims import normalize_dim

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def constant(value, like):
    """A number as a 0-d tensor of the dtype and on the device of `like`; a tensor is cast."""
    if hasattr(value, "array"):
        return value if value.dtype == like.dtype else ops.cast(value, dtype=like.dtype)
    return from_numpy(np.asarray(value).astype(like.dtype)).to(like.device)


def _like_index(name, src, index):
    """`src`, cut to the shape of the index."""
    if src.ndim != index.ndim or any(m > n for n, m in zip(src.shape, index.shape)):
        raise RuntimeError(
            f"{name}: src of shape {src.shape} must be at least as large as the index, {index.shape}"
        )
    if src.shape == index.shape:
        return src
    return ops.slice(src, index=tuple((0, m, 1) for m in index.shape))


def _same_dtype(name, input, other, word):
    if other.dtype != input.dtype:
        raise RuntimeError(
            f"{name}: input and {word} must have one dtype, got {input.dtype} and {other.dtype}"
        )


# ---- along a dimension, at indices that differ from place to place -------------------------------------------


@composite("standard::scatter", method=True)
def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    """`input` with ``src[i, j, k]`` written at ``[i, index[i, j, k], k]`` for ``dim=1``.

    Parameters
    ----------
    index : Tensor of integers
        Outside `dim` no larger than `input`.
    src : Tensor or number
        At least as large as `index`; or `value`, a number.
    reduce : {"add", "multiply"}, optional
        Combine with what is there, in place of writing.

    Raises
    ------
    RuntimeError
        Shapes or dtypes do not fit.
    IndexError
        An index lies outside the dimension.
    """
    if (src is None) == (value is None):
        raise TypeError("scatter: give src or value, one of them")
    src = value if src is None else src
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError(f"scatter: reduce must be 'add' or 'multiply', got {reduce!r}")
        if not hasattr(src, "array"):
            src = ops.expand(constant(src, input), index.shape)
        return scatter_reduce(input, dim, index, src, "sum" if reduce == "add" else "prod")
    inside = _partial("scatter", input.shape, index.shape, dim)
    if hasattr(src, "array"):
        _same_dtype("scatter", input, src, "src")
        src = _like_index("scatter", src, index)
    else:
        src = ops.expand(constant(src, input), index.shape)
    axis = normalize_dim("scatter", dim, input.ndim)
    if _covers(input.shape, index.shape, axis):
        return ops.write_along_dim(input, index, src, dim=axis)
    part = ops.write_along_dim(ops.slice(input, index=inside), index, src, dim=axis)
    return ops.index_write(input, part, spec=inside)


def _covers(shape, index_shape, axis):
    """Whether an index of that shape refers to all of a tensor, but for a dimension."""
    return all(n == m or d == axis for d, (n, m) in enumerate(zip(shape, index_shape)))


@scatter.samples
def _(make):
    index = np.array([[0, 2], [3, 0], [1, 1]])
    yield make.call(make.normal(3, 4), 1, index, make.normal(3, 2))
    yield make.call(make.normal(4, 3), 0, index, make.normal(3, 3))
    yield make.call(make.normal(4, 2), -2, index, 2.5)
    yield make.call(make.normal(3, 4), 1, index, make.normal(3, 2), reduce="multiply")
    yield make.call(make.normal(), 0, np.array(0), make.normal())
    yield make.call(make.normal(0), 0, np.zeros(0, np.int64), make.normal(0))
    yield make.error(
        RuntimeError, "at least as large", make.normal(3, 4), 1, index, make.normal(1, 2)
    )
    yield make.error(RuntimeError, "no greater sizes", make.normal(2, 4), 1, index, 1.0)
    yield make.error(IndexError, "out of bounds", make.normal(3), 0, np.array([3]), 1.0)
    yield make.error(TypeError, "src or value", make.normal(3), 0, np.array([0]))


def _counts(input, inside, index, axis):
    """How many elements of the index go to each place of `input`, as integers; zeros outside `inside`."""
    shape = tuple(n if d == axis else index.shape[d] for d, n in enumerate(input.shape))
    ones = ops.expand(constant(1, index), index.shape)
    count = ops.add_along_dim(ones, index, shape=shape, dim=axis)
    return count if shape == input.shape else ops.slice_adjoint(count, input.shape, inside)


def _check_reduce(name, reduce, known):
    if reduce not in known:
        raise RuntimeError(f"{name}: reduce must be one of {', '.join(known)}, got {reduce!r}")


@composite("standard::scatter_reduce", method=True)
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """`input` with all of ``src[i, j, k]`` combined at ``[i, index[i, j, k], k]`` for ``dim=1``.

    Parameters
    ----------
    reduce : {"sum", "prod", "mean", "amax", "amin"}
    include_self : bool
        Whether the element of `input` counts, too. Where nothing goes it stays in any case.

    Raises
    ------
    RuntimeError
        Shapes or dtypes do not fit, or there is no such reduction.
    IndexError
        An index lies outside the dimension.
    """
    _check_reduce("scatter_reduce", reduce, REDUCTIONS)
    inside = _partial("scatter_reduce", input.shape, index.shape, dim)
    _same_dtype("scatter_reduce", input, src, "src")
    src = _like_index("scatter_reduce", src, index)
    axis = normalize_dim("scatter_reduce", dim, input.ndim)
    if reduce in ("sum", "mean"):
        return _summed(input, axis, index, src, reduce, include_self, inside)
    whole = _covers(input.shape, index.shape, axis)
    part = input if whole else ops.slice(input, index=inside)
    out = ops.fold_along_dim(part, index, src, dim=axis, fold=reduce, include_self=include_self)
    return out if whole else ops.index_write(input, out, spec=inside)


def _summed(input, axis, index, src, reduce, include_self, inside):
    if include_self and reduce == "sum":
        return ops.scatter_add(input, axis, index, src)
    count = _counts(input, inside, index, axis)
    start = input if include_self else ops.where(count > 0, 0, input)
    total = ops.scatter_add(start, axis, index, src)
    if reduce == "sum":
        return total
    count = count + 1 if include_self else ops.clamp(count, 1)
    if input.dtype.kind in "iu":
        return ops.cast(ops.floor_divide(total, count), dtype=input.dtype)
    return total / ops.cast(count, dtype=input.dtype)


@scatter_reduce.samples
def _(make):
    index = np.array([[0, 2], [3, 0], [1, 1]])
    yield make.call(make.normal(3, 4), 1, index, make.normal(3, 2), "sum")
    yield make.call(make.normal(4, 3), 0, index, make.normal(3, 2), "mean", include_self=False)
    yield make.call(make.normal(4, 3), 0, index, make.normal(3, 2), "prod")
    yield make.call(make.normal(3, 4), 1, index, make.normal(3, 2), "amax", include_self=False)
    yield make.call(make.normal(), 0, np.array(0), make.normal(), "amin")
    yield make.call(make.normal(0), 0, np.zeros(0, np.int64), make.normal(0), "mean")
    yield make.error(
        RuntimeError, "must be one of", make.normal(3), 0, np.array([0]), make.normal(1), "max"
    )
    yield make.error(
        RuntimeError, "at least as large", make.normal(3, 4), 1, index, make.normal(1, 2), "sum"
    )


# ---- slices of a dimension -----------------------------------------------------------------------------------


def _slices(name, input, dim, index, source=None):
    """The dimension, the index in one dimension, and the spec of ``input[..., index, ...]``."""
    if index.ndim > 1:
        raise IndexError(f"{name}: index must be 0-d or 1-d, got shape {index.shape}")
    axis = normalize_dim(name, dim, input.ndim)
    index = ops.reshape(index, (-1,)) if not index.ndim else index
    if source is not None:
        _same_dtype(name, input, source, "source")
        shape = (*input.shape[:axis], index.shape[0], *input.shape[axis + 1 :])
        fits = source.shape == shape or (
            source.numel() == 1 == index.shape[0] and len(shape) <= 1 and source.ndim <= 1
        )
        if not fits:
            raise RuntimeError(
                f"{name}: source must have shape {shape}, got {source.shape} (input {input.shape}, dim {dim})"
            )
    return axis, index, (WHOLE,) * axis + (ARRAY,)


def _written(input, source, index, spec, accumulate=False):
    """`input` with `source` at the index; a 0-d tensor has one place."""
    if input.ndim:
        return ops.index_write(input, source, index, spec=spec, accumulate=accumulate)
    out = ops.index_write(ops.reshape(input, (1,)), source, index, spec=spec, accumulate=accumulate)
    return ops.reshape(out, ())


@composite("standard::index_add", method=True)
def index_add(input, dim, index, source, *, alpha=1):
    """`input` with `alpha` times ``source[i, j, k]`` added at ``[i, index[j], k]`` for ``dim=1``.

    Raises
    ------
    RuntimeError
        `source` has not the shape of ``input[:, index]``, or another dtype.
    IndexError
        An index lies outside the dimension.
    """
    _, index, spec = _slices("index_add", input, dim, index, source)
    return _written(input, source if alpha == 1 else source * alpha, index, spec, True)


@composite("standard::index_copy", method=True)
def index_copy(input, dim, index, source):
    """`input` with ``source[i, j, k]`` written at ``[i, index[j], k]`` for ``dim=1``.

    Raises
    ------
    RuntimeError
        `source` has not the shape of ``input[:, index]``, or another dtype.
    IndexError
        An index lies outside the dimension.
    """
    _, index, spec = _slices("index_copy", input, dim, index, source)
    return _written(input, source, index, spec)


def _slice_samples(make):
    yield make.call(make.normal(3, 4), 0, np.array([2, 0, 2]), make.normal(3, 4))
    yield make.call(make.normal(3, 4), -1, np.array([1]), make.normal(3, 1))
    yield make.call(make.normal(), 0, np.array(0), make.normal())
    yield make.call(make.normal(0, 2), 1, np.array([1]), make.normal(0, 1))
    yield make.error(
        RuntimeError, "must have shape", make.normal(3), 0, np.array([0]), make.normal(2)
    )
    yield make.error(IndexError, "out of bounds", make.normal(3), 0, np.array([3]), make.normal(1))


index_copy.samples(_slice_samples)


@index_add.samples
def _(make):
    yield from _slice_samples(make)
    yield make.call(make.normal(3), 0, np.array([2, 2]), make.normal(2), alpha=-2)


@composite("standard::index_fill", method=True)
def index_fill(input, dim, index, value):
    """`input` with `value`, a number or a 0-d tensor, at the positions `index` of a dimension."""
    _, index, spec = _slices("index_fill", input, dim, index)
    if hasattr(value, "array") and value.ndim:
        raise RuntimeError(f"index_fill: value must be 0-d, got shape {value.shape}")
    return _written(input, constant(value, input), index, spec)


@index_fill.samples
def _(make):
    yield make.call(make.normal(3, 4), 0, np.array([2, 0, 2]), -1)
    yield make.call(make.normal(3, 4), 1, np.array([1, 2]), make.normal())
    yield make.call(make.normal(0, 2), 1, np.array([1]), 0.5)
    yield make.error(RuntimeError, "0-d", make.normal(3), 0, np.array([0]), make.normal(1))


@composite("standard::index_reduce", method=True)
def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """`input` with all of ``source[i, j, k]`` combined at ``[i, index[j], k]`` for ``dim=1``; see `scatter_reduce`.

    Parameters
    ----------
    reduce : {"prod", "mean", "amax", "amin"}
    """
    _check_reduce("index_reduce", reduce, REDUCTIONS[1:])
    axis, index, _ = _slices("index_reduce", input, dim, index, source)
    if not input.ndim:
        index, source = ops.reshape(index, ()), ops.reshape(source, ())
    else:
        source = ops.reshape(
            source,
            (*input.shape[:axis], -1, *input.shape[axis + 1 :]) if source.numel() else source.shape,
        )
        index = ops.reshape(index, (1,) * axis + (-1,) + (1,) * (input.ndim - 1 - axis))
        index = ops.expand(index, source.shape)
    return scatter_reduce(input, axis, index, source, reduce, include_self=include_self)


@index_reduce.samples
def _(make):
    index = np.array([2, 0, 2])
    yield make.call(make.normal(3, 2), 0, index, make.normal(3, 2), "mean")
    yield make.call(make.normal(2, 4), 1, index, make.normal(2, 3), "amax", include_self=False)
    yield make.call(make.normal(3), 0, index, make.normal(3), "prod")
    yield make.error(
        RuntimeError, "must be one of", make.normal(3), 0, index, make.normal(3), "sum"
    )
