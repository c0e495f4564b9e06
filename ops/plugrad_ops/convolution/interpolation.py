"""Resizing of images, and channels moved into space and back."""

import math

from plugrad import composite, ops
from plugrad_ops.shape.copies import owned

MODES = {
    # mode: the kind of map along each dimension, and the number of spatial dimensions that it is for
    "nearest": ("nearest", (1, 2, 3)),
    "nearest-exact": ("nearest-exact", (1, 2, 3)),
    "area": ("adaptive", (1, 2, 3)),
    "linear": ("linear", (1,)),
    "bilinear": ("linear", (2,)),
    "trilinear": ("linear", (3,)),
    "bicubic": ("cubic", (2,)),
}


def _each(word, value, sizes):
    """A number per spatial dimension."""
    if not isinstance(value, tuple | list):
        return [value] * len(sizes)
    if len(value) != len(sizes):
        raise ValueError(
            f"interpolate: {word} must be one number or one per spatial dimension, got {value!r} for an input of spatial "
            f"shape {sizes}"
        )
    return list(value)


def _goals(sizes, size, scale_factor, recompute_scale_factor):
    """The lengths to come, and the factors to interpolate with (None: those of the lengths)."""
    if (size is None) == (scale_factor is None):
        raise ValueError(
            f"interpolate: one of size and scale_factor must be given, got size={size!r} and scale_factor={scale_factor!r}"
        )
    if size is not None:
        if recompute_scale_factor:
            raise ValueError("interpolate: recompute_scale_factor means nothing with size")
        return [int(n) for n in _each("size", size, sizes)], [None] * len(sizes)
    factors = [float(f) for f in _each("scale_factor", scale_factor, sizes)]
    if not all(map(math.isfinite, factors)):
        raise ValueError(f"interpolate: scale_factor must be finite, got {scale_factor!r}")
    goals = [math.floor(n * f) for n, f in zip(sizes, factors)]
    return goals, [None] * len(sizes) if recompute_scale_factor else factors


@composite("standard::interpolate")
def interpolate(
    input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False
):  # fmt: skip
    """Images (N, C, …) resized to `size`, or by `scale_factor`.

    Parameters
    ----------
    size, scale_factor : number or tuple
        Of each spatial dimension; one of the two.
    mode : str
        "nearest", "nearest-exact", "area", "linear" (one spatial dimension), "bilinear", "bicubic" (two) or
        "trilinear" (three).
    align_corners : bool, optional
        Whether the first and the last elements stay where they are, rather than the edges of the image; for the modes
        that interpolate.
    recompute_scale_factor : bool, optional
        Whether places are worked out from the resulting size, which is a whole number, rather than from `scale_factor`.

    Raises
    ------
    ValueError
        Arguments contradict each other.
    NotImplementedError
        The mode is unknown, is not for this number of dimensions, or `antialias` is asked for.
    RuntimeError
        The input apart from its batch is empty, or the result (but for mode "area", as in adaptive pooling).
    """
    n, sizes = input.ndim - 2, tuple(input.shape[2:])
    kind, dims = MODES.get(mode, ("", ()))
    if n not in dims:
        raise NotImplementedError(
            f"interpolate: the modes are {', '.join(MODES)}, each for inputs (N, C, …) with its number of spatial "
            f"dimensions, got mode {mode!r} and an input of shape {tuple(input.shape)}"
        )
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not supported")
    weighted = kind in ("linear", "cubic")
    if align_corners is not None and not weighted:
        raise ValueError(f"interpolate: align_corners means nothing for mode {mode!r}")
    goals, factors = _goals(sizes, size, scale_factor, recompute_scale_factor)
    least = 0 if kind == "adaptive" else 1  # an average has no place to be worked out
    if min(goals) < least or 0 in input.shape[1:]:
        raise RuntimeError(
            f"interpolate: input and result must have elements, got an input of shape {tuple(input.shape)} and the "
            f"spatial shape {tuple(goals)}"
        )
    each = zip(sizes, goals, factors)
    if kind == "adaptive":
        maps = tuple((kind, length, goal) for length, goal, _ in each)
    elif weighted:
        maps = tuple((kind, length, goal, bool(align_corners), f) for length, goal, f in each)
    else:
        # As in PyTorch, with two spatial dimensions a length that stays or doubles takes no account of its factor.
        plain = (1, 2) if mode == "nearest" and n == 2 else ()
        maps = tuple(
            (kind, length, goal, None if goal in [k * length for k in plain] else f)
            for length, goal, f in each
        )
    return ops.resample(input, maps=maps)


@interpolate.samples
def _(make):
    yield make.call(make.normal(1, 2, 3), 5, mode="linear")
    yield make.call(make.normal(1, 1, 3, 2), scale_factor=1.7, mode="bilinear", align_corners=True)
    yield make.call(make.normal(1, 1, 3, 2), (2, 4), mode="bicubic")
    yield make.call(make.normal(0, 1, 3), scale_factor=2)
    yield make.error(ValueError, "one of size and scale_factor", make.normal(1, 1, 3))
    yield make.error(NotImplementedError, "the modes are", make.normal(1, 1, 3), 4, mode="bilinear")
    yield make.error(ValueError, "align_corners", make.normal(1, 1, 3), 4, align_corners=True)
    yield make.error(RuntimeError, "must have elements", make.normal(1, 1, 3), 0)


# ---- channels and space ------------------------------------------------------------------------------------------


def _image(name, input):
    if input.ndim < 3:
        raise RuntimeError(
            f"{name}: expected an input (*, C, H, W), got shape {tuple(input.shape)}"
        )
    return input.shape[:-3], *input.shape[-3:]


@composite("standard::pixel_shuffle")
def pixel_shuffle(input, upscale_factor):
    """From (*, C r², H, W) to (*, C, H r, W r), r being `upscale_factor`.

    Raises
    ------
    RuntimeError
        r is not positive, or the number of channels not a multiple of r².
    """
    lead, c, h, w = _image("pixel_shuffle", input)
    r = upscale_factor
    if r < 1 or c % (r * r):
        raise RuntimeError(
            f"pixel_shuffle: upscale_factor must be positive and its square divide the channels, got {r} for an input of "
            f"shape {tuple(input.shape)}"
        )
    k = len(lead)
    apart = ops.reshape(input, (*lead, c // (r * r), r, r, h, w))
    order = (*range(k), k, k + 3, k + 1, k + 4, k + 2)
    out = ops.reshape(ops.permute(apart, order), (*lead, c // (r * r), h * r, w * r))
    return owned(out, input)


@pixel_shuffle.samples
def _(make):
    yield make.call(make.normal(1, 4, 2, 1), 2)
    yield make.call(make.normal(2, 2, 3), 1)
    yield make.call(make.normal(0, 4, 2, 2), 2)
    yield make.error(RuntimeError, "divide the channels", make.normal(1, 2, 2, 2), 2)
    yield make.error(RuntimeError, "expected an input", make.normal(2, 2), 1)


@composite("standard::pixel_unshuffle")
def pixel_unshuffle(input, downscale_factor):
    """From (*, C, H r, W r) to (*, C r², H, W), r being `downscale_factor`: undoes `pixel_shuffle`.

    Raises
    ------
    RuntimeError
        r is not positive, or does not divide the height and the width.
    """
    lead, c, h, w = _image("pixel_unshuffle", input)
    r = downscale_factor
    if r < 1 or h % r or w % r:
        raise RuntimeError(
            f"pixel_unshuffle: downscale_factor must be positive and divide height and width, got {r} for an input of "
            f"shape {tuple(input.shape)}"
        )
    k = len(lead)
    apart = ops.reshape(input, (*lead, c, h // r, r, w // r, r))
    order = (*range(k), k, k + 2, k + 4, k + 1, k + 3)
    out = ops.reshape(ops.permute(apart, order), (*lead, c * r * r, h // r, w // r))
    return owned(out, input)


@pixel_unshuffle.samples
def _(make):
    yield make.call(make.normal(1, 1, 4, 2), 2)
    yield make.call(make.normal(2, 2, 3), 1)
    yield make.call(make.normal(0, 1, 2, 2), 2)
    yield make.error(RuntimeError, "divide height", make.normal(1, 2, 3, 2), 2)


@composite("standard::channel_shuffle")
def channel_shuffle(input, groups):
    """The channels of (N, C, …), in `groups` groups, dealt out in turn.

    Raises
    ------
    RuntimeError
        `groups` is not positive or does not divide the channels, or there is no spatial dimension.
    """
    if input.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle: expected an input (N, C, …) of 3 dimensions at least, got shape {tuple(input.shape)}"
        )
    n, c, *sizes = input.shape
    if groups < 1 or c % groups:
        raise RuntimeError(
            f"channel_shuffle: groups must be positive and divide the channels, got {groups} for an input of shape "
            f"{tuple(input.shape)}"
        )
    apart = ops.reshape(input, (n, groups, c // groups, *sizes))
    out = ops.reshape(ops.transpose(apart, dim0=1, dim1=2), tuple(input.shape))
    return owned(out, input)


@channel_shuffle.samples
def _(make):
    yield make.call(make.normal(1, 4, 2), 2)
    yield make.call(make.normal(1, 3, 1, 2), 3)
    yield make.call(make.normal(0, 4, 2), 2)
    yield make.error(RuntimeError, "divide the channels", make.normal(1, 3, 2), 2)
