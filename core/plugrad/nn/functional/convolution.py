"""Convolution, its transpose, and columns of windows."""

from __future__ import annotations

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]

Sizes = int | tuple[int, ...] | list[int]


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The convolution of (N, C, L) or (C, L) with a kernel (O, C / groups, K); `padding` may be "same" or "valid"."""
    return ops.conv1d(input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The convolution of (N, C, H, W) or (C, H, W) with a kernel (O, C / groups, …); see `conv1d`."""
    return ops.conv2d(input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The convolution of (N, C, D, H, W) or (C, D, H, W) with a kernel (O, C / groups, …); see `conv1d`."""
    return ops.conv3d(input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transposed convolution of (N, C, L) or (C, L) with a kernel (C, O / groups, K)."""
    return ops.conv_transpose1d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transposed convolution of (N, C, H, W) or (C, H, W) with a kernel (C, O / groups, …)."""
    return ops.conv_transpose2d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transposed convolution of (N, C, D, H, W) or (C, D, H, W) with a kernel (C, O / groups, …)."""
    return ops.conv_transpose3d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def unfold(
    input: Tensor,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """What windows over (N, C, H, W) or (C, H, W) see, as (N, C * taps, windows)."""
    return ops.unfold_images(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Images (N, C, *output_size) that columns (N, C * taps, windows) add up to: the adjoint of `unfold`."""
    return ops.fold_images(input, output_size, kernel_size, dilation, padding, stride)
