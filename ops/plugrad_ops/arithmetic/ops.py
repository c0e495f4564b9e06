"""Sums, products, quotients and powers.

Names and argument names are PyTorch's. Operands broadcast and are promoted before a kernel runs; a rule returns gradients
of the broadcast shape, the engine sums them back.
"""

from __future__ import annotations

import cmath
import math

import numpy as np

from plugrad import operator, ops
from plugrad.backends.dtypes import finfo
from plugrad_ops.arithmetic import cpu, gradients_cpu, rules
from plugrad_ops.expressions import numbers
from plugrad_ops.sampling import binary, unary

NUMBERS = {"input": "number", "other": "number"}


def is_number(value):
    """Whether a rule was given a Python number in place of a tensor."""
    return isinstance(value, int | float | complex)


# --------------------------------------------------------------------------- sum and product


@operator(
    "standard::add",
    elementwise=True,
    dtypes=NUMBERS,
    cpu=cpu.add,
    cuda="input + other",
    method=True,
)
def add(input, other):
    """Sum of two tensors or numbers, element by element; with ``alpha=``, `other` is multiplied by that first."""
    return np.add(input, other)


add.backward(rules.add)
add.variant("alpha", "standard::add_scaled", default=1)


@add.samples
def _(make):
    yield from binary(make)
    yield make.call(make.integers(3), make.normal(2, 3))
    yield make.call(make.complex(2, 3), make.complex(3))


@operator(
    "standard::sub",
    elementwise=True,
    dtypes=NUMBERS,
    cpu=cpu.sub,
    cuda=numbers("sub", "input - other", "input", "other"),
    method=True,
)
def sub(input, other):
    """Difference of two tensors or numbers, element by element; with ``alpha=``, `other` is multiplied by that first."""
    return np.subtract(input, other)


sub.backward(rules.sub)
sub.variant("alpha", "standard::sub_scaled", default=1)


@sub.samples
def _(make):
    yield from binary(make)
    yield make.call(make.normal(2, 3), make.integers(3))
    yield make.call(make.complex(2, 3), make.complex(3))


@operator(
    "standard::mul",
    elementwise=True,
    dtypes=NUMBERS,
    cpu=cpu.mul,
    cuda="input * other",
    method=True,
)
def mul(input, other):
    """Product of two tensors or numbers, element by element."""
    return np.multiply(input, other)


mul.backward(rules.mul, when={"input": "other", "other": "input"})
mul.backward_kernel(gradients_cpu.mul_backward)


@mul.samples
def _(make):
    yield from binary(make)
    yield make.call(make.integers(3), make.normal(2, 3))
    yield make.call(make.complex(2, 3), make.complex(3))


@operator(
    "standard::div",
    elementwise=True,
    dtypes="complex",
    cpu=cpu.div,
    cuda="input / other",
    method=True,
)
def div(input, other):
    """Quotient of two tensors or numbers; integers give float32. ``rounding_mode="floor"`` or ``"trunc"`` rounds it."""
    return np.true_divide(input, other)


div.backward(rules.div, when={"input": "other"})
div.backward_kernel(gradients_cpu.div_backward)
div.variant("rounding_mode", "standard::div_rounded", default=None)


@div.samples
def _(make):
    yield from binary(make, other_low=0.5, other_high=2.0)
    yield make.call(make.integers(3), make.integers(2, 3, low=1))
    yield make.call(make.complex(2, 3), make.complex(3))


@operator(
    "standard::neg",
    elementwise=True,
    dtypes={"input": "number"},
    cpu=cpu.neg,
    cuda=numbers("neg", "-input", "input"),
    method=True,
)
def neg(input):
    """Minus each element."""
    return np.negative(input)


neg.backward(rules.neg)


@neg.samples
def _(make):
    yield from unary(make)
    yield make.call(make.complex(2, 3))


@operator(
    "standard::positive",
    elementwise=True,
    dtypes={"input": "number"},
    cuda=numbers("positive", "input", "input"),
    method=True,
)
def positive(input):
    """Each element, unchanged, in a new tensor."""
    return np.positive(input)


@positive.backward
def _(grad):
    return grad


@positive.samples
def _(make):
    yield from unary(make)
    yield make.call(make.complex(2, 3))


# --------------------------------------------------------------------------- size and sign


@operator(
    "standard::abs",
    elementwise=True,
    dtypes={"input": "number"},
    out_dtype="real",
    kinks={0.0: 0.0},
    cpu=cpu.absolute,
    cuda="abs(input)",
    method=True,
)
def abs(input):
    """Absolute value, real for complex numbers; the derivative at 0 is 0."""
    return np.absolute(input)


@abs.backward
def _(grad, input):
    return grad * (ops.sgn(input) if input.dtype.kind == "c" else ops.sign(input))


abs.backward_kernel(gradients_cpu.abs_backward, cuda="T(grad) * sign(input)")


@abs.samples
def _(make):
    yield from unary(make)
    yield make.call(make.values([-1.0, 0.0, 2.0]))
    yield make.call(make.complex(2, 3))


@operator(
    "standard::sign",
    elementwise=True,
    dtypes={"input": "numeric"},
    kinks={0.0: 0.0},
    cpu=cpu.sign,
    cuda=numbers("sign", "sign(input)", "input"),
    method=True,
)
def sign(input):
    """-1, 0 or 1; the derivative is 0 everywhere, at the jump too."""
    return np.sign(input)


@sign.backward
def _(grad):
    return ops.zeros_like(grad)


@sign.samples
def _(make):
    yield from unary(make)
    yield make.call(make.values([-1.0, 0.0, 2.0]))


# --------------------------------------------------------------------------------- powers


@operator(
    "standard::square",
    elementwise=True,
    dtypes={"input": "number"},
    cpu=cpu.square,
    cuda=numbers("square", "input * input", "input"),
    method=True,
)
def square(input):
    """Each element times itself."""
    return np.square(input)


square.backward(rules.square)
square.backward_kernel(gradients_cpu.square_backward)


@square.samples
def _(make):
    yield from unary(make)
    yield make.call(make.complex(2, 3))


@operator(
    "standard::sqrt",
    elementwise=True,
    dtypes="complex",
    cpu=cpu.sqrt,
    cuda="sqrt(input)",
    method=True,
)
def sqrt(input):
    """Square root; the derivative at 0 is infinite."""
    return np.sqrt(input)


sqrt.backward(rules.sqrt)
sqrt.backward_kernel(gradients_cpu.sqrt_backward)


@sqrt.samples
def _(make):
    yield from unary(make, low=0.3, high=3.0)
    yield make.call(make.complex(2, 3))


@operator(
    "standard::rsqrt",
    elementwise=True,
    dtypes="complex",
    cpu=cpu.rsqrt,
    cuda="rsqrt(input)",
    method=True,
)
def rsqrt(input):
    """One over the square root."""
    return np.reciprocal(np.sqrt(input))


@rsqrt.backward
def _(grad, out):
    return grad * (out * out * out).conj() * -0.5


rsqrt.backward_kernel(gradients_cpu.rsqrt_backward, cuda="-0.5 * grad * conj(out * out * out)")


@rsqrt.samples
def _(make):
    yield from unary(make, low=0.3, high=3.0)
    yield make.call(make.complex(2, 3))


@operator(
    "standard::reciprocal",
    elementwise=True,
    dtypes="complex",
    cpu=cpu.reciprocal,
    cuda="1 / input",
    method=True,
)
def reciprocal(input):
    """One over each element."""
    return np.reciprocal(input)


@reciprocal.backward
def _(grad, out):
    return -grad * (out * out).conj()


reciprocal.backward_kernel(gradients_cpu.reciprocal_backward)


@reciprocal.samples
def _(make):
    yield from unary(make, low=0.4, high=2.0)
    yield from unary(make, low=-2.0, high=-0.4)
    yield make.call(make.complex(2, 3))


@operator(
    "standard::pow",
    elementwise=True,
    dtypes={"input": "number", "exponent": "number"},
    cpu=cpu.pow,
    cuda=".cuda:pow",
    method=True,
)
def pow(input, exponent):
    """Each element of `input` to the power of the same element of `exponent`.

    Where an expression of the derivative has no value of its own, it is the limit's: the derivative for `input` is
    0 where `exponent` is 0, the one for `exponent` is 0 where `input` is 0 and `exponent` at least 0.
    """
    return np.power(input, exponent)


@pow.backward
def _(grad, input, exponent, needs, like):
    return (
        _to_base(grad, input, exponent, like.input) if needs.input else None,
        _to_exponent(grad, input, exponent) if needs.exponent else None,
    )


pow.backward_kernel(gradients_cpu.pow_backward)


def _to_base(grad, base, exponent, meta):
    if not is_number(exponent):
        # Near 0 the power -1 overflows, and 0 * inf is NaN; there, and for NaN, a power 0 takes its place.
        tiny = float(finfo(meta.dtype).tiny)
        constant = ops.logical_not(ops.abs(base) > tiny) & (exponent == 0)
        return grad * (base ** (ops.where(constant, 1.0, exponent) - 1.0) * exponent).conj()
    if exponent == 0:
        return ops.zeros_like(grad)
    if exponent == 1:
        return grad
    if exponent == 2:
        return grad * (base * 2.0).conj()
    return grad * (base ** (exponent - 1) * exponent).conj()


def _to_exponent(grad, base, exponent):
    power = base**exponent
    if not is_number(base):
        flat = (base == 0) & (exponent.real >= 0)
        return grad * (power * ops.log(ops.where(flat, 1.0, base))).conj()
    if base == 0:
        return ops.where(exponent.real >= 0, 0.0, grad * -math.inf)
    if exponent.dtype.kind == "c":
        return grad * (power * cmath.log(base)).conj()
    return grad * (power * (math.log(base) if base > 0 else math.nan))


@pow.samples
def _(make):
    yield from binary(make, low=0.5, high=2.0)
    yield make.call(make.normal(4), 3)
    yield make.call(make.uniform(5, low=0.5, high=2.0), -1.5)
    yield make.call(make.values([1.5, 2.0]), make.values([2.0, 0.0]))
    yield make.call(make.complex(2, 3), make.complex(3))
    yield make.call(make.complex(3), 3)
