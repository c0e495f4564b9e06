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
    "ctc_loss",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
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


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """The absolute error, smoothed where it is below `beta` by a parabola."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.smooth_l1_loss(input, target, reduction, beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Half the squared error, from `delta` on continued by its tangent, times `weight` if given.

    The mean is over all elements, whatever their weights.
    """
    if weight is None:
        return ops.huber_loss(input, target, reduction=reduction, delta=delta)
    each = ops.huber_loss(input, target, reduction="none", delta=delta)
    if weight.shape != input.shape:
        raise ValueError(
            f"huber_loss: weight must have the shape {input.shape} of input, got {weight.shape}"
        )
    return _reduced(each * weight, reduction)


def _reduced(each: Tensor, reduction: str) -> Tensor:
    """Losses, reduced; a mean is that of all elements."""
    if reduction == "mean":
        return ops.mean(each)
    if reduction == "sum":
        return ops.sum(each)
    if reduction == "none":
        return each
    raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """The Kullback-Leibler divergence of log probabilities `input` from the probabilities `target`.

    ``reduction="batchmean"`` is the divergence as it is defined; "mean" divides by the number of elements.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.kl_div(input, target, reduction, log_target)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log likelihood of counts with Poisson distributions of mean ``exp(input)``, or `input` itself."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.poisson_nll_loss(input, target, log_input, full, eps, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log likelihood of `target` with normal distributions of mean `input` and variance `var`."""
    return ops.gaussian_nll_loss(input, target, var, full, eps, reduction)


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


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log probability of labels whose alignment with a sequence is not known.

    See `plugrad.ops.ctc_loss`.
    """
    return ops.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
    )
