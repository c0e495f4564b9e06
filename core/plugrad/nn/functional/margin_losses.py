"""Losses that ask for a margin between scores, classes or distances."""

from __future__ import annotations

from collections.abc import Callable

from plugrad.graph.tensor import Tensor
from plugrad.nn.functional.arguments import reduction_of
from plugrad.registry import ops

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`input` where `target` is 1, and what `margin` exceeds it by where `target` is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.hinge_embedding_loss(input, target, margin, reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What ``target * (input1 - input2)`` lacks to `margin`, for targets 1 and -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.margin_ranking_loss(input1, input2, target, margin, reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-target * input))`` for targets 1 and -1, without overflow."""
    return ops.soft_margin_loss(input, target, reduction_of(size_average, reduce, reduction))


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What the score of class `target` lacks to `margin` over each other, to the power `p`, averaged over the classes."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.multi_margin_loss(input, target, weight, p, margin, reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What the scores of the target classes, ended by -1, lack to 1 over each that is no target."""
    return ops.multilabel_margin_loss(input, target, reduction_of(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The logistic loss of each class, times `weight` if there is one, averaged over the last dimension."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.multilabel_soft_margin_loss(input, target, weight, reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What the cosine lacks to 1 where `target` is 1, and what it exceeds `margin` by where `target` is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.cosine_embedding_loss(input1, input2, target, margin, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What the anchor's distance from the negative lacks to its distance from the positive and `margin`."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with any distance of two tensors; by default `pairwise_distance`.

    Raises
    ------
    ValueError
        `margin` is not positive, or `reduction` is unknown.
    RuntimeError
        The three do not have equally many dimensions.
    """
    name = "triplet_margin_with_distance_loss"
    if margin <= 0:
        raise ValueError(f"{name}: margin must be greater than 0, got {margin}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"{name}: all tensors must have equally many dimensions, got anchor {anchor.shape}, positive "
            f"{positive.shape}, negative {negative.shape}"
        )
    distance = ops.pairwise_distance if distance_function is None else distance_function
    to_positive, to_negative = distance(anchor, positive), distance(anchor, negative)
    if swap:
        to_negative = ops.minimum(to_negative, distance(positive, negative))
    loss = ops.relu(margin + to_positive - to_negative)
    if reduction == "none":
        return loss
    return ops.mean(loss) if reduction == "mean" else ops.sum(loss)
