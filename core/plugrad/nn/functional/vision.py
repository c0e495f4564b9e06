"""Resizing of images, channels moved into space and back, images read at places of a grid."""

from __future__ import annotations

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = [
    "affine_grid",
    "channel_shuffle",
    "grid_sample",
    "interpolate",
    "pixel_shuffle",
    "pixel_unshuffle",
    "upsample",
]


def interpolate(
    input: Tensor,
    size: int | tuple[int, ...] | list[int] | None = None,
    scale_factor: float | tuple[float, ...] | list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Images (N, C, …) resized to `size`, or by `scale_factor`.

    See `plugrad.ops.interpolate`.
    """
    return ops.interpolate(
        input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )


def upsample(
    input: Tensor,
    size: int | tuple[int, ...] | list[int] | None = None,
    scale_factor: float | tuple[float, ...] | list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """An old name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """From (*, C r², H, W) to (*, C, H r, W r), r being `upscale_factor`."""
    return ops.pixel_shuffle(input, upscale_factor)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """From (*, C, H r, W r) to (*, C r², H, W), r being `downscale_factor`."""
    return ops.pixel_unshuffle(input, downscale_factor)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of (N, C, …), in `groups` groups, dealt out in turn."""
    return ops.channel_shuffle(input, groups)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Images (N, C, H, W) or (N, C, D, H, W) read at the places of a grid (N, …, 2) or (N, …, 3).

    See `plugrad.ops.grid_sample`.
    """
    return ops.grid_sample(input, grid, mode, padding_mode, align_corners)


def affine_grid(
    theta: Tensor, size: tuple[int, ...] | list[int], align_corners: bool | None = None
) -> Tensor:
    """The grid with which `grid_sample` applies affine maps (N, 2, 3) or (N, 3, 4) to images, giving `size`."""
    return ops.affine_grid(theta, size, align_corners)
