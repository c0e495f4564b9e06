"""Running extremes with their positions, and the running logarithm of a sum of exponentials."""

import math

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.indexing.along import add_along_dim
from plugrad_ops.reduction import cpu
from plugrad_ops.reduction.extrema import Extremes
from plugrad_ops.shape.dims import normalize_dim

# ---- extremes ------------------------------------------------------------------------------------------------


def _running_meta(input, *, dim):
    normalize_dim("scan", dim, input.ndim)
    return [(input.shape, input.dtype), (input.shape, np.dtype(np.int64))]


def _running(name, ufunc, input, dim):
    """Running extremes, and where each was last met; from the first NaN on all are NaN."""
    axis = normalize_dim(name, dim, input.ndim)
    if not input.ndim:
        return input.copy(), np.zeros((), np.int64)
    values = ufunc.accumulate(input, axis=axis)
    hit = input == values
    if input.dtype.kind == "f":
        hit |= np.isnan(input)
    places = np.arange(input.shape[axis]).reshape((-1,) + (1,) * (input.ndim - 1 - axis))
    return values, np.maximum.accumulate(np.where(hit, places, 0), axis=axis)


def _returned(grad, indices, like, dim):
    """The gradient on arrays."""
    return add_along_dim.function(grad[0], indices, shape=like.input.shape, dim=dim)


def _ties(sign):
    def near(input, *, tol, dim):
        if not input.ndim:
            return np.zeros((), bool)
        input = sign * input
        before = np.maximum.accumulate(input, axis=dim)
        close = np.abs(input - np.roll(before, 1, axis=dim)) <= tol
        return np.logical_or.reduce(close, axis=dim, keepdims=True) & np.ones(input.shape, bool)

    return near


def _running_samples(make):
    yield make.call(make.distinct(5), dim=0)
    yield make.call(make.distinct(2, 4), dim=-1)
    yield make.call(make.distinct(4, 3), dim=0)
    yield make.call(make.distinct(), dim=0)
    yield make.call(make.distinct(0, 3), dim=0)
    yield make.error(IndexError, "out of range", make.distinct(2, 3), dim=2)


RUNNING = {
    "dtypes": "numeric",
    "outputs": ("values", "indices"),
    "nondifferentiable": ("indices",),
    "infer": _running_meta,
}


def running_max(input, *, dim):
    """The greatest of elements 0 to i along `dim`, and the index of the last that equals it."""
    return _running("running_max", np.maximum, input, dim)


running_max = operator(
    "standard::running_max",
    kinks=_ties(1),
    cpu=cpu.Running(running_max, True),
    cuda=".cuda:running_max",
    **RUNNING,
)(running_max)


@running_max.backward
def _(grad, indices, like, dim):
    return ops.add_along_dim(grad[0], indices, shape=like.input.shape, dim=dim)


running_max.backward_kernel(cpu.Returning(_returned, True))
running_max.samples(_running_samples)


def running_min(input, *, dim):
    """The smallest of elements 0 to i along `dim`, and the index of the last that equals it."""
    return _running("running_min", np.minimum, input, dim)


running_min = operator(
    "standard::running_min",
    kinks=_ties(-1),
    cpu=cpu.Running(running_min, False),
    cuda=".cuda:running_min",
    **RUNNING,
)(running_min)


@running_min.backward
def _(grad, indices, like, dim):
    return ops.add_along_dim(grad[0], indices, shape=like.input.shape, dim=dim)


running_min.backward_kernel(cpu.Returning(_returned, False))
running_min.samples(_running_samples)


@composite("standard::cummax", method=True, kinks=_ties(1))
def cummax(input, dim):
    """Named tuple ``(values, indices)`` of the greatest of elements 0 to i along `dim`; of equal ones the last."""
    return Extremes(*ops.running_max(input, dim=dim))


cummax.samples(_running_samples)


@composite("standard::cummin", method=True, kinks=_ties(-1))
def cummin(input, dim):
    """Named tuple ``(values, indices)`` of the smallest of elements 0 to i along `dim`; of equal ones the last."""
    return Extremes(*ops.running_min(input, dim=dim))


cummin.samples(_running_samples)

# ---- logcumsumexp --------------------------------------------------------------------------------------------


def _same_meta(input, *, dim):
    normalize_dim("logcumsumexp", dim, input.ndim)
    return input.shape, input.dtype


@operator("standard::logcumsumexp", infer=_same_meta, method=True, cuda=".cuda:logcumsumexp")
def logcumsumexp(input, *, dim):
    """Element i is the `logsumexp` of elements 0 to i of dimension `dim`."""
    axis = normalize_dim("logcumsumexp", dim, input.ndim)
    if not input.ndim:
        return input.copy()
    return np.logaddexp.accumulate(input, axis=axis, dtype=np.float64).astype(
        input.dtype, copy=False
    )


@logcumsumexp.backward
def _(grad, input, out, dim):
    # With s[i] = grad[i] + exp(out[i] - out[i + 1]) s[i + 1] the gradient is exp(input - out) s: no exponent is above 0.
    # Infinities have no differences. At -inf there is no gradient; at inf the elements that are inf share it.
    if not input.ndim or not input.shape[dim]:
        return grad
    n = input.shape[dim]
    infinite = ops.abs(out) == math.inf
    hit = ops.cast(input == math.inf, dtype=input.dtype)
    count = ops.cumsum(hit, dim=dim)
    weight = ops.exp(ops.where(infinite, 0, input - out))
    weight = ops.where(infinite, hit / ops.clamp(count, min=1), weight)
    here, after = ops.narrow(out, dim, 0, n - 1), ops.narrow(out, dim, 1, n - 1)
    ended = ops.narrow(infinite, dim, 0, n - 1)
    passed = ops.exp(ops.where(ended, 0, here - after))
    left, right = ops.narrow(count, dim, 0, n - 1), ops.narrow(count, dim, 1, n - 1)
    passed = ops.where(ended, left / ops.clamp(right, min=1), passed)
    # What stands first in the flipped scan does not matter.
    factor = ops.flip(ops.cat([passed, ops.narrow(weight, dim, 0, 1)], dim), dims=dim)
    return weight * ops.flip(ops.linear_scan(factor, ops.flip(grad, dims=dim), dim=dim), dims=dim)


@logcumsumexp.samples
def _(make):
    yield make.call(make.normal(5), dim=0)
    yield make.call(make.normal(2, 3), dim=-1)
    yield make.call(make.values([[800.0, 0.0], [801.0, -800.0], [-800.0, 1.0]]), dim=0)
    yield make.call(make.normal(), dim=0)
    yield make.call(make.normal(0, 3), dim=0)
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=2)
