"""Losses."""

from __future__ import annotations

from typing import Any

from plugrad.graph.tensor import Tensor
from plugrad.nn.functional.arguments import reduction_of
from plugrad.registry import ops

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "l1_loss",
    "mse_loss",
    "nll_loss",
]


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The squared error, times `weight` if given; the mean is then divided by the sum of the weights."""
    return _error(
        ops.mse_loss, input, target, reduction_of(size_average, reduce, reduction), weight
    )


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The absolute error, times `weight` if given; the mean is then divided by the sum of the weights."""
    return _error(ops.l1_loss, input, target, reduction_of(size_average, reduce, reduction), weight)


def _error(
    loss: Any, input: Tensor, target: Tensor, reduction: str, weight: Tensor | None
) -> Tensor:
    if weight is None:
        return loss(input, target, reduction=reduction)
    each = loss(input, target, reduction="none")
    if weight.shape != each.shape:
        raise ValueError(
            f"{loss.__name__}: weight must have the shape {each.shape} of the loss, got {weight.shape}"
        )
    each = each * weight
    if reduction == "mean":
        return ops.sum(each) / ops.sum(weight)
    return each if reduction == "none" else ops.sum(each)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of the softmax of `input` and `target`, class indices or probabilities.

    See `plugrad.ops.cross_entropy`.
    """
    return ops.cross_entropy(
        input,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=reduction_of(size_average, reduce, reduction),
        label_smoothing=label_smoothing,
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log probabilities `input` at the class indices `target`.

    See `plugrad.ops.nll_loss`.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.nll_loss(input, target, weight, ignore_index=ignore_index, reduction=reduction)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The cross entropy of targets in [0, 1] and probabilities."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.binary_cross_entropy(input, target, weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """The cross entropy of targets in [0, 1] and probabilities given by their logits, without overflow."""
    return ops.binary_cross_entropy_with_logits(
        input,
        target,
        weight,
        reduction=reduction_of(size_average, reduce, reduction),
        pos_weight=pos_weight,
    )
