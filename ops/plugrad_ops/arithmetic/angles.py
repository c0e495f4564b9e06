"""Angles and lengths in the plane, areas of hyperbolic sectors, degrees and radians."""

from __future__ import annotations

import math

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.arithmetic import angles_cpu as cpu
from plugrad_ops.sampling import binary, unary

# ------------------------------------------------------------------------ inverse hyperbolic


@operator("standard::asinh", elementwise=True, cpu=cpu.asinh, cuda="asinh(input)", method=True)
def asinh(input):
    """Inverse of the hyperbolic sine."""
    return np.arcsinh(input)


@asinh.backward
def _(grad, input):
    return grad / ops.hypot(input, 1.0)


asinh.backward_kernel(cpu.asinh_backward, cuda="grad / hypot(input, T(1))")


@asinh.samples
def _(make):
    yield from unary(make)


@operator("standard::acosh", elementwise=True, cpu=cpu.acosh, cuda="acosh(input)", method=True)
def acosh(input):
    """Inverse of the hyperbolic cosine, at least 0; NaN below 1."""
    return np.arccosh(input)


@acosh.backward
def _(grad, input):
    # Two roots: their product neither overflows nor loses the digits that x*x - 1 loses near 1.
    return grad * ops.rsqrt(input - 1.0) * ops.rsqrt(input + 1.0)


acosh.backward_kernel(cpu.acosh_backward)


@acosh.samples
def _(make):
    yield from unary(make, low=1.2, high=4.0)


@operator("standard::atanh", elementwise=True, cpu=cpu.atanh, cuda="atanh(input)", method=True)
def atanh(input):
    """Inverse of the hyperbolic tangent; infinite at -1 and 1, NaN beyond."""
    return np.arctanh(input)


@atanh.backward
def _(grad, input):
    return grad / ((1.0 - input) * (1.0 + input))


atanh.backward_kernel(cpu.atanh_backward)


@atanh.samples
def _(make):
    yield from unary(make, low=-0.9, high=0.9)


# -------------------------------------------------------------------------------- the plane


def _near_origin(input, other, *, tol):
    return np.maximum(np.abs(input), np.abs(other)) <= tol


def _near_cut(input, other, *, tol):
    """Where the angle jumps: at other <= 0 on the axis."""
    return (np.abs(input) <= tol) & np.less_equal(other, tol)


@operator(
    "standard::hypot",
    elementwise=True,
    kinks=_near_origin,
    cpu=cpu.hypot,
    cuda="hypot(input, other)",
    method=True,
)
def hypot(input, other):
    """Length of the vector ``(input, other)``, without overflow; the gradient at the origin is 0."""
    return np.hypot(input, other)


@hypot.backward
def _(grad, input, other, out, needs):
    zero = out == 0
    grad, length = ops.where(zero, 0.0, grad), ops.where(zero, 1.0, out)
    return (
        grad * (input / length) if needs.input else None,
        grad * (other / length) if needs.other else None,
    )


hypot.backward_kernel(cpu.hypot_backward)


@hypot.samples
def _(make):
    yield from binary(make)
    yield make.call(make.values([3.0, 0.0, -5.0]), make.values([4.0, 2.0, 12.0]))


@operator(
    "standard::atan2",
    elementwise=True,
    kinks=_near_cut,
    cpu=cpu.atan2,
    cuda="atan2(input, other)",
    method=True,
)
def atan2(input, other):
    """Angle in [-pi, pi] of the vector whose components are ``(other, input)``; the gradient at the origin is 0."""
    return np.arctan2(input, other)


@atan2.backward
def _(grad, input, other, needs):
    length = ops.hypot(input, other)
    zero = length == 0
    length = ops.where(zero, 1.0, length)
    grad = ops.where(zero, 0.0, grad) / length
    return (
        grad * (other / length) if needs.input else None,
        -grad * (input / length) if needs.other else None,
    )


atan2.backward_kernel(cpu.atan2_backward)


@atan2.samples
def _(make):
    yield from binary(make)
    yield make.call(make.values([1.0, -1.0, 0.0]), make.values([-1.0, -1.0, 2.0]))


# ------------------------------------------------------------------------ degrees and radians


@composite("standard::rad2deg", method=True)
def rad2deg(input):
    """Radians as degrees."""
    return input * (180.0 / math.pi)


rad2deg.samples(unary)


@composite("standard::deg2rad", method=True)
def deg2rad(input):
    """Degrees as radians."""
    return input * (math.pi / 180.0)


deg2rad.samples(unary)
