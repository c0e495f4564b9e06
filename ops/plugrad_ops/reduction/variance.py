"""Variance and standard deviation over dimensions, as in `ops`."""

import math

import numpy as np

from plugrad import operator, ops
from plugrad.backends.sums import add_reduce
from plugrad_ops.reduction import folds
from plugrad_ops.reduction.ops import kept, reduced_count, spread_array
from plugrad_ops.shape.dims import normalize_dims, reduced_shape


def spread_options(dim, unbiased, correction):
    """`dim` and the correction: PyTorch also takes ``var(unbiased)``, ``unbiased`` for the correction, and None for 1."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        return dim, int(unbiased)
    return dim, 1 if correction is None else correction


def degrees_of(shape, dim, correction):
    """The number of elements less the correction; NaN when nothing is left, as 0 / 0 is."""
    return (
        (reduced_count(shape, dim) - correction)
        if reduced_count(shape, dim) > correction
        else math.nan
    )


def _variance(name, input, dim, unbiased, keepdim, correction):
    """The variance, in double at least: squares of float32 leave its range early."""
    dim, correction = spread_options(dim, unbiased, correction)
    axes = normalize_dims(name, dim, input.ndim)
    input = input.astype(np.promote_types(input.dtype, np.float64), copy=False)
    count = reduced_count(input.shape, dim)
    mean = add_reduce(input, axes, keepdims=True) / input.dtype.type(count)
    square = np.square(input - mean)
    out = add_reduce(square, axes, keepdims=keepdim)
    return out / input.dtype.type(degrees_of(input.shape, dim, correction))


def _var_meta(input, *, dim=None, unbiased=None, keepdim=False, correction=1):
    dim, _ = spread_options(dim, unbiased, correction)
    return reduced_shape(input.shape, normalize_dims("var", dim, input.ndim), keepdim), input.dtype


def _var_samples(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 3, 2), dim=(0, -1), keepdim=True)
    yield make.call(make.normal(4, 3), dim=0, unbiased=False)
    yield make.call(make.normal(4, 3), dim=-1, correction=0.5)
    yield make.call(make.normal(), correction=0)
    yield make.call(make.normal(0, 3), dim=1)
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=2)


def var(input, *, dim=None, unbiased=None, keepdim=False, correction=1):
    """The sum of squared deviations from the mean over `dim`, divided by the number of elements less `correction`.

    ``unbiased=False`` is ``correction=0``. Two passes, so a large mean costs no digits.
    """
    out = _variance("var", input, dim, unbiased, keepdim, correction)
    return out.astype(input.dtype, copy=False)


var = operator(
    "standard::var",
    infer=_var_meta,
    method=True,
    cpu=folds.Variance(var, False),
    cuda=".cuda:var",
)(var)


def _centered(input, dim):
    """Deviations from the mean; the second time, what rounding left of a large mean."""
    apart = input - ops.mean(input, dim=dim, keepdim=True)
    return apart - ops.mean(apart, dim=dim, keepdim=True)


@var.backward
def _(grad, input, dim, unbiased, keepdim, correction):
    dim, correction = spread_options(dim, unbiased, correction)
    scale = 2 / degrees_of(input.shape, dim, correction)
    return kept(grad * scale, input.shape, dim, keepdim) * _centered(input, dim)


def _spread_slopes(scale, input, dim, keepdim):
    """Deviations from the mean times what is the same for all, in double at least."""
    axes = normalize_dims("var", dim, input.ndim)
    x = input.astype(np.promote_types(input.dtype, np.float64), copy=False)
    x = x - add_reduce(x, axes, keepdims=True) / x.dtype.type(reduced_count(x.shape, dim))
    return (spread_array(scale, x.shape, dim, keepdim) * x).astype(input.dtype, copy=False)


def _var_slopes(grad, input, dim, unbiased, keepdim, correction):
    dim, correction = spread_options(dim, unbiased, correction)
    scale = grad.astype(np.promote_types(grad.dtype, np.float64), copy=False)
    scale = scale * (2 / degrees_of(input.shape, dim, correction))
    return _spread_slopes(scale, input, dim, keepdim)


var.backward_kernel(folds.VarianceSlopes(_var_slopes))
var.samples(_var_samples)


def _constant_slices(input, *, tol, dim=None, unbiased=None, keepdim=False, correction=1):
    dim, _ = spread_options(dim, unbiased, correction)
    axes = normalize_dims("std", dim, input.ndim)
    if not input.size:
        return np.zeros(input.shape, bool)
    spread_out = np.max(input, axis=axes, keepdims=True) - np.min(input, axis=axes, keepdims=True)
    return np.broadcast_to(spread_out <= tol, input.shape)


def std(input, *, dim=None, unbiased=None, keepdim=False, correction=1):
    """The square root of `var`; where that is 0 the gradient is 0."""
    out = np.sqrt(_variance("std", input, dim, unbiased, keepdim, correction))
    return out.astype(input.dtype, copy=False)


std = operator(
    "standard::std",
    infer=_var_meta,
    kinks=_constant_slices,
    method=True,
    cpu=folds.Variance(std, True),
    cuda=".cuda:std",
)(std)


@std.backward
def _(grad, input, out, dim, unbiased, keepdim, correction):
    dim, correction = spread_options(dim, unbiased, correction)
    flat, shape = out == 0, input.shape
    scale = ops.where(flat, 0, grad) / degrees_of(shape, dim, correction)
    # Deviations are as large as `out`; 1 / out may leave the range.
    ratio = _centered(input, dim) / kept(ops.where(flat, 1, out), shape, dim, keepdim)
    return kept(scale, shape, dim, keepdim) * ratio


def _std_slopes(grad, input, out, dim, unbiased, keepdim, correction):
    dim, correction = spread_options(dim, unbiased, correction)
    flat, out = out == 0, out.astype(np.promote_types(out.dtype, np.float64), copy=False)
    scale = np.where(flat, 0, grad / np.where(flat, 1, out))
    scale = scale / degrees_of(input.shape, dim, correction)
    return _spread_slopes(scale, input, dim, keepdim)


std.backward_kernel(folds.DeviationSlopes(_std_slopes))
std.samples(_var_samples)
