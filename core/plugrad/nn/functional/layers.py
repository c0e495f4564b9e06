"""Linear maps, lookup in tables, and normalisation of vectors."""

from __future__ import annotations

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = [
    "embedding",
    "linear",
    "normalize",
    "one_hot",
]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``: input (*, in), weight (out, in), bias (out)."""
    return ops.linear(input, weight, bias)


def embedding(input: Tensor, weight: Tensor) -> Tensor:
    """The rows of `weight` at the integers `input`."""
    return weight[input]


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A last dimension that is 1 at the class and 0 elsewhere; -1 takes the greatest class plus one.

    Raises
    ------
    RuntimeError
        `num_classes` is -1 and there is no class to take it from.
    """
    if num_classes == -1:
        if not tensor.numel():
            raise RuntimeError("one_hot: an empty tensor needs num_classes, got -1")
        num_classes = int(ops.amax(tensor).item()) + 1
    return ops.one_hot(tensor, num_classes=num_classes)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """`input` divided by its norm over `dim`; 0, with gradient 0, where that does not exceed `eps`."""
    return ops.normalize(input, p=p, dim=dim, eps=eps)
