"""Activations and softmax."""

from __future__ import annotations

from typing import Any

from plugrad.graph.tensor import Tensor
from plugrad.nn.functional.arguments import not_in_place
from plugrad.registry import ops

__all__ = [
    "elu",
    "gelu",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "relu",
    "relu6",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """The positive part; the derivative at 0 is 0."""
    not_in_place("relu", inplace)
    return ops.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """The part between 0 and 6; the derivative at both ends is 0."""
    not_in_place("relu6", inplace)
    return ops.relu6(input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """`input` bounded to ``[min_val, max_val]``; the derivative at both ends is 0."""
    not_in_place("hardtanh", inplace)
    return ops.hardtanh(input, min_val=min_val, max_val=max_val)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`input` where it is positive, `negative_slope` times it elsewhere."""
    not_in_place("leaky_relu", inplace)
    return ops.leaky_relu(input, negative_slope=negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    not_in_place("elu", inplace)
    return ops.elu(input, alpha=alpha)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``; `input` itself where ``beta * input`` exceeds `threshold`."""
    return ops.softplus(input, beta=beta, threshold=threshold)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """`input` times the normal distribution function of it; ``approximate="tanh"`` for the usual approximation."""
    return ops.gelu(input, approximate=approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``."""
    not_in_place("silu", inplace)
    return ops.silu(input)


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
