"""Summaries made of other reductions: without NaN, in pairs, counts, distances, covariance."""

import math
from typing import Any, NamedTuple

import numpy as np

from plugrad import composite, ops
from plugrad.backends.dtypes import kind, wide
from plugrad_ops.reduction.extrema import _extreme_samples
from plugrad_ops.reduction.norm import order_of
from plugrad_ops.shape.dims import normalize_dim

# ---- without NaN ---------------------------------------------------------------------------------------------


def _nan_samples(make):
    yield make.call(make.values([[1.0, np.nan, 2.0], [3.0, 4.0, np.nan]]))
    yield make.call(make.values([[1.0, np.nan, 2.0], [3.0, 4.0, np.nan]]), dim=1, keepdim=True)
    yield make.call(make.normal(2, 3, 2), dim=(0, -1))
    yield make.call(make.normal(0, 3), dim=0)
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=2)


def _numbers(input):
    """The elements, with 0 for NaN."""
    return ops.where(ops.isnan(input), 0, input) if kind(input.dtype) == "f" else input


@composite("standard::nansum", method=True)
def nansum(input, dim=None, keepdim=False, *, dtype=None):
    """The sum over `dim` of what is no NaN."""
    return ops.sum(_numbers(input), dim=dim, keepdim=keepdim, dtype=dtype)


nansum.samples(_nan_samples)


@composite("standard::nanmean", method=True)
def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    """The mean over `dim` of what is no NaN; NaN where there is nothing else.

    Raises
    ------
    RuntimeError
        The input is not floating.
    """
    if kind(input.dtype) != "f":
        raise RuntimeError(f"nanmean: the input must be floating, got {input.dtype}")
    dtype = input.dtype if dtype is None else np.dtype(dtype)
    inner = wide(dtype)  # 16-bit floats count to 65504 at most
    total = ops.sum(_numbers(input), dim=dim, keepdim=keepdim, dtype=inner)
    count = ops.sum(ops.logical_not(ops.isnan(input)), dim=dim, keepdim=keepdim)
    mean = total / ops.cast(count, dtype=inner)
    return mean if inner == dtype else ops.cast(mean, dtype=dtype)


nanmean.samples(_nan_samples)


@composite("standard::count_nonzero", method=True)
def count_nonzero(input, dim=None):
    """How many elements over `dim` are not 0, as int64."""
    return ops.sum(input != 0, dim=dim)


@count_nonzero.samples
def _(make):
    yield make.call(make.values([[0.0, 1.0], [np.nan, -0.0]]))
    yield make.call(make.integers(2, 3, high=2), dim=1)
    yield make.call(make.booleans(2, 3, 2), dim=(0, 2))
    yield make.call(make.normal(0, 3), dim=0)


# ---- two at once ---------------------------------------------------------------------------------------------


class MinMax(NamedTuple):
    """What `aminmax` returns."""

    min: Any
    max: Any


@composite("standard::aminmax", method=True)
def aminmax(input, *, dim=None, keepdim=False):
    """Named tuple ``(min, max)`` of `amin` and `amax`."""
    return MinMax(
        ops.amin(input, dim=dim, keepdim=keepdim), ops.amax(input, dim=dim, keepdim=keepdim)
    )


aminmax.samples(_extreme_samples)


def _spread_samples(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 3, 2), dim=(0, -1), keepdim=True)
    yield make.call(make.normal(4, 3), dim=0, unbiased=False)
    yield make.call(make.normal(4, 3), dim=-1, correction=0)


def _mean_beside(spread, input, dim, unbiased, keepdim, correction):
    over = None if isinstance(dim, bool) else dim
    return (
        spread(input, dim=dim, unbiased=unbiased, keepdim=keepdim, correction=correction),
        ops.mean(input, dim=over, keepdim=keepdim),
    )


@composite("standard::var_mean")
def var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=1):
    """The pair of `var` and `mean`."""
    return _mean_beside(ops.var, input, dim, unbiased, keepdim, correction)


var_mean.samples(_spread_samples)


@composite("standard::std_mean")
def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=1):
    """The pair of `std` and `mean`."""
    return _mean_beside(ops.std, input, dim, unbiased, keepdim, correction)


std_mean.samples(_spread_samples)

# ---- distances, bounded norms --------------------------------------------------------------------------------


@composite("standard::dist", method=True)
def dist(input, other, p=2.0):
    """The norm of the difference."""
    return ops.norm(input - other, p=p)


@dist.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(2, 3))
    yield make.call(make.normal(2, 3), make.normal(3), 1.0)
    yield make.call(make.normal(3), make.normal(3), math.inf)
    yield make.error(RuntimeError, "broadcast", make.normal(2), make.normal(3))


@composite("standard::renorm", method=True)
def renorm(input, p, dim, maxnorm):
    """Slices along `dim` whose norm is above `maxnorm` scaled down to it.

    Raises
    ------
    RuntimeError
        `p` or `maxnorm` is out of range, or there are fewer than 2 dimensions.
    """
    p = order_of("renorm", p)
    if p <= 0 or maxnorm < 0 or input.ndim < 2:
        raise RuntimeError(
            "renorm: p must be above 0, maxnorm at least 0 and the input of 2 dimensions or more, got "
            f"p={p}, maxnorm={maxnorm}, shape {input.shape}"
        )
    axis = normalize_dim("renorm", dim, input.ndim)
    others = tuple(d for d in range(input.ndim) if d != axis)
    length = ops.norm(input, p=p, dim=others, keepdim=True)
    over = length > maxnorm
    return input * ops.where(over, maxnorm / (ops.where(over, length, 1.0) + 1e-7), 1.0)


@renorm.samples
def _(make):
    yield make.call(make.normal(3, 4), 2, 0, 1.0)
    yield make.call(make.positive(3, 4), 1.0, 1, 3.0)
    yield make.call(make.normal(2, 3, 2), 3.0, -1, 1.5)
    yield make.error(RuntimeError, "2 dimensions", make.normal(3), 2, 0, 1.0)


# ---- covariance ----------------------------------------------------------------------------------------------


def _observations(name, input):
    if input.ndim > 2:
        raise RuntimeError(
            f"{name}: the input has variables in rows, at most 2 dimensions; got shape {input.shape}"
        )
    if kind(input.dtype) not in "fc":
        input = ops.cast(input, dtype=np.dtype(np.float32))
    return ops.reshape(input, (1, -1)) if input.ndim < 2 else input


@composite("standard::cov", method=True)
def cov(input, *, correction=1, fweights=None, aweights=None):
    """Covariances of the variables in the rows of `input`; columns are observations. Of one variable 0-d.

    Parameters
    ----------
    correction : int
        What is subtracted from the number of observations.
    fweights, aweights : Tensor, optional
        How often each observation counts, and its importance: one number per column.
    """
    x = _observations("cov", input)
    weights = fweights
    if aweights is not None:
        weights = aweights if fweights is None else fweights * aweights
    if weights is None:
        centered = x - ops.mean(x, dim=1, keepdim=True)
        out = ops.matmul(centered, ops.transpose(centered, dim0=0, dim1=1))
        out = out / max(x.shape[1] - correction, 0)
    else:
        weights = ops.cast(weights, dtype=x.dtype)
        total = ops.sum(weights)
        centered = x - ops.sum(x * weights, dim=1, keepdim=True) / total
        out = ops.matmul(centered * weights, ops.transpose(centered, dim0=0, dim1=1))
        lost = correction
        if aweights is not None:
            lost = ops.sum(weights * ops.cast(aweights, dtype=x.dtype)) / total * correction
        out = out / ops.clamp(total - lost, min=0)
    return ops.reshape(out, ()) if x.shape[0] == 1 else out


@cov.samples
def _(make):
    yield make.call(make.normal(2, 5))
    yield make.call(make.normal(4), correction=0)
    yield make.call(make.normal(3, 4), fweights=make.integers(4, low=1, high=4))
    yield make.call(make.normal(2, 4), aweights=make.positive(4))
    yield make.call(make.integers(2, 4))
    yield make.error(RuntimeError, "2 dimensions", make.normal(2, 2, 2))


@composite("standard::corrcoef", method=True)
def corrcoef(input):
    """Pearson's correlation coefficients of the variables in the rows of `input`, held within [-1, 1]."""
    covariances = ops.cov(input)
    if not covariances.ndim:
        return covariances / covariances
    deviations = ops.sqrt(ops.diagonal(covariances))
    out = covariances / deviations / ops.unsqueeze(deviations, dim=1)
    # The diagonal may come out above 1 by rounding, and is no bound that the gradient should stop at.
    return ops.where(ops.abs(out) > 1, ops.sign(out), out)


@corrcoef.samples
def _(make):
    yield make.call(make.normal(3, 6))
    yield make.call(make.normal(2, 4))
    yield make.call(make.normal(1, 3))
    yield make.error(RuntimeError, "2 dimensions", make.normal(2, 2, 2))


# ---- counts --------------------------------------------------------------------------------------------------


@composite("standard::bincount", method=True)
def bincount(input, weights=None, minlength=0):
    """How often each whole number from 0 to the greatest occurs, or the sum of its weights.

    Raises
    ------
    RuntimeError
        The input is not of one dimension, has negative numbers, or does not fit the weights.
    TypeError
        The input holds no integers.
    """
    if input.dtype.kind not in "iu":
        raise TypeError(f"bincount takes integers, got {input.dtype}")
    if input.ndim != 1 or (weights is not None and weights.shape != input.shape):
        also = "" if weights is None else f" and weights of shape {weights.shape}"
        raise RuntimeError(
            f"bincount: input and weights must have one and the same dimension, got shape {input.shape}{also}"
        )
    length = minlength
    if input.shape[0]:
        least, most = int(ops.amin(input).item()), int(ops.amax(input).item())
        if least < 0:
            raise RuntimeError(f"bincount: the numbers must not be negative, got {least}")
        length = max(minlength, most + 1)
    if weights is None:
        weights = ops.cast(ops.zeros_like(input), dtype=np.dtype(np.int64)) + 1
    elif kind(weights.dtype) != "f":
        weights = ops.cast(weights, dtype=np.dtype(np.float64))
    return ops.add_along_dim(weights, input, shape=(length,), dim=0)


@bincount.samples
def _(make):
    yield make.call(make.integers(6, high=4))
    yield make.call(make.integers(6, high=4), make.normal(6))
    yield make.call(make.integers(3, high=2), minlength=5)
    yield make.call(make.integers(0), minlength=2)
    yield make.error(RuntimeError, "negative", np.array([1, -1]))
    yield make.error(TypeError, "integers", make.normal(3))


@composite("standard::histc", method=True)
def histc(input, bins=100, min=0, max=0):
    """How many elements fall into each of `bins` equal parts of ``[min, max]``, in the dtype of the input.

    What lies outside is left out. Where both bounds are 0 they are the least and the greatest element.

    Raises
    ------
    RuntimeError
        `bins` is below 1 or `min` above `max`.
    """
    if bins < 1 or min > max:
        raise RuntimeError(
            f"histc: bins must be at least 1 and min <= max, got {bins}, {min}, {max}"
        )
    x = ops.reshape(input.detach(), (-1,))
    if min == max == 0 and x.shape[0]:
        min, max = float(ops.amin(x).item()), float(ops.amax(x).item())
        if not math.isfinite(min) or not math.isfinite(max):
            raise RuntimeError(f"histc: the range [{min}, {max}] of the elements is not finite")
    if min == max:
        min, max = min - 1, max + 1
    inside = (x >= min) & (x <= max)
    place = ops.floor((ops.where(inside, x, min) - min) * bins / (max - min))
    place = ops.cast(ops.clamp(place, None, bins - 1), dtype=np.dtype(np.int64))
    return ops.add_along_dim(ops.cast(inside, dtype=x.dtype), place, shape=(bins,), dim=0)


@histc.samples
def _(make):
    yield make.call(make.normal(20), 5)
    yield make.call(make.normal(2, 6), 4, -1.0, 1.0)
    yield make.call(make.values([0.0, 1.0, 2.0, 2.0]), 2, 0, 2)
    yield make.call(make.normal(0), 3)
    yield make.error(RuntimeError, "at least 1", make.normal(3), 0)
