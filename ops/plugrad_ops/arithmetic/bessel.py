"""Modified Bessel functions of the first kind, and two functions of the normal distribution and of entropy."""

from __future__ import annotations

import math

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.arithmetic.special import evaluated
from plugrad_ops.sampling import unary


def _at_zero(input, *, tol, order=0, scaled=False):
    return scaled & (np.abs(input) <= tol)


@operator("standard::bessel_i", elementwise=True, kinks=_at_zero, cuda=".special_cuda:bessel_i")
def bessel_i(input, *, order=0, scaled=False):
    """The function of this order, multiplied by ``exp(-|input|)`` if it is to be `scaled`."""
    if order < 0:
        raise ValueError(f"bessel_i: the order must be 0 or greater, got {order}")
    return evaluated("bessel_scaled" if scaled else "bessel", input, order)


@bessel_i.backward
def _(grad, input, out, order, scaled):
    # The functions of orders n and -n are one.
    before = ops.bessel_i(input, order=abs(order - 1), scaled=scaled)
    slope = (before + ops.bessel_i(input, order=order + 1, scaled=scaled)) * 0.5
    return grad * (slope - ops.sign(input) * out) if scaled else grad * slope


@bessel_i.samples
def _(make):
    yield make.call(make.uniform(3, 4, low=-4.0, high=4.0), order=0, scaled=False)
    yield make.call(make.values([0.0, 0.5, -3.0]), order=1, scaled=False)
    yield make.call(make.values([-2.0, 0.5, 30.0]), order=2, scaled=True)
    yield make.error(ValueError, "0 or greater", make.normal(3), order=-1, scaled=False)


def _bessel(make):
    yield make.call(make.uniform(3, 4, low=-4.0, high=4.0))
    yield make.call(make.values(0.5))
    yield make.call(make.normal(0))


@composite("standard::i0", method=True)
def i0(input):
    """Modified Bessel function of the first kind and order 0."""
    return ops.bessel_i(input, order=0, scaled=False)


@composite("standard::i0e")
def i0e(input):
    """`i0` times ``exp(-|input|)``."""
    return ops.bessel_i(input, order=0, scaled=True)


@composite("standard::i1")
def i1(input):
    """Modified Bessel function of the first kind and order 1."""
    return ops.bessel_i(input, order=1, scaled=False)


@composite("standard::i1e")
def i1e(input):
    """`i1` times ``exp(-|input|)``."""
    return ops.bessel_i(input, order=1, scaled=True)


for each in (i0, i0e, i1, i1e):
    each.samples(_bessel)


@composite("standard::ndtr")
def ndtr(input):
    """The standard normal distribution function, accurate where it is small."""
    return ops.erfc(input * -math.sqrt(0.5)) * 0.5


ndtr.samples(unary)


@operator(
    "standard::entr",
    elementwise=True,
    cuda="input > 0 ? -input * log(input) : input == 0 ? T(0) : isnan(input) ? input : -INF",
)
def entr(input):
    """``-input * log(input)``; 0 at 0 and -inf below."""
    return _entropy(input)


def _entropy(x):
    positive = x > 0
    return np.where(
        positive, -x * np.log(np.where(positive, x, 1)), np.where(x < 0, -np.inf, x)
    ).astype(x.dtype)


@entr.backward
def _(grad, input):
    return -grad * (ops.log(input) + 1.0)


@entr.samples
def _(make):
    yield from unary(make, low=0.1, high=3.0)
