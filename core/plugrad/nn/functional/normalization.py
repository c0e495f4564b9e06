"""Normalisation over batches, layers, groups, instances and neighbouring channels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from plugrad.graph.grad_mode import no_grad
from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "rms_norm",
]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """`input` less its mean and divided by its deviation over the last dimensions, times `weight`, plus `bias`."""
    return ops.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """`input` divided by the root of its mean square over the last dimensions, times `weight`."""
    return ops.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Each of `num_groups` groups of channels less its mean and divided by its deviation.

    Raises
    ------
    ValueError
        There is one value per group.
    """
    if input.ndim > 1 and num_groups > 0:
        size = input.shape[0] * input.shape[1] // num_groups * math.prod(input.shape[2:])
        _check_values("group_norm", "channel", size, input)
    return ops.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """`input` divided by ``(k + alpha * m) ** beta``, m the mean square of `size` neighbouring channels."""
    return ops.local_response_norm(input, size, alpha, beta, k)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Each channel less a mean and divided by a deviation: the batch's in training, the running ones otherwise.

    Parameters
    ----------
    input : (N, C, ...)
    running_mean, running_var : (C), optional
        In training ``momentum`` of the batch's mean and corrected variance is blended into them, in place; otherwise
        they are needed.
    weight, bias : (C), optional

    Raises
    ------
    ValueError
        Training with one value per channel, or an `eps` that is negative or, in training, 0.
    RuntimeError
        Shapes do not fit together, or there are no running statistics to evaluate with.
    """
    running = {"running_mean": running_mean, "running_var": running_var}
    _check_channels("batch_norm", input, **running, weight=weight, bias=bias)
    if eps < 0 or (training and eps == 0):
        raise ValueError(
            f"batch_norm: eps must be {'positive in training' if training else 'at least 0'}, got {eps}"
        )
    if not training:
        return _with_running("batch_norm", input, running_mean, running_var, weight, bias, eps)
    count = input.numel() // max(input.shape[1], 1)
    _check_values("batch_norm", "channel", count, input)
    out, mean, var = ops.normalize_batch(input, weight, bias, eps=eps)
    if count:
        _blend(running_mean, mean, momentum)
        _blend(running_var, var, momentum, count / max(count - 1, 1))
    return out


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Each channel of each sample less its mean and divided by its deviation.

    Parameters
    ----------
    input : (N, C, ...)
    running_mean, running_var : (C), optional
        With `use_input_stats`, ``momentum`` of the mean over samples of their means and corrected variances is blended
        into them, in place; without, they take the place of the samples' own statistics.

    Raises
    ------
    ValueError
        The samples' own statistics are asked for and there is one value per channel.
    RuntimeError
        Shapes do not fit together, or there are no running statistics though they are asked for.
    """
    running = {"running_mean": running_mean, "running_var": running_var}
    _check_channels("instance_norm", input, **running, weight=weight, bias=bias)
    if not use_input_stats:
        return _with_running("instance_norm", input, running_mean, running_var, weight, bias, eps)
    _check_values("instance_norm", "spatial", math.prod(input.shape[2:]), input)
    if input.numel() and (running_mean is not None or running_var is not None):
        with no_grad():
            flat = ops.reshape(input, (*input.shape[:2], -1))
            _blend(running_mean, ops.mean(flat, dim=(0, 2)), momentum)
            _blend(running_var, ops.mean(ops.var(flat, dim=2), dim=0), momentum)
    return ops.instance_norm(input, weight, bias, eps)


def _check_channels(name: str, input: Tensor, **given: Tensor | None) -> None:
    if input.ndim < 2:
        raise RuntimeError(
            f"{name}: input needs a batch and a dimension of channels, got shape {input.shape}"
        )
    channels = input.shape[1]
    for word, each in given.items():
        if each is not None and each.shape != (channels,):
            raise RuntimeError(
                f"{name}: {word} must have shape ({channels},), a number per channel of input of shape {input.shape}, "
                f"got {each.shape}"
            )


def _check_values(name: str, kind: str, count: int, input: Tensor) -> None:
    """Raise if every statistic is one of a single value: what is normalised would be all zeros."""
    if count == 1:
        what = "spatial element" if kind == "spatial" else f"value per {kind}"
        raise ValueError(
            f"{name}: expected more than 1 {what} when training, got input of shape {input.shape}"
        )


def _with_running(
    name: str,
    input: Tensor,
    mean: Tensor | None,
    var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """`input` normalised with statistics that are given."""
    if mean is None or var is None:
        raise RuntimeError(
            f"{name}: without the input's own statistics running_mean and running_var are needed"
        )
    shape = (-1, *(1 for _ in input.shape[2:]))
    channel = [
        t if t is None or input.ndim == 2 else ops.reshape(t, shape)
        for t in (mean, var, weight, bias)
    ]
    mean, var, weight, bias = channel
    return ops.normalize_with(
        input, mean, var, 1.0 if weight is None else weight, 0.0 if bias is None else bias, eps=eps
    )


def _blend(running: Tensor | None, new: Tensor, momentum: float, correction: float = 1.0) -> None:
    """Move a running statistic towards a new value by the share `momentum`, in place."""
    if running is None:
        return
    with no_grad():
        running.mul_(1.0 - momentum).add_(
            ops.cast(new.detach() * (momentum * correction), dtype=running.dtype)
        )
