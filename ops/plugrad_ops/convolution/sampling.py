"""Images read at places that a grid gives, and grids of affine maps.

Places run from -1 to 1 over an image; the last dimension of a grid holds them in the order x, y, z, that of the image's
dimensions from the last one on.
"""

import itertools
import math

import numpy as np

from plugrad import Tensor, composite, ops

MODES = ("bilinear", "nearest")
PADDINGS = ("zeros", "border")


def _check(input, grid, mode, padding_mode):
    name, n = "grid_sample", input.ndim - 2
    if n not in (2, 3) or grid.ndim != n + 2 or grid.shape[-1] != n:
        raise RuntimeError(
            f"{name}: expected an input (N, C, H, W) and a grid (N, H', W', 2), or one more dimension and 3, got shapes "
            f"{tuple(input.shape)} and {tuple(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0] or 0 in input.shape[2:]:
        raise RuntimeError(
            f"{name}: input and grid must have equally many images, of one element at least, got shapes "
            f"{tuple(input.shape)} and {tuple(grid.shape)}"
        )
    for word, value, known, beyond in (
        ("mode", mode, MODES, ("bicubic",)),
        ("padding_mode", padding_mode, PADDINGS, ("reflection",)),
    ):
        if value in beyond:
            raise NotImplementedError(f"{name}: {word} {value!r} is not supported")
        if value not in known:
            raise ValueError(f"{name}: {word} must be one of {', '.join(known)}, got {value!r}")


@composite("standard::grid_sample")
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Images read at the places of a grid.

    Parameters
    ----------
    input : (N, C, H, W) or (N, C, D, H, W)
    grid : (N, H', W', 2) or (N, D', H', W', 3)
    mode : {"bilinear", "nearest"}
    padding_mode : {"zeros", "border"}
        What lies outside an image: zeros, or the nearest element.
    align_corners : bool, optional
        Whether -1 and 1 are the centres of the outermost elements rather than their edges.

    Returns
    -------
    (N, C, H', W') or (N, C, D', H', W')

    Raises
    ------
    RuntimeError
        Shapes do not fit together.
    NotImplementedError
        The mode is "bicubic" or the padding "reflection".
    """
    _check(input, grid, mode, padding_mode)
    n, channels, *sizes = input.shape
    points = (n, 1, math.prod(grid.shape[1:-1]))
    places = []
    for d, size in enumerate(sizes):
        g = ops.reshape(ops.select(grid, dim=-1, index=len(sizes) - 1 - d), points)
        place = (g + 1) * ((size - 1) / 2) if align_corners else ((g + 1) * size - 1) / 2
        if padding_mode == "border":
            place = ops.clamp(place, min=0, max=size - 1)
        places.append(place)
    if mode == "nearest":
        corners, parts = [(0,) * len(sizes)], None
        firsts = [ops.round(place) for place in places]
    else:
        corners = list(itertools.product((0, 1), repeat=len(sizes)))
        firsts = [ops.floor(place) for place in places]
        parts = [place - first for place, first in zip(places, firsts)]
    flat = ops.reshape(input, (n, channels, math.prod(sizes)))
    out = 0
    for corner in corners:
        weight, inside, index = _corner(corner, firsts, parts, sizes)
        index = ops.cast(ops.where(inside, index, 0), dtype=np.dtype(np.int64))
        values = ops.where(inside, ops.take_along_dim(flat, index, dim=2), 0)
        out = out + (values if weight is None else values * weight)
    return ops.reshape(out, (n, channels, *grid.shape[1:-1]))


def _corner(corner, firsts, parts, sizes):
    """The weight of one neighbour, whether it lies in the image, and its place in the flattened image."""
    weight = inside = None
    index = 0
    for d, (step, first, size) in enumerate(zip(corner, firsts, sizes)):
        at = first + step
        here = (at >= 0) & (at < size)
        inside = here if inside is None else inside & here
        index = index * size + at
        if parts is not None:
            part = parts[d] if step else 1 - parts[d]
            weight = part if weight is None else weight * part
    return weight, inside, index


@grid_sample.samples
def _(make):
    yield make.call(make.normal(1, 1, 2, 3), make.uniform(1, 1, 2, 2))
    yield make.call(
        make.normal(1, 1, 2, 2), make.uniform(1, 2, 1, 2, low=-1.5, high=1.5), align_corners=True, padding_mode="border"
    )  # fmt: skip
    yield make.call(make.normal(1, 1, 2, 2), make.uniform(1, 2, 1, 2), mode="nearest")
    yield make.error(RuntimeError, "expected an input", make.normal(1, 1, 3), make.normal(1, 2, 1))
    yield make.error(ValueError, "mode", make.normal(1, 1, 2, 2), make.normal(1, 1, 1, 2), "cubic")


@composite("standard::affine_grid")
def affine_grid(theta, size, align_corners=None):
    """The places that an affine map takes the elements of an image from, as `grid_sample` reads them.

    Parameters
    ----------
    theta : (N, 2, 3) or (N, 3, 4)
        A matrix and a shift for each image.
    size : tuple of int
        (N, C, H, W) or (N, C, D, H, W), of the result of `grid_sample`.

    Returns
    -------
    (N, H, W, 2) or (N, D, H, W, 3)

    Raises
    ------
    RuntimeError
        The two do not fit together.
    """
    size = tuple(size)
    n = len(size) - 2
    if n not in (2, 3) or tuple(theta.shape) != (size[0], n, n + 1) or min(size[2:]) < 1:
        raise RuntimeError(
            f"affine_grid: a size (N, C, H, W) goes with maps (N, 2, 3), one with another dimension with (N, 3, 4), got "
            f"{size} and shape {tuple(theta.shape)}"
        )
    lines = [_places(length, align_corners) for length in size[2:]]
    mesh = np.meshgrid(*lines, indexing="ij")
    ones = np.ones(size[2:])
    base = np.stack([*mesh[::-1], ones], -1).reshape(-1, n + 1).astype(theta.dtype)
    found = ops.matmul(Tensor(base).to(theta.device), ops.transpose(theta, dim0=1, dim1=2))
    return ops.reshape(found, (size[0], *size[2:], n))


def _places(length, align_corners):
    """The places of the elements along a dimension."""
    if align_corners:
        return np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
    return (2 * np.arange(length) + 1) / length - 1


@affine_grid.samples
def _(make):
    yield make.call(make.normal(1, 2, 3), (1, 1, 2, 3))
    yield make.call(make.normal(2, 2, 3), (2, 1, 2, 1), align_corners=True)
    yield make.call(make.normal(1, 3, 4), (1, 1, 2, 1, 2))
    yield make.error(RuntimeError, "goes with maps", make.normal(1, 3, 3), (1, 1, 2, 2))
