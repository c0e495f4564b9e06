"""Activations and softmax."""

from __future__ import annotations

from typing import Any

from plugrad.graph.tensor import Tensor
from plugrad.nn.functional.arguments import in_place_if
from plugrad.registry import ops

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """The positive part; the derivative at 0 is 0."""
    return in_place_if(inplace, ops.relu)(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """The part between 0 and 6; the derivative at both ends is 0."""
    return in_place_if(inplace, ops.relu6)(input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """`input` bounded to ``[min_val, max_val]``; the derivative at both ends is 0."""
    return in_place_if(inplace, ops.hardtanh)(input, min_val=min_val, max_val=max_val)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`input` where it is positive, `negative_slope` times it elsewhere."""
    return in_place_if(inplace, ops.leaky_relu)(input, negative_slope=negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    return in_place_if(inplace, ops.elu)(input, alpha=alpha)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`input` where it is positive, `weight` times it elsewhere: one number, or one per channel (dimension 1)."""
    return ops.prelu(input, weight)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The exponential linear unit that keeps mean 0 and variance 1."""
    return in_place_if(inplace, ops.selu)(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere.

    Raises
    ------
    RuntimeError
        `alpha` is 0.
    """
    if alpha == 0:
        raise RuntimeError("celu: alpha must not be 0, by which input is divided")
    return in_place_if(inplace, ops.celu)(input, alpha=alpha)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``."""
    return in_place_if(inplace, ops.mish)(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """`input` times its hardsigmoid; the derivative is 0 at -3 and 1 at 3."""
    return in_place_if(inplace, ops.hardswish)(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``input / 6 + 1/2`` moved into [0, 1]; the derivative is 0 at both ends."""
    return in_place_if(inplace, ops.hardsigmoid)(input)


def softsign(input: Tensor) -> Tensor:
    """``input / (1 + |input|)``."""
    return ops.softsign(input)


def tanhshrink(input: Tensor) -> Tensor:
    """`input` less its hyperbolic tangent."""
    return ops.tanhshrink(input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input` moved towards 0 by `lambd`; what lies within becomes 0.

    Raises
    ------
    RuntimeError
        `lambd` is negative.
    """
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambd must be at least 0, got {lambd}")
    return ops.softshrink(input, lambd=lambd)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input` where its magnitude exceeds `lambd`, 0 elsewhere."""
    return ops.hardshrink(input, lambd=lambd)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`input` where it exceeds `threshold`, `value` elsewhere."""
    return in_place_if(inplace, ops.threshold)(input, threshold=threshold, value=value)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of `input` along `dim` times the sigmoid of the second."""
    return ops.glu(input, dim)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``; `input` itself where ``beta * input`` exceeds `threshold`."""
    return ops.softplus(input, beta=beta, threshold=threshold)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """`input` times the normal distribution function of it; ``approximate="tanh"`` for the usual approximation."""
    return ops.gelu(input, approximate=approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``."""
    return in_place_if(inplace, ops.silu)(input)


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-input))``."""
    return ops.sigmoid(input)


def logsigmoid(input: Tensor) -> Tensor:
    """Logarithm of the sigmoid, without underflow."""
    return ops.logsigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return ops.tanh(input)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """``exp(input)`` divided by its sum over `dim`; `dtype` is what `input` is cast to first.

    Raises
    ------
    TypeError
        There is no `dim`: PyTorch's deprecated guess is not made.
    """
    return ops.softmax(_cast(input, dtype), dim=_required("softmax", dim))


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """`softmax` of ``-input``.

    Raises
    ------
    TypeError
        There is no `dim`: PyTorch's deprecated guess is not made.
    """
    return ops.softmax(_cast(-input, dtype), dim=_required("softmin", dim))


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Logarithm of `softmax`, without underflow.

    Raises
    ------
    TypeError
        There is no `dim`: PyTorch's deprecated guess is not made.
    """
    return ops.log_softmax(_cast(input, dtype), dim=_required("log_softmax", dim))


def _cast(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None else ops.cast(input, dtype=dtype)


def _required(name: str, dim: int | None) -> int:
    if dim is None:
        raise TypeError(f"{name}: dim is required, for example dim=-1")
    return dim
