"""Division with remainder. The quotient is rounded down, so a remainder has the sign of the divisor."""

from __future__ import annotations

import numpy as np

from plugrad import operator, ops
from plugrad_ops.arithmetic import selection_cpu as cpu
from plugrad_ops.sampling import binary

NUMERIC = {"input": "numeric", "other": "numeric"}


def _near_jump(input, other, *, tol):
    """Where input / other is within `tol` (measured in `input`) of an integer."""
    quotient = np.true_divide(input, other)
    return np.abs(quotient - np.rint(quotient)) * np.minimum(np.abs(other), 1.0) <= tol


@operator(
    "standard::floor_divide",
    elementwise=True,
    dtypes=NUMERIC,
    kinks=_near_jump,
    cpu=cpu.floor_divide,
    cuda=".cuda:floor_divide",
    method=True,
)
def floor_divide(input, other):
    """Largest integer not above the quotient; the derivative is 0 everywhere, at the jumps too.

    Raises
    ------
    ZeroDivisionError
        An integer tensor is divided by zero.
    """
    return cpu.floor_divide_of(input, other)


@floor_divide.backward
def _(grad, needs):
    none = ops.zeros_like(grad)
    return none if needs.input else None, none if needs.other else None


@floor_divide.samples
def _(make):
    yield from binary(make, other_low=0.5, other_high=2.0)
    yield make.call(make.integers(3, low=-9), make.integers(2, 3, low=1))
    yield make.error(ZeroDivisionError, "divided by 0", make.integers(3), 0)


@operator(
    "standard::remainder",
    elementwise=True,
    dtypes=NUMERIC,
    kinks=_near_jump,
    cpu=cpu.remainder,
    cuda=".cuda:remainder",
    method=True,
)
def remainder(input, other):
    """``input - floor(input / other) * other``; it has the sign of `other`.

    Raises
    ------
    ZeroDivisionError
        An integer tensor is divided by zero.
    """
    return cpu.remainder_of(input, other)


@remainder.backward
def _(grad, input, other, needs):
    return grad, -grad * ops.floor_divide(input, other) if needs.other else None


remainder.backward_kernel(cpu.remainder_backward)


@remainder.samples
def _(make):
    yield from binary(make, other_low=0.5, other_high=2.0)
    yield make.call(make.normal(4), make.uniform(4, low=-2.0, high=-0.5))
    yield make.error(ZeroDivisionError, "divided by 0", make.integers(3), 0)


@operator(
    "standard::fmod",
    elementwise=True,
    dtypes=NUMERIC,
    kinks=_near_jump,
    cpu=cpu.fmod,
    cuda=".cuda:fmod",
    method=True,
)
def fmod(input, other):
    """``input - trunc(input / other) * other``; it has the sign of `input`.

    Raises
    ------
    ZeroDivisionError
        An integer tensor is divided by zero.
    """
    return cpu.fmod_of(input, other)


@fmod.backward
def _(grad, input, other, needs):
    return grad, -grad * ops.trunc(input / other) if needs.other else None


fmod.backward_kernel(cpu.fmod_backward)


@fmod.samples
def _(make):
    yield from binary(make, other_low=0.5, other_high=2.0)
    yield make.call(make.normal(4), make.uniform(4, low=-2.0, high=-0.5))
    yield make.call(make.integers(3, low=-9), make.integers(2, 3, low=1))
    yield make.error(ZeroDivisionError, "divided by 0", make.integers(3), 0)
