"""Interpolation, fused products and sums, scaling by powers of two, and bounds on one side."""

from __future__ import annotations

import math

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.arithmetic import selection_cpu as cpu
from plugrad_ops.arithmetic.ops import _to_base, _to_exponent, is_number
from plugrad_ops.arithmetic.selection import _near_bound
from plugrad_ops.sampling import binary

LOG2E = 1.4426950408889634

# ----------------------------------------------------------------------------- interpolation


@operator(
    "standard::lerp",
    elementwise=True,
    cpu=cpu.lerp,
    cuda="abs(weight) < 0.5 ? input + weight * (end - input) : end - (end - input) * (1 - weight)",
    method=True,
)
def lerp(input, end, weight):
    """``input + weight * (end - input)``; `weight` is a tensor or a number."""
    return cpu.lerp_of(input, end, weight)


@lerp.backward
def _(grad, input, end, weight, needs):
    return (
        grad * (1.0 - weight) if needs.input else None,
        grad * weight if needs.end else None,
        grad * (end - input) if needs.weight else None,
    )


lerp.backward_kernel(cpu.lerp_backward)


@lerp.samples
def _(make):
    yield make.call(make.normal(3, 4), make.normal(3, 4), 0.25)
    yield make.call(make.normal(3, 4), make.normal(4), make.uniform(3, 1))
    yield make.call(make.normal(2), make.normal(2), make.values([0.8, -1.7]))


# ----------------------------------------------------------------------- products and sums


def _thirds(make):
    yield make.call(make.normal(3, 4), make.normal(3, 4), make.positive(4))
    yield make.call(make.normal(4), make.normal(2, 1), make.positive(4), value=-0.5)
    yield make.call(make.normal(), make.normal(0, 3), make.positive(3))
    yield make.error(RuntimeError, "broadcast", make.normal(2), make.normal(3), make.positive(3))


@operator(
    "standard::addcmul",
    elementwise=True,
    dtypes={"input": "number", "tensor1": "number", "tensor2": "number"},
    cpu=cpu.addcmul,
    cuda="input + value * tensor1 * tensor2",
    method=True,
)
def addcmul(input, tensor1, tensor2, *, value=1):
    """``input + value * tensor1 * tensor2``.

    Raises
    ------
    RuntimeError
        `value` is a float where the tensors are integers.
    """
    return cpu.addcmul_of(input, tensor1, tensor2, value)


@addcmul.backward
def _(grad, tensor1, tensor2, value, needs):
    return (
        grad if needs.input else None,
        grad * tensor2.conj() * value if needs.tensor1 else None,
        grad * tensor1.conj() * value if needs.tensor2 else None,
    )


addcmul.backward_kernel(cpu.addcmul_backward)


@addcmul.samples
def _(make):
    yield from _thirds(make)
    yield make.call(make.complex(2, 3), make.complex(3), make.complex(2, 1))
    yield make.error(RuntimeError, "an integer", *[make.integers(3) for _ in range(3)], value=0.5)


@composite("standard::addcdiv", method=True)
def addcdiv(input, tensor1, tensor2, *, value=1):
    """``input + value * tensor1 / tensor2``."""
    quotient = tensor1 / tensor2
    return input + (quotient if value == 1 else quotient * value)


addcdiv.samples(_thirds)


@composite("standard::rsub", method=True)
def rsub(input, other, *, alpha=1):
    """``other - alpha * input``."""
    return other - (input if alpha == 1 else input * alpha)


@rsub.samples
def _(make):
    yield from binary(make)
    yield make.call(make.normal(3), make.normal(2, 3), alpha=2)


# ----------------------------------------------------------------------------------- powers


@operator(
    "standard::float_power",
    elementwise=True,
    dtypes={"input": "numeric", "exponent": "numeric"},
    out_dtype="float64",
    cuda="pow(double(input), double(exponent))",
    method=True,
)
def float_power(input, exponent):
    """`input` to the power `exponent`, computed and returned in float64; the derivatives are those of `pow`."""
    return np.float_power(input, exponent)


def _double(value):
    return float(value) if is_number(value) else ops.cast(value, dtype=np.dtype(np.float64))


@float_power.backward
def _(grad, input, exponent, needs):
    base, power = _double(input), _double(exponent)
    return (
        _to_base(grad, base, power, base) if needs.input else None,
        _to_exponent(grad, base, power) if needs.exponent else None,
    )


@float_power.samples
def _(make):
    yield make.call(make.positive(3, 4), make.normal(4))
    yield make.call(make.positive(3), 2)
    yield make.call(2.0, make.normal(3))
    yield make.call(make.integers(3), 2)


@composite("standard::ldexp", method=True)
def ldexp(input, other):
    """``input * 2**other``."""
    if input.dtype.kind == "f":
        other = ops.cast(other, dtype=input.dtype)
    return input * ops.exp2(other)


@ldexp.samples
def _(make):
    yield make.call(make.normal(3, 4), make.integers(4, low=-3, high=4))
    yield make.call(make.normal(), make.integers(2))
    yield make.call(make.normal(0, 2), make.integers(2))


@operator(
    "standard::logaddexp2",
    elementwise=True,
    cuda="input == other ? input + 1 :"
    " max(input, other) + log1p(exp2(-abs(input - other))) * 1.4426950408889634",
    method=True,
)
def logaddexp2(input, other):
    """``log2(2**input + 2**other)`` without overflow; infinities as in `logaddexp`."""
    return np.logaddexp2(input, other)


@logaddexp2.backward
def _(grad, input, other, out):
    infinite = (input == other) & (ops.abs(out) == math.inf)
    ahead = ops.where(infinite, 0.0, input - other) / LOG2E
    grad = ops.where(out == -math.inf, 0.0, grad)
    return grad * ops.sigmoid(ahead), grad * ops.sigmoid(-ahead)


@logaddexp2.samples
def _(make):
    yield from binary(make)
    yield make.call(make.values([1.0, 400.0, -800.0]), make.values([1.0, -400.0, -800.0]))
    yield make.call(make.values([-math.inf, 0.0]), make.values([0.0, -math.inf]))


# ------------------------------------------------------------------------- bounds on one side


@composite(
    "standard::clamp_min",
    method=True,
    kinks=lambda input, min, *, tol: _near_bound(input, min, tol=tol),
)
def clamp_min(input, min):
    """Each element, but at least `min`; see `clamp` for the derivative at the bound."""
    return ops.clamp(input, min)


@composite(
    "standard::clamp_max",
    method=True,
    kinks=lambda input, max, *, tol: _near_bound(input, max, tol=tol),
)
def clamp_max(input, max):
    """Each element, but at most `max`; see `clamp` for the derivative at the bound."""
    return ops.clamp(input, None, max)


def _bounds(make):
    yield make.call(make.distinct(2, 4), 0.25)
    yield make.call(make.distinct(4), make.uniform(2, 1))
    yield make.call(make.distinct(0), 1)


clamp_min.samples(_bounds)
clamp_max.samples(_bounds)
