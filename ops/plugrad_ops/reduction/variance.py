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
    dim, correction = spread_options(dim, unbiased, correction)
    axes = normalize_dims(name, dim, input.ndim)
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


@var.backward
def _(grad, input, dim, unbiased, keepdim, correction):
    dim, correction = spread_options(dim, unbiased, correction)
    scale = 2 / degrees_of(input.shape, dim, correction)
    return kept(grad * scale, input.shape, dim, keepdim) * (
        input - ops.mean(input, dim=dim, keepdim=True)
    )


def _deviations(input, dim):
    axes = normalize_dims("var", dim, input.ndim)
    count = input.dtype.type(reduced_count(input.shape, dim))
    return input - add_reduce(input, axes, keepdims=True) / count


def _var_slopes(grad, input, dim, unbiased, keepdim, correction):
    dim, correction = spread_options(dim, unbiased, correction)
    scale = input.dtype.type(2 / degrees_of(input.shape, dim, correction))
    return spread_array(grad * scale, input.shape, dim, keepdim) * _deviations(input, dim)


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
    flat = out == 0
    scale = ops.where(flat, 0, grad / ops.where(flat, 1, out)) / degrees_of(
        input.shape, dim, correction
    )
    return kept(scale, input.shape, dim, keepdim) * (input - ops.mean(input, dim=dim, keepdim=True))


def _std_slopes(grad, input, out, dim, unbiased, keepdim, correction):
    dim, correction = spread_options(dim, unbiased, correction)
    flat = out == 0
    scale = np.where(flat, 0, grad / np.where(flat, 1, out))
    scale = (scale / degrees_of(input.shape, dim, correction)).astype(input.dtype)
    return spread_array(scale, input.shape, dim, keepdim) * _deviations(input, dim)


std.backward_kernel(folds.DeviationSlopes(_std_slopes))
std.samples(_var_samples)
