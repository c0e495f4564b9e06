"""Softmax and its logarithm along one dimension."""

from __future__ import annotations

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.sums import add_reduce
from plugrad_ops.activation import softmax_cpu


def _same_meta(input, *, dim):
    return input.shape, input.dtype


def _axis(name, input, dim):
    """`dim` if it is a dimension of `input`; a 0-d input counts as a row of one element."""
    ndim = max(input.ndim, 1)
    if not isinstance(dim, int) or not -ndim <= dim < ndim:
        raise IndexError(
            f"{name}: dim must be an integer from {-ndim} to {ndim - 1} for shape {input.shape}, got {dim!r}"
        )
    return dim if input.ndim else None


def _shifted(name, input, dim):
    """`input` less its largest element along `dim`, so that no exponential overflows; and the axis."""
    axis = _axis(name, input, dim)
    out = np.empty(input.shape, input.dtype)
    if out.size:
        np.subtract(input, np.max(input, axis=axis, keepdims=True), out=out)
    return out, axis


def _samples(make):
    yield make.call(make.normal(3, 4), dim=1)
    yield make.call(make.normal(2, 3, 2), dim=-2)
    yield make.call(make.values([300.0, -300.0, 299.0]), dim=0)
    yield make.call(make.values(1.5), dim=0)
    yield make.call(make.normal(0, 3), dim=1)
    yield make.error(IndexError, "dim", make.normal(2, 3), dim=2)


def softmax(input, *, dim):
    """Exponentials divided by their sum along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int
        The dimension along which the result sums to 1.

    Raises
    ------
    IndexError
        `input` has no dimension `dim`.
    """
    out, axis = _shifted("softmax", input, dim)
    np.exp(out, out=out)
    out /= add_reduce(out, axis, keepdims=True)
    return out


softmax = operator(
    "standard::softmax",
    infer=_same_meta,
    method=True,
    cpu=softmax_cpu.softmax(softmax),
    cuda=".softmax_cuda:softmax",
)(softmax)


@softmax.backward
def _(grad, out, dim):
    weighted = grad * out
    return weighted - out * ops.sum(weighted, dim=dim, keepdim=True)


def _softmax_gradient(grad, out, dim):
    weighted = grad * out
    return weighted - out * add_reduce(weighted, dim if out.ndim else None, keepdims=True)


softmax.backward_kernel(softmax_cpu.softmax_gradient(_softmax_gradient))
softmax.backward_kernel(cuda=".softmax_cuda:softmax_backward")
softmax.samples(_samples)
softmax.variant("dtype", "standard::softmax_in", default=None)


def log_softmax(input, *, dim):
    """Logarithm of the softmax along `dim`, without forming the softmax.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int
        The dimension along which the exponentials of the result sum to 1.

    Raises
    ------
    IndexError
        `input` has no dimension `dim`.
    """
    out, axis = _shifted("log_softmax", input, dim)
    out -= np.log(add_reduce(np.exp(out), axis, keepdims=True))
    return out


log_softmax = operator(
    "standard::log_softmax",
    infer=_same_meta,
    method=True,
    cpu=softmax_cpu.log_softmax(log_softmax),
    cuda=".softmax_cuda:log_softmax",
)(log_softmax)


@log_softmax.backward
def _(grad, out, dim):
    return grad - ops.exp(out) * ops.sum(grad, dim=dim, keepdim=True)


def _log_softmax_gradient(grad, out, dim):
    return grad - np.exp(out) * add_reduce(grad, dim if out.ndim else None, keepdims=True)


log_softmax.backward_kernel(softmax_cpu.log_softmax_gradient(_log_softmax_gradient))
log_softmax.backward_kernel(cuda=".softmax_cuda:log_softmax_backward")
log_softmax.samples(_samples)
log_softmax.variant("dtype", "standard::log_softmax_in", default=None)


@composite("standard::softmax_in")
def softmax_in(input, dim, *, dtype=None):
    """`softmax` of the input in another dtype: ``softmax(dtype=)``."""
    return ops.softmax(input if dtype is None else input.to(dtype), dim=dim)


@composite("standard::log_softmax_in")
def log_softmax_in(input, dim, *, dtype=None):
    """`log_softmax` of the input in another dtype: ``log_softmax(dtype=)``."""
    return ops.log_softmax(input if dtype is None else input.to(dtype), dim=dim)


def _in_samples(make):
    yield make.call(make.normal(3, 4), 1, dtype=np.dtype(np.float64))
    yield make.call(make.normal(2, 3), 0)
    yield make.call(make.integers(3), 0, dtype=np.dtype(np.float64))
    yield make.error(IndexError, "dim", make.normal(2, 3), 2, dtype=np.dtype(np.float64))


softmax_in.samples(_in_samples)
log_softmax_in.samples(_in_samples)
