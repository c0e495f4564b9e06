"""Division with remainder. The quotient is rounded down, so a remainder has the sign of the divisor."""

from __future__ import annotations

import numpy as np

from plugrad import operator, ops
from plugrad_ops.sampling import binary

NUMERIC = {"input": "numeric", "other": "numeric"}


def _refuse_zero(name, input, other):
    """Integers have no infinity: NumPy's 0 for x // 0 would be a silent wrong number."""
    integers = all(np.asarray(x).dtype.kind in "bui" for x in (input, other))
    if integers and not np.all(other):
        raise ZeroDivisionError(f"{name}: an integer tensor is divided by 0")


def _near_jump(input, other, *, tol):
    """Where input / other is within `tol` (measured in `input`) of an integer."""
    quotient = np.true_divide(input, other)
    return np.abs(quotient - np.rint(quotient)) * np.minimum(np.abs(other), 1.0) <= tol


@operator(
    "standard::floor_divide",
    elementwise=True,
    dtypes=NUMERIC,
    kinks=_near_jump,
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
    _refuse_zero("floor_divide", input, other)
    return np.floor_divide(input, other)


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
    _refuse_zero("remainder", input, other)
    return np.remainder(input, other)


@remainder.backward
def _(grad, input, other, needs):
    return grad, -grad * ops.floor_divide(input, other) if needs.other else None


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
    _refuse_zero("fmod", input, other)
    return np.fmod(input, other)


@fmod.backward
def _(grad, input, other, needs):
    return grad, -grad * ops.trunc(input / other) if needs.other else None


@fmod.samples
def _(make):
    yield from binary(make, other_low=0.5, other_high=2.0)
    yield make.call(make.normal(4), make.uniform(4, low=-2.0, high=-0.5))
    yield make.call(make.integers(3, low=-9), make.integers(2, 3, low=1))
    yield make.error(ZeroDivisionError, "divided by 0", make.integers(3), 0)
