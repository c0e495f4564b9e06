"""Exponentials, logarithms, trigonometric and hyperbolic functions, the error function."""

from __future__ import annotations

import math

import numpy as np

from plugrad import operator, ops
from plugrad_ops.arithmetic import angles_cpu, cpu, gradients_cpu, rules, selection_cpu
from plugrad_ops.sampling import binary, unary

LN2 = math.log(2.0)
LN10 = math.log(10.0)

# ------------------------------------------------------------------ exponentials, logarithms


@operator(
    "standard::exp", elementwise=True, dtypes="complex", cpu=cpu.exp, cuda="exp(input)", method=True
)
def exp(input):
    """e to the power of each element."""
    return np.exp(input)


exp.backward(rules.exp)


@exp.samples
def _(make):
    yield from unary(make)
    yield make.call(make.complex(2, 3))


@operator("standard::exp2", elementwise=True, cpu=cpu.exp2, cuda="exp2(input)", method=True)
def exp2(input):
    """2 to the power of each element."""
    return np.exp2(input)


@exp2.backward
def _(grad, out):
    return grad * out * LN2


exp2.backward_kernel(gradients_cpu.exp2_backward)


@exp2.samples
def _(make):
    yield from unary(make)


@operator("standard::expm1", elementwise=True, cpu=cpu.expm1, cuda="expm1(input)", method=True)
def expm1(input):
    """``exp(input) - 1``, accurate near 0."""
    return np.expm1(input)


@expm1.backward
def _(grad, out):
    return grad * (out + 1.0)


expm1.backward_kernel(gradients_cpu.expm1_backward, cuda="grad * (out + 1)")


@expm1.samples
def _(make):
    yield from unary(make)


@operator(
    "standard::log", elementwise=True, dtypes="complex", cpu=cpu.log, cuda="log(input)", method=True
)
def log(input):
    """Natural logarithm."""
    return np.log(input)


log.backward(rules.log)


@log.samples
def _(make):
    yield from unary(make, low=0.3, high=3.0)
    yield make.call(make.complex(2, 3))


@operator("standard::log2", elementwise=True, cpu=cpu.log2, cuda="log2(input)", method=True)
def log2(input):
    """Logarithm to the base 2."""
    return np.log2(input)


@log2.backward
def _(grad, input):
    return grad / (input * LN2)


log2.backward_kernel(gradients_cpu.log2_backward)


@log2.samples
def _(make):
    yield from unary(make, low=0.3, high=3.0)


@operator("standard::log10", elementwise=True, cpu=cpu.log10, cuda="log10(input)", method=True)
def log10(input):
    """Logarithm to the base 10."""
    return np.log10(input)


@log10.backward
def _(grad, input):
    return grad / (input * LN10)


log10.backward_kernel(gradients_cpu.log10_backward)


@log10.samples
def _(make):
    yield from unary(make, low=0.3, high=3.0)


@operator("standard::log1p", elementwise=True, cpu=cpu.log1p, cuda="log1p(input)", method=True)
def log1p(input):
    """``log(1 + input)``, accurate near 0."""
    return np.log1p(input)


@log1p.backward
def _(grad, input):
    return grad / (input + 1.0)


log1p.backward_kernel(gradients_cpu.log1p_backward, cuda="grad / (1 + input)")


@log1p.samples
def _(make):
    yield from unary(make, low=-0.6, high=2.0)


@operator(
    "standard::logaddexp",
    elementwise=True,
    cpu=selection_cpu.logaddexp,
    cuda="logaddexp(input, other)",
    method=True,
)
def logaddexp(input, other):
    """``log(exp(input) + exp(other))`` without overflow.

    Two infinities of one sign have no difference: at inf they share the gradient, at -inf there is none.
    """
    return np.logaddexp(input, other)


@logaddexp.backward
def _(grad, input, other, out):
    infinite = (input == other) & (ops.abs(out) == math.inf)
    ahead = ops.where(infinite, 0.0, input - other)
    grad = ops.where(out == -math.inf, 0.0, grad)
    return grad * ops.sigmoid(ahead), grad * ops.sigmoid(-ahead)


logaddexp.backward_kernel(selection_cpu.logaddexp_backward)


@logaddexp.samples
def _(make):
    yield from binary(make)
    yield make.call(make.values([1.0, 400.0, -800.0]), make.values([1.0, -400.0, -800.0]))
    yield make.call(make.values([-math.inf, 0.0]), make.values([0.0, -math.inf]))


# ----------------------------------------------------------------------------- trigonometric


@operator(
    "standard::sin",
    elementwise=True,
    dtypes="complex",
    cpu=angles_cpu.sin,
    cuda="sin(input)",
    method=True,
)
def sin(input):
    """Sine of an angle in radians."""
    return np.sin(input)


@sin.backward
def _(grad, input):
    return grad * ops.cos(input).conj()


sin.backward_kernel(angles_cpu.sin_backward, cuda="grad * conj(cos(input))")


@sin.samples
def _(make):
    yield from unary(make)
    yield make.call(make.complex(2, 3))


@operator(
    "standard::cos",
    elementwise=True,
    dtypes="complex",
    cpu=angles_cpu.cos,
    cuda="cos(input)",
    method=True,
)
def cos(input):
    """Cosine of an angle in radians."""
    return np.cos(input)


@cos.backward
def _(grad, input):
    return -grad * ops.sin(input).conj()


cos.backward_kernel(angles_cpu.cos_backward, cuda="-grad * conj(sin(input))")


@cos.samples
def _(make):
    yield from unary(make)
    yield make.call(make.complex(2, 3))


@operator(
    "standard::tan",
    elementwise=True,
    dtypes="complex",
    cpu=angles_cpu.tan,
    cuda="tan(input)",
    method=True,
)
def tan(input):
    """Tangent of an angle in radians."""
    return np.tan(input)


@tan.backward
def _(grad, out):
    return grad * (out * out + 1.0).conj()


tan.backward_kernel(angles_cpu.tan_backward, cuda="grad * conj(1 + out * out)")


@tan.samples
def _(make):
    yield from unary(make, low=-1.2, high=1.2)
    yield make.call(make.complex(2, 3))


@operator("standard::asin", elementwise=True, cpu=angles_cpu.asin, cuda="asin(input)", method=True)
def asin(input):
    """Angle in [-pi/2, pi/2] whose sine is `input`; NaN outside [-1, 1]."""
    return np.arcsin(input)


@asin.backward
def _(grad, input):
    # (1 - x)(1 + x) keeps the digits that 1 - x*x loses near the ends.
    return grad * ops.rsqrt((1.0 - input) * (1.0 + input))


asin.backward_kernel(angles_cpu.asin_backward)


@asin.samples
def _(make):
    yield from unary(make, low=-0.9, high=0.9)


@operator("standard::acos", elementwise=True, cpu=angles_cpu.acos, cuda="acos(input)", method=True)
def acos(input):
    """Angle in [0, pi] whose cosine is `input`; NaN outside [-1, 1]."""
    return np.arccos(input)


@acos.backward
def _(grad, input):
    return -grad * ops.rsqrt((1.0 - input) * (1.0 + input))


acos.backward_kernel(angles_cpu.acos_backward)


@acos.samples
def _(make):
    yield from unary(make, low=-0.9, high=0.9)


@operator("standard::atan", elementwise=True, cpu=angles_cpu.atan, cuda="atan(input)", method=True)
def atan(input):
    """Angle in (-pi/2, pi/2) whose tangent is `input`."""
    return np.arctan(input)


@atan.backward
def _(grad, input):
    return grad / (input * input + 1.0)


atan.backward_kernel(angles_cpu.atan_backward, cuda="grad / (1 + input * input)")


@atan.samples
def _(make):
    yield from unary(make)


# -------------------------------------------------------------------------------- hyperbolic


@operator(
    "standard::sinh",
    elementwise=True,
    dtypes="complex",
    cpu=angles_cpu.sinh,
    cuda="sinh(input)",
    method=True,
)
def sinh(input):
    """Hyperbolic sine."""
    return np.sinh(input)


@sinh.backward
def _(grad, input):
    return grad * ops.cosh(input).conj()


sinh.backward_kernel(cuda="grad * conj(cosh(input))")


@sinh.samples
def _(make):
    yield from unary(make)
    yield make.call(make.complex(2, 3))


@operator(
    "standard::cosh",
    elementwise=True,
    dtypes="complex",
    cpu=angles_cpu.cosh,
    cuda="cosh(input)",
    method=True,
)
def cosh(input):
    """Hyperbolic cosine."""
    return np.cosh(input)


@cosh.backward
def _(grad, input):
    return grad * ops.sinh(input).conj()


cosh.backward_kernel(cuda="grad * conj(sinh(input))")


@cosh.samples
def _(make):
    yield from unary(make)
    yield make.call(make.complex(2, 3))


# ---------------------------------------------------------------------------- error function


@operator("standard::erf", elementwise=True, cpu=cpu.erf, cuda="erf(input)", method=True)
def erf(input):
    """Error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t*t)`` from 0 to `input`."""
    return cpu.erf_of(input)


@erf.backward
def _(grad, input):
    return grad * ops.exp(-(input * input)) * (2.0 / math.sqrt(math.pi))


erf.backward_kernel(
    gradients_cpu.erf_backward, cuda="grad * exp(-input * input) * 1.12837916709551257390"
)


@erf.samples
def _(make):
    yield from unary(make)


@operator("standard::erfc", elementwise=True, cpu=cpu.erfc, cuda="erfc(input)", method=True)
def erfc(input):
    """``1 - erf(input)``, accurate where that is small."""
    return cpu.erfc_of(input)


@erfc.backward
def _(grad, input):
    return grad * ops.exp(-(input * input)) * (-2.0 / math.sqrt(math.pi))


erfc.backward_kernel(
    gradients_cpu.erfc_backward, cuda="grad * exp(-input * input) * -1.12837916709551257390"
)


@erfc.samples
def _(make):
    yield from unary(make)
