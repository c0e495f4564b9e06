"""Sums, means, products and logsumexp over dimensions.

`dim` is an integer, a tuple of integers, or None for all dimensions (an empty tuple means all, too). A rule gets
the gradient of the reduced shape back to the shape of `input` by inserting the reduced dimensions and expanding them: no
memory is written for that.
"""

import math

import numpy as np

from plugrad import operator, ops
from plugrad.backends.dtypes import kind, wide
from plugrad.backends.sums import add_reduce
from plugrad_ops.activation import softmax_cpu
from plugrad_ops.reduction import folds
from plugrad_ops.shape.cpu import expanded
from plugrad_ops.shape.dims import normalize_dims, reduced_shape

# ---- shared by the rules -------------------------------------------------------------------------------------


def kept(tensor, shape, dim, keepdim):
    """A tensor of the reduced shape with the reduced dimensions back in place, as length 1."""
    if keepdim:
        return tensor
    return ops.reshape(tensor, reduced_shape(shape, normalize_dims("dim", dim, len(shape)), True))


def spread(tensor, shape, dim, keepdim):
    """A tensor of the reduced shape expanded to `shape`, the shape before the reduction."""
    return ops.expand(kept(tensor, shape, dim, keepdim), size=shape)


def spread_array(array, shape, dim, keepdim):
    """`spread` of an array, or of the number that NumPy makes of a 0-d one."""
    array = np.asarray(array)
    if not keepdim and array.ndim:
        array = array.reshape(reduced_shape(shape, normalize_dims("dim", dim, len(shape)), True))
    return expanded(array, shape)


def reduced_count(shape, dim):
    """The number of elements that are reduced to one."""
    return math.prod(shape[axis] for axis in normalize_dims("dim", dim, len(shape)))


def total_dtype(dtype, asked=None):
    """The dtype of sums and products: what was asked for, int64 for bools and integers, else the input's."""
    if asked is not None:
        return np.dtype(asked)
    return np.dtype(np.int64) if dtype.kind in "biu" else dtype


def real_part(input, dtype):
    """What of `input` a result in `dtype` is of: the real parts of complex numbers where it is real."""
    return input.real if input.dtype.kind == "c" and dtype.kind != "c" else input


def accumulate(ufunc, input, axes, keepdim, dtype):
    """``ufunc.reduce`` with the result in `dtype`, summed up in float32 at least."""
    input = real_part(input, dtype)
    if ufunc is np.add:
        out = add_reduce(input, axes, wide(dtype), keepdim)
    else:
        out = ufunc.reduce(input, axis=axes, dtype=wide(dtype), keepdims=keepdim)
    return out.astype(dtype) if out.dtype != dtype else out


def _axes(name, dim, input):
    """What NumPy calls `axis`; None, all of them, is faster than their tuple."""
    return None if dim is None else normalize_dims(name, dim, input.ndim)


# ---- sum, mean, prod -----------------------------------------------------------------------------------------


def _sum_meta(input, *, dim=None, keepdim=False, dtype=None):
    axes = normalize_dims("sum", dim, input.ndim)
    return reduced_shape(input.shape, axes, keepdim), total_dtype(input.dtype, dtype)


def sum(input, *, dim=None, keepdim=False, dtype=None):
    """The sum over `dim`; bools and integers are summed in int64 unless `dtype` says otherwise."""
    dtype = total_dtype(input.dtype, dtype)
    return accumulate(np.add, input, _axes("sum", dim, input), keepdim, dtype)


sum = operator(
    "standard::sum",
    dtypes="number",
    infer=_sum_meta,
    method=True,
    cpu=folds.Sum(sum),
    cuda=".cuda:sum",
)(sum)


@sum.backward
def _(grad, like, dim, keepdim):
    return spread(grad, like.input.shape, dim, keepdim)


@sum.backward_kernel
def _(grad, like, dim, keepdim):
    return spread_array(grad, like.input.shape, dim, keepdim)


@sum.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 3, 2), dim=(0, -1), keepdim=True)
    yield make.call(make.normal(2, 3, 2), dim=1)
    yield make.call(make.normal(), dim=0)
    yield make.call(make.normal(0, 3), dim=0)
    yield make.call(make.normal(0, 3))
    yield make.call(make.complex(2, 3), dim=1)
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=2)
    yield make.error(RuntimeError, "twice", make.normal(2, 3), dim=(0, -2))
    yield make.error(TypeError, "integer", make.normal(2, 3), dim=1.5)


def _sum_to_meta(input, *, shape):
    _sum_to_axes(input.shape, shape)
    return tuple(shape), input.dtype


def _sum_to_axes(have, shape):
    extra = len(have) - len(shape)
    if extra < 0 or any(n != m and m != 1 for n, m in zip(have[extra:], shape)):
        raise RuntimeError(
            f"sum_to: shape {have} is no broadcast of {tuple(shape)}, so it cannot be summed to it"
        )
    ones = (extra + i for i, m in enumerate(shape) if m == 1 and have[extra + i] != 1)
    return (*range(extra), *ones)


def sum_array_to(array, shape):
    """`array` summed to `shape`; `array` itself where there is nothing to sum."""
    axes = _sum_to_axes(array.shape, shape)
    return accumulate(np.add, array, axes, False, array.dtype).reshape(shape) if axes else array


@operator("standard::sum_to", dtypes="number", infer=_sum_to_meta, cuda=".cuda:sum_to")
def sum_to(input, *, shape):
    """The adjoint of broadcasting: `input` summed over what broadcasting `shape` to its shape would repeat."""
    out = sum_array_to(input, shape)
    return out.copy() if out is input else out


@sum_to.backward
def _(grad, like):
    return ops.expand(grad, size=like.input.shape)


@sum_to.samples
def _(make):
    yield make.call(make.normal(2, 3), shape=(1, 3))
    yield make.call(make.normal(2, 3), shape=())
    yield make.call(make.normal(4, 2, 3), shape=(2, 1))
    yield make.call(make.normal(2, 3), shape=(2, 3))
    yield make.call(make.normal(0, 3), shape=(1, 3))
    yield make.call(make.normal(2, 0), shape=(0,))
    yield make.call(make.complex(2, 3), shape=(3,))
    yield make.error(RuntimeError, "cannot be summed", make.normal(2, 3), shape=(2,))


def mean_dtype(dtype, asked=None):
    """The dtype of a mean.

    Raises
    ------
    TypeError
        It is one that has no fractions.
    """
    found = np.dtype(asked or dtype)
    if kind(found) not in "fc":
        raise TypeError(f"mean: the result must be floating, got {found}; for integers give dtype=")
    return found


def _mean_meta(input, *, dim=None, keepdim=False, dtype=None):
    axes = normalize_dims("mean", dim, input.ndim)
    return reduced_shape(input.shape, axes, keepdim), mean_dtype(input.dtype, dtype)


def mean(input, *, dim=None, keepdim=False, dtype=None):
    """The mean over `dim`; NaN where there is nothing to average.

    Raises
    ------
    TypeError
        The input holds integers and no `dtype` is given, or `dtype` is one of integers.
    """
    dtype = mean_dtype(input.dtype, dtype)
    input = real_part(input, dtype)
    work = wide(dtype)
    out = add_reduce(input, _axes("mean", dim, input), work, keepdim)
    count = input.size if dim is None else reduced_count(input.shape, dim)
    return np.divide(out, work.type(count), dtype=work).astype(dtype, copy=False)


mean = operator(
    "standard::mean",
    dtypes="number",
    infer=_mean_meta,
    method=True,
    cpu=folds.Mean(mean),
    cuda=".cuda:mean",
)(mean)


@mean.backward
def _(grad, like, dim, keepdim):
    count = max(reduced_count(like.input.shape, dim), 1)
    return spread(grad / count, like.input.shape, dim, keepdim)


@mean.backward_kernel
def _(grad, like, dim, keepdim):
    shape = like.input.shape
    count = max(reduced_count(shape, dim), 1)
    return spread_array(np.asarray(grad / grad.dtype.type(count)), shape, dim, keepdim)


@mean.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 3, 2), dim=(0, -1), keepdim=True)
    yield make.call(make.normal(2, 3, 2), dim=1)
    yield make.call(make.normal(), dim=-1)
    yield make.call(make.normal(0, 3), dim=1)
    yield make.call(make.integers(2, 3), dim=1, dtype=np.dtype(np.float64))
    yield make.call(make.complex(2, 3), dim=0)
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=2)
    yield make.error(TypeError, "floating", make.integers(3))


def _prod_meta(input, *, dim=None, keepdim=False, dtype=None):
    axes = normalize_dims("prod", dim, input.ndim)
    return reduced_shape(input.shape, axes, keepdim), total_dtype(input.dtype, dtype)


def prod(input, *, dim=None, keepdim=False, dtype=None):
    """The product over `dim`; bools and integers are multiplied in int64 unless `dtype` says otherwise."""
    dtype = total_dtype(input.dtype, dtype)
    return accumulate(np.multiply, input, _axes("prod", dim, input), keepdim, dtype)


prod = operator(
    "standard::prod",
    dtypes="number",
    infer=_prod_meta,
    method=True,
    cpu=folds.Product(prod),
    cuda=".cuda:prod",
)(prod)


@prod.backward
def _(grad, input, dim, keepdim):
    if grad.dtype.kind != "c":
        input = input.real
    if (
        grad.dtype != input.dtype
    ):  # a narrower `dtype` concerns the result, not the gradient of a wider input
        grad = ops.cast(grad, dtype=input.dtype)
    # The product as a binary tree and its gradient down that tree: no division, so zeros need no case of their own,
    # and only products, so it can be differentiated any number of times.
    shape = input.shape
    axes = normalize_dims("prod", dim, len(shape))
    rest = tuple(axis for axis in range(len(shape)) if axis not in axes)
    order = rest + axes
    outer = tuple(shape[axis] for axis in rest)
    n = math.prod(shape[axis] for axis in axes)
    level = ops.reshape(ops.permute(input, dims=order), (*outer, n))
    below = ops.reshape(grad, (*outer, 1))
    if n == 0:
        return ops.expand(kept(grad, shape, dim, keepdim), size=shape)
    levels = []
    while (n := level.shape[-1]) > 1:
        half, odd = n // 2, level[..., n - n % 2 :]
        a, b = level[..., :half], level[..., half : 2 * half]
        levels.append((a.conj(), b.conj()))
        level = ops.cat([a * b, odd], -1) if n % 2 else a * b
    for a, b in reversed(levels):
        half = a.shape[-1]
        own, odd = below[..., :half], below[..., half:]
        below = ops.cat([own * b, own * a, odd] if odd.shape[-1] else [own * b, own * a], -1)
    below = ops.reshape(below, tuple(shape[axis] for axis in order))
    return ops.permute(below, dims=tuple(sorted(range(len(order)), key=order.__getitem__)))


def _other_factors(grad, input, out, dim, keepdim):
    """The gradient of products by what comes before and what comes after each factor."""
    if grad.dtype.kind != "c":
        input = input.real
    if not input.size:
        return np.empty(input.shape, input.dtype)
    shape, work = input.shape, np.result_type(input.dtype, np.float64)
    axes = normalize_dims("prod", dim, len(shape))
    rest = tuple(axis for axis in range(len(shape)) if axis not in axes)
    n = math.prod(shape[axis] for axis in axes)
    x = input.transpose(rest + axes).reshape(-1, n).astype(work)
    before, after = np.ones((2, *x.shape), work)
    np.cumprod(x[:, :-1], axis=1, out=before[:, 1:])
    np.cumprod(x[:, :0:-1], axis=1, out=after[:, -2::-1])
    slope = (before * after).conj() * grad.reshape(-1, 1)
    slope = slope.reshape([shape[axis] for axis in rest + axes])
    return slope.transpose(np.argsort(rest + axes)).astype(input.dtype)


prod.backward_kernel(folds.ProductSlopes(_other_factors))


@prod.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 5, 2), dim=1, keepdim=True)
    yield make.call(make.normal(2, 3, 2), dim=(0, -1))
    yield make.call(make.values([2.0, 3.0, 0.0, 0.0]))
    yield make.call(make.values([[2.0, 0.0, 4.0], [1.0, 2.0, 3.0]]), dim=-1)
    yield make.call(make.normal(), dim=0)
    yield make.call(make.complex(3), dim=0)
    yield make.call(make.complex(2), dtype=np.dtype(np.float64))
    yield make.call(make.normal(0, 3), dim=0)
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=-3)


# ---- logsumexp -----------------------------------------------------------------------------------------------


def stable_logsumexp(input, axes, keepdim):
    """log Σ exp(x) without overflow: the greatest element is taken out first, unless it is infinite."""
    top = np.maximum.reduce(input, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, input.dtype.type(0))
    total = add_reduce(np.exp(input - top), axes, keepdims=True)
    out = np.log(total) + top
    return (out if keepdim else out.reshape(reduced_shape(input.shape, axes, False))).astype(
        input.dtype, copy=False
    )


def fractional(dtype):
    """`dtype`, or float32 for integers and bools."""
    return dtype if kind(dtype) in "fc" else np.dtype(np.float32)


def _logsumexp_meta(input, *, dim, keepdim=False):
    axes = normalize_dims("logsumexp", dim, input.ndim)
    return reduced_shape(input.shape, axes, keepdim), fractional(input.dtype)


def logsumexp(input, *, dim, keepdim=False):
    """log Σ exp(input) over `dim`, without overflow; -inf where there is nothing, or nothing above -inf."""
    input = input.astype(fractional(input.dtype), copy=False)
    return stable_logsumexp(input, normalize_dims("logsumexp", dim, input.ndim), keepdim)


logsumexp = operator(
    "standard::logsumexp",
    dtypes="numeric",
    infer=_logsumexp_meta,
    method=True,
    cpu=softmax_cpu.LogSumExp(logsumexp),
    cuda=".cuda:logsumexp",
)(logsumexp)


@logsumexp.backward
def _(grad, input, out, dim, keepdim):
    # An infinite result has no softmax (inf - inf). At -inf the gradient is 0; at inf the elements that are inf share it.
    # Each `where` guards what is computed as well as what is returned, so that no NaN appears at second order.
    top = kept(out, input.shape, dim, keepdim)
    infinite = ops.abs(top) == math.inf
    weight = ops.exp(ops.where(infinite, 0, input - top))
    hit = ops.cast((input == top) & (top > 0), dtype=input.dtype)
    count = ops.clamp(ops.sum(hit, dim=dim, keepdim=True), min=1)
    weight = ops.where(infinite, hit / count, weight)
    return kept(grad, input.shape, dim, keepdim) * weight


def _logsumexp_gradient(grad, input, out, dim, keepdim):
    top = spread_array(out, input.shape, dim, keepdim)
    weight = np.exp(input - top)
    infinite = np.isinf(top)
    if infinite.any():
        hit = ((input == top) & (top > 0)).astype(input.dtype)
        axes = normalize_dims("logsumexp", dim, input.ndim)
        count = np.maximum(add_reduce(hit, axes, keepdims=True), 1)
        weight = np.where(infinite, hit / count, weight)
    return spread_array(grad, input.shape, dim, keepdim) * weight


logsumexp.backward_kernel(softmax_cpu.LogSumExpGradient(_logsumexp_gradient))


@logsumexp.samples
def _(make):
    yield make.call(make.normal(2, 3), dim=1)
    yield make.call(make.normal(2, 3, 2), dim=(0, -1), keepdim=True)
    yield make.call(make.values([800.0, 801.0, -800.0]), dim=0)
    yield make.call(make.normal(), dim=0)
    yield make.call(make.normal(0, 3), dim=1)
    yield make.call(make.normal(3, 0), dim=1)
    yield make.call(make.integers(3), dim=0)
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=2)
