"""Activation functions.

Names and argument names are PyTorch's. At a kink the derivative is the minimum-norm subgradient.
"""

from __future__ import annotations

import math

import numpy as np

from plugrad import operator, ops
from plugrad_ops.activation import cpu, reference
from plugrad_ops.sampling import unary

# ---------------------------------------------------------------------------------- sigmoids


@operator(
    "standard::sigmoid", elementwise=True, cpu=cpu.sigmoid, cuda="sigmoid(input)", method=True
)
def sigmoid(input):
    """``1 / (1 + exp(-input))``."""
    return reference.sigmoid_of(input)


@sigmoid.backward
def _(grad, out):
    return grad * (out * (1.0 - out))


sigmoid.backward_kernel(cpu.sigmoid_backward, cuda="grad * (out * (1 - out))")


@sigmoid.samples
def _(make):
    yield from unary(make, low=-4.0, high=4.0)


@operator("standard::logsigmoid", elementwise=True, cpu=cpu.logsigmoid, cuda="logsigmoid(input)")
def logsigmoid(input):
    """Logarithm of the sigmoid; for very negative values it is `input` itself, not minus infinity."""
    return reference.logsigmoid_of(input)


@logsigmoid.backward
def _(grad, input):
    return grad * ops.sigmoid(-input)


logsigmoid.backward_kernel(cpu.logsigmoid_backward, cuda="grad * sigmoid(-input)")


@logsigmoid.samples
def _(make):
    yield from unary(make, low=-4.0, high=4.0)
    yield make.call(make.values([-700.0, 700.0]))


@operator(
    "standard::tanh",
    elementwise=True,
    dtypes="complex",
    cpu=cpu.tanh,
    cuda="tanh(input)",
    method=True,
)
def tanh(input):
    """Hyperbolic tangent."""
    return np.tanh(input)


@tanh.backward
def _(grad, out):
    return grad * (1.0 - out * out).conj()


tanh.backward_kernel(cpu.tanh_backward, cuda="grad * conj(1 - out * out)")


@tanh.samples
def _(make):
    yield from unary(make)
    yield make.call(make.complex(2, 3))


# ------------------------------------------------------------------------- rectified, with kinks


@operator(
    "standard::relu",
    elementwise=True,
    kinks={0.0: 0.0},
    cpu=cpu.relu,
    cuda="relu(input)",
    method=True,
)
def relu(input):
    """The positive part; the derivative at 0 is 0."""
    return reference.relu_of(input)


@relu.backward
def _(grad, out):
    return ops.where(out <= 0, 0.0, grad)


relu.backward_kernel(cpu.relu_backward, cuda="out <= 0 ? 0 : grad")


@relu.samples
def _(make):
    yield from unary(make)
    yield make.call(make.values([-1.0, 0.0, 1.0]))


def _at_zero(input, *, tol, **constants):
    return np.abs(input) <= tol


@operator(
    "standard::leaky_relu",
    elementwise=True,
    kinks=_at_zero,
    cpu=cpu.leaky_relu,
    cuda="input > 0 ? input : input * negative_slope",
)
def leaky_relu(input, *, negative_slope=0.01):
    """`input` where it is positive, `negative_slope` times it elsewhere; at 0 the derivative is the slope."""
    return reference.leaky_relu_of(input, negative_slope)


@leaky_relu.backward
def _(grad, input, negative_slope):
    return ops.where(input > 0, grad, grad * negative_slope)


leaky_relu.backward_kernel(cpu.leaky_relu_backward, cuda="input > 0 ? grad : grad * negative_slope")


@leaky_relu.samples
def _(make):
    yield from unary(make)
    yield make.call(make.normal(3, 4), negative_slope=0.2)
    yield make.call(make.values([-1.0, 0.0, 1.0]), negative_slope=0.1)


@operator(
    "standard::elu",
    elementwise=True,
    kinks=_at_zero,
    cpu=cpu.elu,
    cuda="input > 0 ? input : expm1(input) * alpha",
)
def elu(input, *, alpha=1.0):
    """`input` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    return reference.elu_of(input, alpha)


@elu.backward
def _(grad, input, alpha):
    # exp of the negative part only: that of a large positive input overflows, and 0 * inf is NaN.
    return ops.where(input > 0, grad, grad * ops.exp(ops.minimum(input, 0.0)) * alpha)


elu.backward_kernel(cpu.elu_backward, cuda="input > 0 ? grad : grad * exp(input) * alpha")


@elu.samples
def _(make):
    yield from unary(make)
    yield make.call(make.normal(3, 4), alpha=0.5)
    yield make.call(make.values([-800.0, 800.0]))


def _at_ends(input, *, tol, min_val=-1.0, max_val=1.0):
    return (np.abs(input - min_val) <= tol) | (np.abs(input - max_val) <= tol)


@operator(
    "standard::hardtanh",
    elementwise=True,
    kinks=_at_ends,
    cpu=cpu.hardtanh,
    cuda="min(max(input, min_val), max_val)",
)
def hardtanh(input, *, min_val=-1.0, max_val=1.0):
    """`input` moved into ``[min_val, max_val]``; the derivative is 0 at both ends.

    Raises
    ------
    ValueError
        `min_val` is not below `max_val`.
    """
    if not min_val < max_val:
        raise ValueError(f"hardtanh: min_val must be below max_val, got {min_val} and {max_val}")
    return reference.hardtanh_of(input, min_val, max_val)


@hardtanh.backward
def _(grad, input, min_val, max_val):
    return ops.where((input > min_val) & (input < max_val), grad, 0.0)


hardtanh.backward_kernel(
    cpu.hardtanh_backward, cuda="input > min_val && input < max_val ? grad : 0"
)


@hardtanh.samples
def _(make):
    yield from unary(make)
    yield make.call(make.normal(3, 4), min_val=-0.5, max_val=2.0)
    yield make.call(make.values([-1.0, 0.0, 1.0]))
    yield make.error(ValueError, "below", make.normal(3), min_val=1.0, max_val=1.0)


@operator(
    "standard::relu6",
    elementwise=True,
    kinks={0.0: 0.0, 6.0: 0.0},
    cpu=cpu.relu6,
    cuda="min(max(input, 0), 6)",
)
def relu6(input):
    """`input` moved into [0, 6]; the derivative is 0 at both ends."""
    return reference.relu6_of(input)


@relu6.backward
def _(grad, input):
    return ops.where((input > 0) & (input < 6), grad, 0.0)


relu6.backward_kernel(cpu.relu6_backward, cuda="input > 0 && input < 6 ? grad : 0")


@relu6.samples
def _(make):
    yield from unary(make, low=-2.0, high=8.0)
    yield make.call(make.values([0.0, 6.0, 3.0]))


# ------------------------------------------------------------------------------------ smooth


def _at_threshold(input, *, tol, beta=1.0, threshold=20.0):
    return np.abs(input * beta - threshold) <= tol * abs(beta)


@operator(
    "standard::softplus",
    elementwise=True,
    kinks=_at_threshold,
    cpu=cpu.softplus,
    cuda="input * beta > threshold ? input : softplus(input * beta) / beta",
)
def softplus(input, *, beta=1.0, threshold=20.0):
    """``log(1 + exp(beta * input)) / beta``; `input` itself where ``beta * input`` is above `threshold`."""
    return reference.softplus_of(input, beta, threshold)


@softplus.backward
def _(grad, input, beta, threshold):
    scaled = input * beta
    return ops.where(scaled > threshold, grad, grad * ops.sigmoid(scaled))


softplus.backward_kernel(
    cpu.softplus_backward,
    cuda="input * beta > threshold ? grad : grad * sigmoid(input * beta)",
)


@softplus.samples
def _(make):
    yield from unary(make, low=-4.0, high=4.0)
    yield make.call(make.normal(3, 4), beta=2.0)
    yield make.call(make.values([-700.0, -30.0, 30.0, 700.0]))
    yield make.call(make.values([0.5, 1.5]), beta=2.0, threshold=2.0)


@operator("standard::silu", elementwise=True, cpu=cpu.silu, cuda="input * sigmoid(input)")
def silu(input):
    """``input * sigmoid(input)``, also known as swish."""
    return reference.silu_of(input)


@silu.backward
def _(grad, input):
    s = ops.sigmoid(input)
    return grad * (s * (input * (1.0 - s) + 1.0))


silu.backward_kernel(
    cpu.silu_backward, cuda="grad * (sigmoid(input) * (1 + input * (1 - sigmoid(input))))"
)


@silu.samples
def _(make):
    yield from unary(make, low=-4.0, high=4.0)


SQRT_HALF = math.sqrt(0.5)
TANH_SCALE = math.sqrt(2.0 / math.pi)
CUBIC = 0.044715


@operator("standard::gelu", elementwise=True, cpu=cpu.gelu, cuda=".cuda:gelu")
def gelu(input, *, approximate="none"):
    """`input` times the standard normal distribution function of `input`.

    With ``approximate="tanh"``, ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))`` (Hendrycks and
    Gimpel, arXiv:1606.08415).

    Raises
    ------
    ValueError
        `approximate` is neither "none" nor "tanh".
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    return reference.gelu_of(input) if approximate == "none" else reference.gelu_tanh_of(input)


@gelu.backward
def _(grad, input, approximate):
    if approximate == "none":
        below = ops.erfc(input * -SQRT_HALF) * 0.5
        density = ops.exp(input * input * -0.5) * (SQRT_HALF / math.sqrt(math.pi))
        return grad * (below + input * density)
    square = input * input
    t = ops.tanh((input * square * CUBIC + input) * TANH_SCALE)
    slope = (square * (3.0 * CUBIC) + 1.0) * TANH_SCALE
    return grad * ((t + 1.0) + input * (1.0 - t * t) * slope) * 0.5


gelu.backward_kernel(cpu.gelu_backward, cuda=".cuda:gelu_backward")


@gelu.samples
def _(make):
    yield from unary(make, low=-3.0, high=3.0)
    yield make.call(make.normal(3, 4), approximate="tanh")
    yield make.call(make.normal(2, 40), approximate="tanh")
    yield make.error(ValueError, "approximate", make.normal(3), approximate="erf")
