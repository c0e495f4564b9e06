"""Comparison, logic, bits, tests for NaN and infinity."""

from __future__ import annotations

import numpy as np

from plugrad import operator
from plugrad_ops.arithmetic import cpu
from plugrad_ops.expressions import bits
from plugrad_ops.sampling import comparable

NUMERIC = {"input": "numeric", "other": "numeric"}
NUMBERS = {"input": "number", "other": "number"}
BOOLEAN = {"elementwise": True, "out_dtype": "bool", "nondifferentiable": True}

# ------------------------------------------------------------------------------- comparison


@operator("standard::eq", dtypes=NUMBERS, cpu=cpu.eq, cuda="input == other", method=True, **BOOLEAN)
def eq(input, other):
    """Where the operands are equal."""
    return np.equal(input, other)


@eq.samples
def _(make):
    yield from comparable(make)
    yield make.call(make.complex(3), make.complex(2, 3))


@operator("standard::ne", dtypes=NUMBERS, cpu=cpu.ne, cuda="input != other", method=True, **BOOLEAN)
def ne(input, other):
    """Where the operands differ."""
    return np.not_equal(input, other)


@ne.samples
def _(make):
    yield from comparable(make)
    yield make.call(make.complex(3), make.complex(2, 3))


@operator("standard::lt", dtypes=NUMERIC, cpu=cpu.lt, cuda="input < other", method=True, **BOOLEAN)
def lt(input, other):
    """Where `input` is below `other`."""
    return np.less(input, other)


@lt.samples
def _(make):
    yield from comparable(make)


@operator("standard::le", dtypes=NUMERIC, cpu=cpu.le, cuda="input <= other", method=True, **BOOLEAN)
def le(input, other):
    """Where `input` is at most `other`."""
    return np.less_equal(input, other)


@le.samples
def _(make):
    yield from comparable(make)


@operator("standard::gt", dtypes=NUMERIC, cpu=cpu.gt, cuda="input > other", method=True, **BOOLEAN)
def gt(input, other):
    """Where `input` is above `other`."""
    return np.greater(input, other)


@gt.samples
def _(make):
    yield from comparable(make)


@operator("standard::ge", dtypes=NUMERIC, cpu=cpu.ge, cuda="input >= other", method=True, **BOOLEAN)
def ge(input, other):
    """Where `input` is at least `other`."""
    return np.greater_equal(input, other)


@ge.samples
def _(make):
    yield from comparable(make)


# ------------------------------------------------------------------------------------ logic


def _logical(make):
    yield make.call(make.booleans(3, 4), make.booleans(4))
    yield make.call(make.booleans(2, 1), make.booleans(3))
    yield make.call(make.values([0.0, 1.0, -2.0]), make.values([[1.0], [0.0]]))
    yield make.call(make.integers(3, high=2), make.integers(2, 3, high=2))


@operator("standard::logical_and", dtypes=NUMERIC, cuda="input && other", method=True, **BOOLEAN)
def logical_and(input, other):
    """Where both operands are true; a number is true unless it is 0."""
    return np.logical_and(input, other)


logical_and.samples(_logical)


@operator("standard::logical_or", dtypes=NUMERIC, cuda="input || other", method=True, **BOOLEAN)
def logical_or(input, other):
    """Where at least one operand is true; a number is true unless it is 0."""
    return np.logical_or(input, other)


logical_or.samples(_logical)


@operator(
    "standard::logical_xor",
    dtypes=NUMERIC,
    cuda="(input != 0) != (other != 0)",
    method=True,
    **BOOLEAN,
)
def logical_xor(input, other):
    """Where exactly one operand is true; a number is true unless it is 0."""
    return np.logical_xor(input, other)


logical_xor.samples(_logical)


@operator("standard::logical_not", dtypes="number", cuda="!input", method=True, **BOOLEAN)
def logical_not(input):
    """Where the operand is false; a number is false if it is 0."""
    return np.logical_not(input)


@logical_not.samples
def _(make):
    yield make.call(make.booleans(3, 4))
    yield make.call(make.values([0.0, 1.0, -2.0]))
    yield make.call(make.integers(2, 3, high=2))
    yield make.call(np.array([0j, 1j]))


# ------------------------------------------------------------------------------------- bits


def _bits_of(name, *operands):
    """The operands, if they are integers or bools."""
    for x in operands:
        dtype = np.asarray(x).dtype
        if dtype.kind not in "bui":
            raise TypeError(f"{name} takes integer and bool tensors, got {dtype}")
    return operands


def _bits(make):
    yield make.call(make.integers(3, 4), make.integers(4))
    yield make.call(make.integers(2, 1), make.integers(3, low=-8))
    yield make.call(make.booleans(2, 3), make.booleans(3))
    yield make.call(make.integers(5), 6)
    yield make.error(TypeError, "integer", make.normal(3), make.normal(3))


@operator(
    "standard::bitwise_and",
    elementwise=True,
    dtypes=NUMERIC,
    nondifferentiable=True,
    cuda=bits("bitwise_and", "input & other", "input", "other"),
    method=True,
)
def bitwise_and(input, other):
    """Bits that are set in both operands; the logical and of bools."""
    return np.bitwise_and(*_bits_of("bitwise_and", input, other))


bitwise_and.samples(_bits)


@operator(
    "standard::bitwise_or",
    elementwise=True,
    dtypes=NUMERIC,
    nondifferentiable=True,
    cuda=bits("bitwise_or", "input | other", "input", "other"),
    method=True,
)
def bitwise_or(input, other):
    """Bits that are set in either operand; the logical or of bools."""
    return np.bitwise_or(*_bits_of("bitwise_or", input, other))


bitwise_or.samples(_bits)


@operator(
    "standard::bitwise_xor",
    elementwise=True,
    dtypes=NUMERIC,
    nondifferentiable=True,
    cuda=bits("bitwise_xor", "input ^ other", "input", "other"),
    method=True,
)
def bitwise_xor(input, other):
    """Bits that are set in one operand only; the logical exclusive or of bools."""
    return np.bitwise_xor(*_bits_of("bitwise_xor", input, other))


bitwise_xor.samples(_bits)


@operator(
    "standard::bitwise_not",
    elementwise=True,
    dtypes="numeric",
    nondifferentiable=True,
    cuda=bits("bitwise_not", "input ^ T(-1)", "input"),
    method=True,
)
def bitwise_not(input):
    """All bits flipped; the logical not of bools."""
    return np.invert(*_bits_of("bitwise_not", input))


@bitwise_not.samples
def _(make):
    yield make.call(make.integers(3, 4, low=-5))
    yield make.call(make.booleans(2, 3))
    yield make.call(make.integers(1))
    yield make.error(TypeError, "integer", make.normal(3))


# --------------------------------------------------------------------------- special values


def _special(make):
    yield make.call(make.values([1.0, np.nan, np.inf, -np.inf]))
    yield make.call(make.values([[0.0, np.nan]]))
    yield make.call(make.normal(3, 4))
    yield make.call(make.integers(3))
    yield make.call(np.array([1 + 1j, complex(0.0, np.inf)]))


@operator("standard::isnan", dtypes="number", cuda="isnan(input)", method=True, **BOOLEAN)
def isnan(input):
    """Where an element is not a number."""
    return np.isnan(input)


isnan.samples(_special)


@operator("standard::isinf", dtypes="number", cuda="isinf(input)", method=True, **BOOLEAN)
def isinf(input):
    """Where an element is plus or minus infinity."""
    return np.isinf(input)


isinf.samples(_special)


@operator("standard::isfinite", dtypes="number", cuda="isfinite(input)", method=True, **BOOLEAN)
def isfinite(input):
    """Where an element is neither infinite nor NaN."""
    return np.isfinite(input)


isfinite.samples(_special)
