"""Activations that are one expression each, and those whose derivative is written better than an expression gives it.

At a kink the branch is chosen whose slope is smaller, so that the derivative is the minimum-norm subgradient.
"""

from __future__ import annotations

import numpy as np

from plugrad import composite, elementwise, operator, ops
from plugrad_ops.activation import formulas_cpu as cpu
from plugrad_ops.activation import reference
from plugrad_ops.arithmetic.ops import is_number
from plugrad_ops.sampling import binary, unary


def _around(*points, low=-4.0, high=4.0, **constants):
    """Samples from `low` to `high`, a call with other constants, and a call at the given points."""

    def samples(make):
        yield from unary(make, low=low, high=high)
        if constants:
            yield make.call(make.normal(3, 4), **constants)
        yield make.call(make.values(points))

    return samples


hardsigmoid = elementwise(
    "standard::hardsigmoid",
    "where(input <= -3, 0, where(input >= 3, 1, input / 6 + 0.5))",
    doc="``input / 6 + 1/2`` moved into [0, 1]; the derivative is 0 at both ends.",
    cpu=cpu.hardsigmoid,
    cpu_backward=cpu.hardsigmoid_backward,
    samples=_around(-3.0, 0.0, 3.0, low=-5.0, high=5.0),
)

hardswish = elementwise(
    "standard::hardswish",
    "where(input <= -3, 0, where(input >= 3, input, input * (input / 6 + 0.5)))",
    doc="`input` times its hardsigmoid; the derivative is 0 at -3 and 1 at 3.",
    cpu=cpu.hardswish,
    cpu_backward=cpu.hardswish_backward,
    samples=_around(-3.0, 0.0, 3.0, low=-5.0, high=5.0),
)

mish = elementwise(
    "standard::mish",
    "input * tanh(softplus(input))",
    doc="``input * tanh(softplus(input))`` (Misra, arXiv:1908.08681).",
    cpu=cpu.mish,
    cpu_backward=cpu.mish_backward,
    samples=_around(-80.0, 0.0, 80.0),
)

# Klambauer et al., arXiv:1706.02515: the fixed point has mean 0 and variance 1.
SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717

selu = elementwise(
    "standard::selu",
    f"where(input >= 0, {SELU_SCALE} * input, {SELU_SCALE * SELU_ALPHA} * expm1(input))",
    doc="The exponential linear unit that keeps mean 0 and variance 1; the derivative at 0 is that of the right side.",
    cpu=cpu.selu,
    cpu_backward=cpu.selu_backward,
    samples=_around(-80.0, 0.0, 80.0),
)

celu = elementwise(
    "standard::celu",
    "where(input > 0, input, alpha * expm1(input / alpha))",
    constants={"alpha": 1.0},
    doc="`input` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere.",
    cpu=cpu.celu,
    cpu_backward=cpu.celu_backward,
    samples=_around(-80.0, 0.0, 80.0, alpha=0.5),
)

softshrink = elementwise(
    "standard::softshrink",
    "where(abs(input) <= lambd, 0, input - lambd * sign(input))",
    constants={"lambd": 0.5},
    doc="`input` moved towards 0 by `lambd`; the derivative is 0 at both ends of what becomes 0.",
    cpu=cpu.softshrink,
    cpu_backward=cpu.shrink_backward,
    samples=_around(-0.5, 0.0, 0.5, lambd=0.25),
)

hardshrink = elementwise(
    "standard::hardshrink",
    "where(abs(input) <= lambd, 0, input)",
    constants={"lambd": 0.5},
    doc="`input` where its magnitude exceeds `lambd`, 0 elsewhere, with the derivative 0.",
    cpu=cpu.hardshrink,
    cpu_backward=cpu.shrink_backward,
    samples=_around(-0.75, 0.0, 0.75, lambd=0.25),
    method=True,
)

threshold = elementwise(
    "standard::threshold",
    "where(input <= threshold, value, input)",
    parameters=("input",),
    constants={"threshold": 0.0, "value": 0.0},
    doc="`input` where it exceeds `threshold`, `value` elsewhere, with the derivative 0.",
    cpu=cpu.threshold,
    cpu_backward=cpu.threshold_backward,
    samples=_around(-1.0, 0.1, 1.0, threshold=0.25, value=-2.0),
)

prelu_kernel = elementwise(
    "standard::prelu_kernel",
    "where(input > 0, input, weight * input)",
    doc="`input` where it is positive, `weight` times it elsewhere; the two broadcast. See `prelu`.",
    cpu=cpu.prelu,
    cpu_backward=cpu.prelu_backward,
)


@composite("standard::prelu", method=True, kinks=lambda input, weight, *, tol: abs(input) <= tol)
def prelu(input, weight):
    """`input` where it is positive, `weight` times it elsewhere; at 0 the derivative is the weight.

    Parameters
    ----------
    input : Tensor
        Of any shape; dimension 1 holds the channels, if there is one.
    weight : Tensor
        Of shape () or (1), or one number per channel.

    Raises
    ------
    RuntimeError
        The number of weights is neither 1 nor that of the channels.
    """
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise RuntimeError(
            f"prelu: weight must hold 1 number or one per channel ({channels}, dimension 1 of input of shape "
            f"{input.shape}), got shape {weight.shape}"
        )
    if weight.ndim:
        after = (1,) * max(input.ndim - 2, 0)
        weight = ops.reshape(weight, (weight.numel(), *after) if input.ndim else ())
    return ops.prelu_kernel(input, weight)


@prelu.samples
def _(make):
    yield make.call(make.normal(2, 3, 2), make.normal(3))
    yield make.call(make.normal(2, 3), make.normal(1))
    yield make.call(make.normal(4), make.normal())
    yield make.call(make.normal(), make.normal(1))
    yield make.call(make.normal(0, 3), make.normal(3))
    yield make.error(RuntimeError, "one per channel", make.normal(2, 3), make.normal(2))


@composite("standard::glu")
def glu(input, dim=-1):
    """The first half of `input` along `dim` times the sigmoid of the second (Dauphin et al., arXiv:1612.08083).

    Raises
    ------
    RuntimeError
        The size along `dim` is odd, or `input` is 0-d.
    """
    if not input.ndim:
        raise RuntimeError("glu: a 0-d tensor has no dimension to halve")
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"glu: dimension out of range for shape {input.shape}, got dim={dim}")
    half, odd = divmod(input.shape[dim], 2)
    if odd:
        raise RuntimeError(f"glu: the size along dim={dim} must be even, got shape {input.shape}")
    first, second = (ops.narrow(input, dim, start, half) for start in (0, half))
    return ops.glu_kernel(first, second)


@glu.samples
def _(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.normal(4, 3), dim=0)
    yield make.call(make.normal(0, 2))
    yield make.error(RuntimeError, "must be even", make.normal(2, 3))


# ------------------------------------------------------- derivatives that would cancel if they followed from the value


@operator("standard::softsign", elementwise=True, cpu=cpu.softsign, cuda="input / (1 + abs(input))")
def softsign(input):
    """``input / (1 + |input|)``."""
    return reference.softsign_of(input)


@softsign.backward
def _(grad, input):
    scale = 1.0 / (ops.abs(input) + 1.0)
    return grad * (scale * scale)


softsign.backward_kernel(cpu.softsign_backward, cuda="grad / square(1 + abs(input))")
softsign.samples(_around(-1e4, 1e4))


@operator("standard::tanhshrink", elementwise=True, cpu=cpu.tanhshrink, cuda="input - tanh(input)")
def tanhshrink(input):
    """`input` less its hyperbolic tangent."""
    return input - np.tanh(input)


@tanhshrink.backward
def _(grad, input):
    t = ops.tanh(input)
    return grad * (t * t)


tanhshrink.backward_kernel(cpu.tanhshrink_backward, cuda="grad * square(tanh(input))")
tanhshrink.samples(_around(-1e-3, 0.0, 30.0))


@operator("standard::glu_kernel", elementwise=True, cpu=cpu.glu, cuda="input * sigmoid(gate)")
def glu_kernel(input, gate):
    """`input` times the sigmoid of `gate`; the two broadcast. See `glu`."""
    return reference.glu_of(input, gate)


@glu_kernel.backward
def _(grad, input, gate, needs):
    share = (reference.sigmoid_of if is_number(gate) else ops.sigmoid)(gate)
    # The slope of the sigmoid first: it alone cannot overflow.
    slope = share * ops.sigmoid(-gate) if needs.gate else None
    return grad * share if needs.input else None, slope * grad * input if needs.gate else None


glu_kernel.backward_kernel(cpu.glu_backward, cuda=".cuda:glu_backward")
glu_kernel.samples(binary)
