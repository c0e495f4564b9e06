"""Rounding to whole numbers. All are constant between their jumps, so the derivative is 0, at the jumps too.

For a gradient that passes straight through there is the plugin plugrad-ste.
"""

import numpy as np

from plugrad import operator, ops
from plugrad_ops.arithmetic import cpu
from plugrad_ops.sampling import unary

NUMERIC = {"input": "numeric"}


def _near_integer(input, *, tol):
    return np.abs(input - np.rint(input)) <= tol


def _near_half(input, *, tol, decimals=0):
    scaled = np.asarray(input) * 10.0**decimals
    return np.abs(scaled - np.floor(scaled) - 0.5) <= tol * 10.0**decimals


def _no_gradient(grad):
    return ops.zeros_like(grad)


def _samples(make):
    yield from unary(make)
    yield make.call(make.values([-1.5, -0.5, 0.5, 1.5, 2.5, 3.0]))
    yield make.call(make.integers(3, low=-3))


@operator(
    "standard::round",
    elementwise=True,
    dtypes=NUMERIC,
    kinks=_near_half,
    cpu=cpu.round,
    cuda=".cuda:round",
    method=True,
)
def round(input, *, decimals=0):
    """The nearest multiple of ``10**-decimals``, ties to even; the derivative is 0 everywhere."""
    return cpu.round_of(input, decimals)


round.backward(_no_gradient)


@round.samples
def _(make):
    yield from _samples(make)
    yield make.call(make.uniform(3, 4), decimals=1)
    yield make.call(make.uniform(3, 4, low=-200, high=200), decimals=-1)


@operator(
    "standard::floor",
    elementwise=True,
    dtypes=NUMERIC,
    kinks=_near_integer,
    cpu=cpu.floor,
    cuda="floor(input)",
    method=True,
)
def floor(input):
    """The greatest whole number that is not above; the derivative is 0 everywhere."""
    return cpu.floor_of(input)


floor.backward(_no_gradient)
floor.samples(_samples)


@operator(
    "standard::ceil",
    elementwise=True,
    dtypes=NUMERIC,
    kinks=_near_integer,
    cpu=cpu.ceil,
    cuda="ceil(input)",
    method=True,
)
def ceil(input):
    """The least whole number that is not below; the derivative is 0 everywhere."""
    return cpu.ceil_of(input)


ceil.backward(_no_gradient)
ceil.samples(_samples)


@operator(
    "standard::trunc",
    elementwise=True,
    dtypes=NUMERIC,
    kinks=_near_integer,
    cpu=cpu.trunc,
    cuda="trunc(input)",
    method=True,
)
def trunc(input):
    """The next whole number towards 0; the derivative is 0 everywhere."""
    return cpu.trunc_of(input)


trunc.backward(_no_gradient)
trunc.samples(_samples)
