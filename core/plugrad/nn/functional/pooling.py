"""Pooling."""

from __future__ import annotations

from typing import Any

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

Sizes = int | tuple[int, ...] | list[int]
Goals = int | None | tuple[int | None, ...] | list[int | None]


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest element of each window of (N, C, L) or (C, L); with `return_indices` a pair."""
    return ops.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest element of each window of (N, C, H, W) or (C, H, W); with `return_indices` a pair."""
    return ops.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest element of each window of (N, C, D, H, W) or (C, D, H, W); with `return_indices` a pair."""
    return ops.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def adaptive_max_pool1d(
    input: Tensor,
    output_size: Goals,
    return_indices: bool = False,
) -> Any:
    """Maxima over `output_size` windows that cover (N, C, L) or (C, L); with `return_indices` a pair."""
    return ops.adaptive_max_pool1d(input, output_size, return_indices)


def adaptive_max_pool2d(
    input: Tensor,
    output_size: Goals,
    return_indices: bool = False,
) -> Any:
    """Maxima over `output_size` windows that cover (N, C, H, W) or (C, H, W); with `return_indices` a pair."""
    return ops.adaptive_max_pool2d(input, output_size, return_indices)


def adaptive_max_pool3d(
    input: Tensor,
    output_size: Goals,
    return_indices: bool = False,
) -> Any:
    """Maxima over `output_size` windows that cover (N, C, D, H, W) or (C, D, H, W); with `return_indices` a pair."""
    return ops.adaptive_max_pool3d(input, output_size, return_indices)


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The average of each window of (N, C, L) or (C, L)."""
    return ops.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The average of each window of (N, C, H, W) or (C, H, W)."""
    return ops.avg_pool2d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The average of each window of (N, C, D, H, W) or (C, D, H, W)."""
    return ops.avg_pool3d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def adaptive_avg_pool1d(
    input: Tensor,
    output_size: Goals,
) -> Tensor:
    """Averages over `output_size` windows that cover (N, C, L) or (C, L)."""
    return ops.adaptive_avg_pool1d(input, output_size)


def adaptive_avg_pool2d(
    input: Tensor,
    output_size: Goals,
) -> Tensor:
    """Averages over `output_size` windows that cover (N, C, H, W) or (C, H, W)."""
    return ops.adaptive_avg_pool2d(input, output_size)


def adaptive_avg_pool3d(
    input: Tensor,
    output_size: Goals,
) -> Tensor:
    """Averages over `output_size` windows that cover (N, C, D, H, W) or (C, D, H, W)."""
    return ops.adaptive_avg_pool3d(input, output_size)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm, p being `norm_type`, of each window of (N, C, L) or (C, L)."""
    return ops.lp_pool1d(input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm, p being `norm_type`, of each window of (N, C, H, W) or (C, H, W)."""
    return ops.lp_pool2d(input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm, p being `norm_type`, of each window of (N, C, D, H, W) or (C, D, H, W)."""
    return ops.lp_pool3d(input, norm_type, kernel_size, stride, ceil_mode)
