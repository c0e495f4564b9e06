"""Running sums and products along a dimension, and the linear recurrence that a running product's gradient is."""

import numpy as np

from plugrad import operator, ops
from plugrad.backends.dtypes import kind
from plugrad_ops.reduction import cpu
from plugrad_ops.reduction.ops import real_part, total_dtype
from plugrad_ops.shape.dims import normalize_dim


def _scan_meta(input, *, dim, dtype=None):
    normalize_dim("scan", dim, input.ndim)
    return input.shape, total_dtype(input.dtype, dtype)


def _accumulate(name, ufunc, input, dim, dtype):
    axis = normalize_dim(name, dim, input.ndim)
    dtype = total_dtype(input.dtype, dtype)
    input = real_part(input, dtype)
    if not input.ndim:
        return input.astype(dtype)
    if input.dtype == dtype and dtype.char in ("fd" if ufunc is np.multiply else "fdFD"):
        return cpu.running(input, axis, ufunc is np.multiply)
    # Long runs in a narrow dtype would lose their small steps.
    work = np.promote_types(dtype, np.float64) if kind(dtype) in "fc" else dtype
    return ufunc.accumulate(input, axis=axis, dtype=work).astype(dtype, copy=False)


def _written(loop, *arrays):
    """What a loop writes that takes arrays of one dtype, the result and an axis; float16 goes through float32."""
    *arrays, axis = arrays
    dtype = arrays[-1].dtype
    work = np.promote_types(dtype, np.float32)
    arrays = [np.ascontiguousarray(x, work) for x in arrays]
    out = np.empty_like(arrays[-1])
    loop(*arrays, out, axis)
    return out.astype(dtype, copy=False)


def _scan_samples(make):
    yield make.call(make.normal(4), dim=0)
    yield make.call(make.normal(2, 3), dim=-1)
    yield make.call(make.values([[2.0, 1.0], [0.0, 3.0], [3.0, 0.0], [4.0, 0.0]]), dim=0)
    yield make.call(make.normal(), dim=0)
    yield make.call(make.normal(0, 3), dim=0)
    yield make.call(make.integers(3), dim=0, dtype=np.dtype(np.float64))
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=2)


@operator("standard::cumsum", dtypes="number", infer=_scan_meta, method=True, cuda=".cuda:cumsum")
def cumsum(input, *, dim, dtype=None):
    """Element i is the sum of elements 0 to i of dimension `dim`."""
    return _accumulate("cumsum", np.add, input, dim, dtype)


@cumsum.backward
def _(grad, dim):
    return ops.flip(ops.cumsum(ops.flip(grad, dims=dim), dim=dim), dims=dim)


@cumsum.backward_kernel
def _(grad, dim):
    if not grad.ndim:
        return grad
    axis = normalize_dim("cumsum", dim, grad.ndim)
    if grad.dtype.char in "fdFD":
        return cpu.running(grad, axis, False, True)
    return np.flip(np.add.accumulate(np.flip(grad, axis), axis=axis, dtype=grad.dtype), axis)


@cumsum.samples
def _(make):
    yield from _scan_samples(make)
    yield make.call(make.complex(2, 3), dim=1)


@operator("standard::cumprod", dtypes="number", infer=_scan_meta, method=True, cuda=".cuda:cumprod")
def cumprod(input, *, dim, dtype=None):
    """Element i is the product of elements 0 to i of dimension `dim`."""
    return _accumulate("cumprod", np.multiply, input, dim, dtype)


@cumprod.backward
def _(grad, input, out, dim):
    # The gradient of element i is out[i-1] s[i], where s[i] = grad[i] + input[i+1] s[i+1]: no division, so zeros need no
    # case of their own. Complex factors are conjugated.
    if not input.ndim or not input.shape[dim]:
        return grad
    if grad.dtype.kind != "c":
        input = input.real
    ahead = _shifted(ops.flip(input.conj(), dims=dim), dim)
    s = ops.flip(ops.linear_scan(ahead, ops.flip(grad, dims=dim), dim=dim), dims=dim)
    n = input.shape[dim]
    first, rest = ops.narrow(s, dim, 0, 1), ops.narrow(s, dim, 1, n - 1)
    return ops.cat([first, rest * ops.narrow(out.conj(), dim, 0, n - 1)], dim)


@cumprod.backward_kernel
def _(grad, input, out, dim):
    input = real_part(input, grad.dtype)
    if not grad.size or not grad.ndim:
        return grad
    if grad.dtype.kind == "c":
        input, out = np.conjugate(input), np.conjugate(out)
    axis = normalize_dim("cumprod", dim, grad.ndim)
    if input.dtype != grad.dtype:
        input = input.astype(grad.dtype)
    return _written(cpu.cumprod_backward, grad, input, out, axis)


@cumprod.samples
def _(make):
    yield from _scan_samples(make)
    yield make.call(make.complex(3, 2), dim=0)
    yield make.call(make.complex(3), dim=0, dtype=np.dtype(np.float64))


def _shifted(x, dim):
    """Every element one further along `dim`; what stands first does not matter to a recurrence, so the last does."""
    n = x.shape[dim]
    return ops.cat([ops.narrow(x, dim, n - 1, 1), ops.narrow(x, dim, 0, n - 1)], dim)


@operator(
    "standard::linear_scan",
    dtypes="complex",
    infer=lambda factor, term, *, dim: (term.shape, term.dtype),
    cuda=".cuda:linear_scan",
)
def linear_scan(factor, term, *, dim):
    """``out[i] = factor[i] * out[i - 1] + term[i]`` along `dim`, from ``out[0] = term[0]``.

    Raises
    ------
    RuntimeError
        The two shapes differ.
    """
    if factor.shape != term.shape:
        raise RuntimeError(
            f"linear_scan: factor and term must have one shape, got {factor.shape} and {term.shape}"
        )
    axis = normalize_dim("linear_scan", dim, term.ndim)
    return _written(cpu.linear_scan, factor, term, axis) if term.size and term.ndim else term.copy()


@linear_scan.backward
def _(grad, factor, out, dim, needs):
    # The adjoint is the same recurrence from the other end.
    if not grad.ndim or not grad.shape[dim]:
        return (ops.zeros_like(factor) if needs.factor else None), grad
    back = _shifted(ops.flip(factor.conj(), dims=dim), dim)
    grad_term = ops.flip(ops.linear_scan(back, ops.flip(grad, dims=dim), dim=dim), dims=dim)
    grad_factor = None
    if needs.factor:
        n = out.shape[dim]
        moved = ops.narrow(grad_term, dim, 1, n - 1) * ops.narrow(out.conj(), dim, 0, n - 1)
        grad_factor = ops.cat([ops.zeros_like(ops.narrow(grad_term, dim, 0, 1)), moved], dim)
    return grad_factor, grad_term


@linear_scan.samples
def _(make):
    yield make.call(make.normal(4), make.normal(4), dim=0)
    yield make.call(make.normal(2, 3), make.normal(2, 3), dim=-1)
    yield make.call(make.normal(1, 3), make.normal(1, 3), dim=0)
    yield make.call(make.normal(), make.normal(), dim=0)
    yield make.call(make.normal(0, 3), make.normal(0, 3), dim=0)
    yield make.call(make.complex(3, 2), make.complex(3, 2), dim=0)
    yield make.error(RuntimeError, "one shape", make.normal(2), make.normal(3), dim=0)
