"""Whole numbers: common divisors and multiples, shifts of bits, the parts beside the point."""

from __future__ import annotations

import numpy as np

from plugrad import operator
from plugrad_ops.arithmetic import cpu
from plugrad_ops.arithmetic.rounding import _near_integer
from plugrad_ops.sampling import unary

INTEGERS = {
    "elementwise": True,
    "dtypes": {"input": "integer", "other": "integer"},
    "nondifferentiable": True,
    "method": True,
}
# As unsigned numbers, whose sums wrap; a negative count is a large one.
LEFT = "u64(other) < 8 * sizeof(T) ? T(u64(input) << u64(other)) : T(0)"
RIGHT = "u64(other) < 8 * sizeof(T) ? T(input >> other) : input < 0 ? T(-1) : T(0)"

# ------------------------------------------------------------------------------- divisibility


def _divisors(make):
    yield make.call(make.integers(3, 4, low=-30, high=30), make.integers(4, low=-30, high=30))
    yield make.call(make.integers(2, 1), make.integers(3))
    yield make.call(make.integers(5), 6)
    yield make.call(np.array([0, 0, -4]), np.array([0, 3, 6]))


@operator("standard::gcd", cuda=".cuda:gcd", **INTEGERS)
def gcd(input, other):
    """The greatest common divisor, at least 0; that of 0 and 0 is 0."""
    return np.gcd(input, other)


gcd.samples(_divisors)


@operator("standard::lcm", cuda=".cuda:lcm", **INTEGERS)
def lcm(input, other):
    """The least common multiple, at least 0; 0 where either is 0."""
    return np.lcm(input, other)


lcm.samples(_divisors)

# ------------------------------------------------------------------------------------- shifts


def _shifts(make):
    yield make.call(make.integers(3, 4, low=-30, high=30), make.integers(4, high=5))
    yield make.call(make.integers(2, 1), make.integers(3, high=70))
    yield make.call(make.integers(5), 3)


@operator("standard::bitwise_left_shift", cuda=LEFT, **INTEGERS)
def bitwise_left_shift(input, other):
    """``input * 2**other`` in the integers' own width; 0 where `other` is negative or reaches the width."""
    return np.left_shift(input, other)


bitwise_left_shift.samples(_shifts)


@operator("standard::bitwise_right_shift", cuda=RIGHT, **INTEGERS)
def bitwise_right_shift(input, other):
    """``input / 2**other`` rounded down; 0 or -1 where `other` is negative or reaches the width."""
    return np.right_shift(input, other)


bitwise_right_shift.samples(_shifts)

# ----------------------------------------------------------------------- beside the point


@operator(
    "standard::frac",
    elementwise=True,
    kinks=_near_integer,
    cpu=cpu.frac,
    cuda="input - trunc(input)",
    method=True,
)
def frac(input):
    """What `trunc` leaves out, with the sign of `input`; the derivative is 1."""
    return cpu.frac_of(input)


@frac.backward
def _(grad):
    return grad


frac.samples(unary)
