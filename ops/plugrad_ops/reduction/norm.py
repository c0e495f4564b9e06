"""Vector norms, with the subgradient of least norm where they have no derivative: 0 at the zero vector."""

import math

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.dtypes import kind
from plugrad.backends.sums import add_reduce
from plugrad_ops.reduction import folds
from plugrad_ops.reduction.ops import kept, spread_array
from plugrad_ops.shape.dims import normalize_dims, reduced_shape


def order_of(name, p):
    """The order of a norm as a number; PyTorch's ``"fro"`` is 2.

    Raises
    ------
    ValueError
        It is another word.
    """
    if p is None or p == "fro":
        return 2.0
    if isinstance(p, str):
        raise ValueError(f"{name}: p must be a number or 'fro', got {p!r}")
    return p


def check_not_empty(p, shape, axes):
    """Raise RuntimeError for a norm of nothing that would have to be the least or greatest of nothing."""
    if (p < 0 or p == math.inf) and any(shape[axis] == 0 for axis in axes):
        raise RuntimeError(
            f"norm: of no elements the norm of order {p} has no value; got shape {shape}, dimensions {axes}"
        )


def _norm_meta(input, *, p=2.0, dim=None, keepdim=False):
    return reduced_shape(input.shape, normalize_dims("norm", dim, input.ndim), keepdim), input.dtype


def _norm(size, p, axes):
    """The norm of the absolute values `size`; a result that left the range is computed again from scaled values."""
    if p == math.inf:
        return np.maximum.reduce(size, axis=axes, keepdims=True, initial=0)
    if p == -math.inf:
        return np.minimum.reduce(size, axis=axes, keepdims=True, initial=math.inf)
    if p == 0:
        return add_reduce(size != 0, axes, size.dtype, keepdims=True)
    if p == 1:
        return add_reduce(size, axes, keepdims=True)
    if math.prod(size.shape[axis] for axis in axes) == 1:
        return size.copy()
    total = _power_sum(size, p, axes)
    out = _root(total, p)
    # Powers near the least numbers have lost digits.
    least = size.size / max(1, total.size) * np.finfo(size.dtype).tiny / np.finfo(size.dtype).eps
    if np.any((total < least) | np.isinf(total)):
        top = np.maximum.reduce(size, axis=axes, keepdims=True, initial=0)
        top = np.where((top > 0) & np.isfinite(top), top, size.dtype.type(1))
        out = _root(_power_sum(size / top, p, axes), p) * top
    return out


def _power_sum(size, p, axes):
    return add_reduce(np.square(size) if p == 2 else size**p, axes, keepdims=True)


def _root(total, p):
    return np.sqrt(total) if p == 2 else total ** (1 / p)


def _norm_kinks(input, *, tol, p=2.0, dim=None, keepdim=False):
    axes, p = normalize_dims("norm", dim, input.ndim), order_of("norm", p)
    size = np.abs(input)
    if not size.size:
        return np.zeros(size.shape, bool)
    near = np.max(size, axis=axes, keepdims=True) <= tol
    if p < 2:
        near = near | (size <= tol)
    elif p == math.inf:
        close = size >= np.max(size, axis=axes, keepdims=True) - tol
        near = near | (close & (np.sum(close, axis=axes, keepdims=True) > 1))
    return np.broadcast_to(near, size.shape)


def _norm_in_kinks(input, *, tol, p=2.0, dim=None, keepdim=False, dtype=None):
    return _norm_kinks(input, tol=tol, p=p, dim=dim, keepdim=keepdim)


def norm(input, *, p=2.0, dim=None, keepdim=False):
    """(Σ |input|**p)**(1/p) over `dim`, ``"fro"`` being 2; the greatest or smallest size for p = ±inf, the nonzero ones' number for 0.

    Where the true value is in range, neither squares nor powers overflow or vanish.
    """
    axes, p = normalize_dims("norm", dim, input.ndim), order_of("norm", p)
    check_not_empty(p, input.shape, axes)
    out = _norm(np.abs(input), p, axes).astype(input.dtype, copy=False)
    return out if keepdim else out.reshape(reduced_shape(input.shape, axes, False))


norm = operator(
    "standard::norm",
    infer=_norm_meta,
    kinks=_norm_kinks,
    method=True,
    cpu=folds.Norm(norm),
    cuda=".cuda:norm",
)(norm)


@norm.backward
def _(grad, input, out, p, dim, keepdim):
    p = order_of("norm", p)
    if p == 0:
        return ops.zeros_like(input)
    shape = input.shape
    grad, out = kept(grad, shape, dim, keepdim), kept(out, shape, dim, keepdim)
    if p == 1:
        return grad * ops.sign(input)
    if p in (math.inf, -math.inf):
        hit = ops.cast(ops.abs(input) == out, dtype=input.dtype)
        return grad * (
            ops.sign(input) * hit / ops.clamp(ops.sum(hit, dim=dim, keepdim=True), min=1)
        )
    zero = out == 0
    ratio = input / ops.where(zero, 1, out)
    if p == 2:
        return ops.where(zero, 0, grad) * ratio
    none = ratio == 0
    power = ops.where(none, 0, ops.sign(ratio) * ops.abs(ops.where(none, 1, ratio)) ** (p - 1))
    return ops.where(zero, 0, grad) * power


def _norm_slopes(grad, input, out, p, dim, keepdim):
    p, shape = order_of("norm", p), input.shape
    if p == 0:
        return np.zeros_like(input)
    grad, out = spread_array(grad, shape, dim, keepdim), spread_array(out, shape, dim, keepdim)
    if p == 1:
        return grad * np.sign(input)
    if p in (math.inf, -math.inf):
        hit = (np.abs(input) == out).astype(input.dtype)
        count = add_reduce(hit, normalize_dims("norm", dim, input.ndim), keepdims=True)
        return grad * (np.sign(input) * hit / np.maximum(count, 1))
    zero = out == 0
    ratio = input / np.where(zero, 1, out)
    if p != 2:
        none = ratio == 0
        ratio = np.where(none, 0, np.sign(ratio) * np.abs(np.where(none, 1, ratio)) ** (p - 1))
    return np.where(zero, 0, grad) * ratio


norm.backward_kernel(folds.NormSlopes(_norm_slopes))


@norm.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 3), dim=-1, keepdim=True)
    yield make.call(make.distinct(2, 3), p=3.0, dim=0)
    yield make.call(make.distinct(2, 3), p=1.0, dim=0)
    yield make.call(make.positive(3), p=0.5)
    yield make.call(make.distinct(2, 3), p=math.inf, dim=1)
    yield make.call(make.positive(3), p=-math.inf)
    yield make.call(make.normal(), dim=0)
    yield make.call(make.normal(0, 3), dim=1)
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=2)
    yield make.error(ValueError, "'fro'", make.normal(2, 3), p="nuc")
    yield make.error(RuntimeError, "no elements", make.normal(0, 3), p=math.inf, dim=0)


norm.variant("dtype", "standard::norm_in", default=None)


@composite("standard::norm_in", kinks=_norm_in_kinks)
def norm_in(input, p=2.0, dim=None, keepdim=False, *, dtype=None):
    """`norm` of the input in another dtype: ``norm(dtype=)``.

    Raises
    ------
    RuntimeError
        `dtype` is not floating, or narrower than the input's.
    """
    if dtype is not None:
        dtype = np.dtype(dtype)
        if kind(dtype) != "f" or np.promote_types(dtype, input.dtype) != dtype:
            raise RuntimeError(
                f"norm: dtype must be floating and hold what the input's {input.dtype} holds, got {dtype}"
            )
        input = ops.cast(input, dtype=dtype)
    return ops.norm(input, p=p, dim=dim, keepdim=keepdim)


@norm_in.samples
def _(make):
    yield make.call(make.normal(2, 3), dim=1, dtype=np.dtype(np.float64))
    yield make.call(make.distinct(3), p=3.0)
    yield make.call(make.integers(3, low=1), dtype=np.dtype(np.float64))
    yield make.error(RuntimeError, "dtype", make.normal(3), dtype=np.dtype(np.int64))


@composite("standard::normalize")
def normalize(input, p=2.0, dim=1, eps=1e-12):
    """`input` divided by its norm over `dim`, or by `eps` where that is greater; 0, with gradient 0, for a zero vector.

    PyTorch's gradient at the zero vector is 1 / eps.
    """
    length = ops.norm(input, p=p, dim=dim, keepdim=True)
    return input / ops.where(length == 0, math.inf, ops.clamp_min(length, eps))


@normalize.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.positive(2, 3), p=1.0, dim=0)
    yield make.call(make.normal(0, 3))
    yield make.call(make.values([[0.25, -0.26], [1.28, 0.21]]), dim=0, eps=0.5)
    yield make.error(IndexError, "out of range", make.normal(2), dim=1)
