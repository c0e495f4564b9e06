"""Activations, linear maps and losses under PyTorch's names, with its argument names, order and defaults.

Each is a thin name over an operator of the standard plugin. What PyTorch does in place on request (`inplace`), this
refuses: the caller would go on with values that were not changed.
"""

from __future__ import annotations

from typing import Any

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "elu",
    "embedding",
    "gelu",
    "hardtanh",
    "l1_loss",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "relu",
    "relu6",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]


def _not_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise NotImplementedError(
            f"{name}: inplace=True is not supported; use the tensor that {name} returns"
        )


# ---------------------------------------------------------------------------------- activations


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """The positive part; the derivative at 0 is 0."""
    _not_in_place("relu", inplace)
    return ops.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """The part between 0 and 6; the derivative at both ends is 0."""
    _not_in_place("relu6", inplace)
    return ops.relu6(input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """`input` bounded to ``[min_val, max_val]``; the derivative at both ends is 0."""
    _not_in_place("hardtanh", inplace)
    return ops.hardtanh(input, min_val=min_val, max_val=max_val)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`input` where it is positive, `negative_slope` times it elsewhere."""
    _not_in_place("leaky_relu", inplace)
    return ops.leaky_relu(input, negative_slope=negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    _not_in_place("elu", inplace)
    return ops.elu(input, alpha=alpha)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``; `input` itself where ``beta * input`` exceeds `threshold`."""
    return ops.softplus(input, beta=beta, threshold=threshold)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """`input` times the normal distribution function of it; ``approximate="tanh"`` for the usual approximation."""
    return ops.gelu(input, approximate=approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``."""
    _not_in_place("silu", inplace)
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


# -------------------------------------------------------------------------------- linear, lookup


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


# ---------------------------------------------------------------------------------------- losses


def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction; PyTorch's two old flags go first where they are given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The squared error, times `weight` if given; the mean is then divided by the sum of the weights."""
    return _error(ops.mse_loss, input, target, _reduction(size_average, reduce, reduction), weight)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The absolute error, times `weight` if given; the mean is then divided by the sum of the weights."""
    return _error(ops.l1_loss, input, target, _reduction(size_average, reduce, reduction), weight)


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
        reduction=_reduction(size_average, reduce, reduction),
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
    reduction = _reduction(size_average, reduce, reduction)
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
    reduction = _reduction(size_average, reduce, reduction)
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
        reduction=_reduction(size_average, reduce, reduction),
        pos_weight=pos_weight,
    )
