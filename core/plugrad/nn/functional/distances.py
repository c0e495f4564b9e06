"""Distances and similarities of vectors."""

from __future__ import annotations

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The `p`-norm of ``x1 - x2 + eps`` over the last dimension."""
    return ops.pairwise_distance(x1, x2, p, eps, keepdim)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; 0 for those whose norm does not exceed `eps`."""
    return ops.cosine_similarity(x1, x2, dim, eps)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The `p`-norms of the differences of each two rows of a matrix."""
    return ops.pdist(input, p)
