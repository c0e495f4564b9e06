"""Special functions: the gamma function's, the inverse error function, sinc, and products with logarithms.

Each derivative is again an operator of this file, so that all can be differentiated at any order.
"""

from __future__ import annotations

import math
from operator import index

import numpy as np

from plugrad import Tensor, composite, operator, ops
from plugrad_ops.arithmetic import gradients_cpu, special_cpu
from plugrad_ops.arithmetic.ops import is_number
from plugrad_ops.sampling import binary, unary


def evaluated(name, input, order=0):
    """A special function of each number, of any dtype, or its derivative number `order` where it has that parameter."""
    out = np.array(input, np.float64, order="C")
    special_cpu.write_each(name, out, order)
    return out.astype(input.dtype, copy=False)


def slope(loop, name, order=0):
    """A backward kernel: the gradient times a special function of the input, by the loop of that name."""

    def times(grad, input):
        return grad * evaluated(name, input, order)

    return special_cpu.Slope(times, loop)


# --------------------------------------------------------------------- the gamma function's


def lgamma(input):
    """Logarithm of the absolute value of the gamma function; inf at 0 and the negative integers."""
    return evaluated("lgamma", input)


lgamma = operator(
    "standard::lgamma",
    elementwise=True,
    cpu=special_cpu.Special(lgamma, "lgamma"),
    cuda="lgamma(input)",
    method=True,
)(lgamma)


@lgamma.backward
def _(grad, input):
    return grad * ops.digamma(input)


lgamma.backward_kernel(slope("digamma", "digamma"))


@lgamma.samples
def _(make):
    yield from unary(make, low=0.3, high=4.0)
    yield make.call(make.values([-0.5, -1.7, 30.0, 2.0]))


def digamma(input):
    """Derivative of `lgamma`; -inf at 0, NaN at the negative integers."""
    return evaluated("digamma", input)


digamma = operator(
    "standard::digamma",
    elementwise=True,
    cpu=special_cpu.Special(digamma, "digamma"),
    cuda=".special_cuda:digamma",
    method=True,
)(digamma)


@digamma.backward
def _(grad, input):
    return grad * ops.polygamma_of_order(input, order=1)


digamma.backward_kernel(slope("polygamma", "polygamma", 1))


@digamma.samples
def _(make):
    yield from unary(make, low=0.3, high=4.0)
    yield make.call(make.values([-0.5, -1.7, 30.0, 2.0]))


def polygamma_of_order(input, *, order=1):
    """Derivative number `order` of `digamma`."""
    if order < 0:
        raise ValueError(f"polygamma: the order must be 0 or greater, got {order}")
    return evaluated("polygamma", input, order)


polygamma_of_order = operator(
    "standard::polygamma_of_order",
    elementwise=True,
    cpu=special_cpu.Special(polygamma_of_order, "polygamma"),
    cuda=".special_cuda:polygamma_of_order",
)(polygamma_of_order)


@polygamma_of_order.backward
def _(grad, input, order):
    return grad * ops.polygamma_of_order(input, order=order + 1)


@polygamma_of_order.samples
def _(make):
    yield make.call(make.uniform(3, 4, low=0.5, high=4.0), order=1)
    yield make.call(make.values([0.8, -0.5, -1.7, 30.0]), order=2)
    yield make.call(make.uniform(2, low=0.5, high=4.0), order=0)
    yield make.error(ValueError, "0 or greater", make.positive(3), order=-1)


@composite("standard::polygamma", method=True)
def polygamma(n, input):
    """Derivative number `n` of the digamma function: ``polygamma(n, input)`` or ``input.polygamma(n)``.

    Raises
    ------
    ValueError
        `n` is negative.
    TypeError
        `n` is no integer.
    """
    if isinstance(n, Tensor):
        n, input = input, n
    try:
        order = index(n)
    except TypeError:
        raise TypeError(f"polygamma: n must be an integer, got {n!r}") from None
    return ops.digamma(input) if order == 0 else ops.polygamma_of_order(input, order=order)


@polygamma.samples
def _(make):
    yield make.call(0, make.positive(2, 3))
    yield make.call(1, make.positive(3))
    yield make.call(3, make.positive())
    yield make.error(ValueError, "0 or greater", -1, make.positive(3))


@composite("standard::mvlgamma", method=True)
def mvlgamma(input, p):
    """Logarithm of the multivariate gamma function of dimension `p`.

    Raises
    ------
    ValueError
        `p` is less than 1.
    """
    if p < 1:
        raise ValueError(f"mvlgamma: p must be 1 or greater, got {p}")
    out = ops.lgamma(input) + p * (p - 1) / 4 * math.log(math.pi)
    for j in range(1, p):
        out = out + ops.lgamma(input - j / 2)
    return out


@mvlgamma.samples
def _(make):
    yield make.call(make.uniform(2, 3, low=1.5, high=4.0), 3)
    yield make.call(make.positive(), 1)
    yield make.call(make.positive(0), 2)
    yield make.error(ValueError, "1 or greater", make.positive(3), 0)


# ------------------------------------------------------------------------------------ erfinv


def erfinv(input):
    """The number whose error function is `input`; infinite at -1 and 1, NaN beyond."""
    return evaluated("erfinv", input)


erfinv = operator(
    "standard::erfinv",
    elementwise=True,
    cpu=special_cpu.Special(erfinv, "erfinv"),
    cuda=".special_cuda:erfinv",
    method=True,
)(erfinv)


@erfinv.backward
def _(grad, out):
    return grad * ops.exp(out * out) * (math.sqrt(math.pi) / 2.0)


def _erfinv_slope(grad, out):
    return grad * np.exp(out * out) * (math.sqrt(math.pi) / 2.0)


erfinv.backward_kernel(special_cpu.Slope(_erfinv_slope, "erfinv_slope"))


@erfinv.samples
def _(make):
    yield from unary(make, low=-0.9, high=0.9)


# -------------------------------------------------------------------------------------- sinc


def sinc_derivative(input, *, order=1):
    """Derivative number `order` of `sinc`, accurate near 0 too."""
    if order < 0:
        raise ValueError(f"sinc_derivative: the order must be 0 or greater, got {order}")
    return evaluated("sinc", input, order)


sinc_derivative = operator(
    "standard::sinc_derivative",
    elementwise=True,
    cpu=special_cpu.Special(sinc_derivative, "sinc_derivative"),
    cuda=".special_cuda:sinc_derivative",
)(sinc_derivative)


@sinc_derivative.backward
def _(grad, input, order):
    return grad * ops.sinc_derivative(input, order=order + 1)


@sinc_derivative.samples
def _(make):
    yield make.call(make.uniform(3, 4, low=-2.0, high=2.0), order=1)
    yield make.call(make.values([0.0, 1e-4, 0.5, 1.0]), order=2)
    yield make.call(make.uniform(2, 3), order=3)


def sinc(input):
    """``sin(pi * input) / (pi * input)``, and 1 at 0."""
    return evaluated("sinc", input)


sinc = operator(
    "standard::sinc",
    elementwise=True,
    cpu=special_cpu.Special(sinc, "sinc"),
    cuda=".special_cuda:sinc",
    method=True,
)(sinc)


@sinc.backward
def _(grad, input):
    return grad * ops.sinc_derivative(input, order=1)


sinc.backward_kernel(slope("sinc_derivative", "sinc", 1))


@sinc.samples
def _(make):
    yield from unary(make)
    yield make.call(make.values([0.0, 1e-4, 1.0]))


# ----------------------------------------------------------------- products with logarithms


def _times_log(log, input, other):
    """``input * log(other)``, where 0 wins against the infinity at a zero of `other`."""
    logarithm = log(other) if isinstance(other, np.ndarray) else float(log(other))
    out = np.asarray(input * logarithm)
    out[np.broadcast_to((input == 0) & ~np.isnan(other), out.shape)] = 0
    return out


def _scaled_by_log(log, grad, input, other):
    """The gradient by `input` where `other` is a number, whose logarithm need not be rounded to a tensor's dtype."""
    with np.errstate(all="ignore"):
        factor = float(log(other))
    if math.isfinite(factor) or other != other:
        return grad * factor
    return ops.where(input == 0, 0.0, grad * factor)


@operator(
    "standard::xlogy",
    elementwise=True,
    cuda="input == 0 && !isnan(other) ? T(0) : input * log(other)",
    method=True,
)
def xlogy(input, other):
    """``input * log(other)``; 0 where `input` is 0, unless `other` is NaN."""
    return _times_log(np.log, input, other)


@xlogy.backward
def _(grad, input, other, needs):
    if is_number(other):
        return _scaled_by_log(np.log, grad, input, other), None
    # At input = 0 the value is 0 for all of other <= 0, and so are the derivatives there.
    flat = (other <= 0) & (input == 0)
    safe = ops.where(flat, 1.0, other)
    return grad * ops.log(safe), grad * input / safe if needs.other else None


@xlogy.samples
def _(make):
    yield from binary(make, other_low=0.4, other_high=2.0)
    yield make.call(make.values([0.0, 0.0, 1.5]), make.values([0.5, 2.0, 0.5]))


@operator(
    "standard::xlog1py",
    elementwise=True,
    cuda="input == 0 && !isnan(other) ? T(0) : input * log1p(other)",
)
def xlog1py(input, other):
    """``input * log(1 + other)``; 0 where `input` is 0, unless `other` is NaN."""
    return _times_log(np.log1p, input, other)


@xlog1py.backward
def _(grad, input, other, needs):
    if is_number(other):
        return _scaled_by_log(np.log1p, grad, input, other), None
    flat = (other <= -1) & (input == 0)
    safe = ops.where(flat, 0.0, other)
    return grad * ops.log1p(safe), grad * input / (safe + 1.0) if needs.other else None


@xlog1py.samples
def _(make):
    yield from binary(make, other_low=-0.6, other_high=2.0)
    yield make.call(make.values([0.0, 0.0, 1.5]), make.values([0.5, 2.0, -0.5]))


def _near_margin(input, *, tol, eps=None):
    if eps is None:
        return np.zeros(np.shape(input), bool)
    return (np.abs(input - eps) <= tol) | (np.abs(input - (1.0 - eps)) <= tol)


@operator(
    "standard::logit",
    elementwise=True,
    kinks=_near_margin,
    cpu=gradients_cpu.logit,
    cuda=".cuda:logit",
    method=True,
)
def logit(input, *, eps=None):
    """``log(input / (1 - input))``, the inverse of the sigmoid; NaN outside [0, 1].

    With `eps` the input is first clamped to ``[eps, 1 - eps]``; on these bounds and beyond the derivative is 0.
    """
    return gradients_cpu.logit_of(input, eps)


@logit.backward
def _(grad, input, eps):
    if eps is None:
        outside, there = (input < 0) | (input > 1), math.nan
    else:
        outside, there = (input <= eps) | (input >= 1.0 - eps), 0.0
    safe = ops.where(outside, 0.5, input)
    return ops.where(outside, there, grad / (safe * (1.0 - safe)))


logit.backward_kernel(gradients_cpu.logit_backward)


@logit.samples
def _(make):
    yield from unary(make, low=0.1, high=0.9)
    yield make.call(make.uniform(5, low=0.0, high=1.0), eps=0.3)
    yield make.call(make.values([0.1, 0.25, 0.5]), eps=0.25)
