"""The kernels that are offered: for float32, of the shapes that oneDNN takes. The rest is left to the operators' own."""

from __future__ import annotations

import numpy as np

from plugrad_onednn.primitives import Shape, made

__all__ = ["convolution", "convolution_input", "convolution_weight"]


def _shape(images, kernel, out, stride, padding, dilation, groups, biased=False):
    """The numbers of a convolution, or None if they do not fit together (the operator's own kernel says why)."""
    n = len(kernel) - 2
    if not (
        1 <= n <= 3
        and len(images) == n + 2 == len(stride) + 2 == len(padding) + 2 == len(dilation) + 2
    ):
        return None
    if (
        groups < 1
        or kernel[0] % groups
        or images[1] != kernel[1] * groups
        or 0 in images
        or 0 in kernel
    ):
        return None
    ends = [p if isinstance(p, tuple) else (p, p) for p in padding]
    before = tuple(low for low, _ in ends)
    if min(stride) < 1 or min(dilation) < 1 or min(before) < 0:
        return None
    reach = [d * (k - 1) + 1 for k, d in zip(kernel[2:], dilation)]
    room = [size + low + high - r for size, (low, high), r in zip(images[2:], ends, reach)]
    if min(room) < 0:
        return None
    found = tuple(r // s + 1 for r, s in zip(room, stride))
    if out is not None and found != tuple(out):
        return None
    # What oneDNN takes as padding behind is what the last window needs.
    behind = tuple(
        (o - 1) * s + r - size - low
        for o, s, r, size, low in zip(found, stride, reach, images[2:], before)
    )
    return Shape(
        images[0], images[1], tuple(images[2:]), kernel[0], found, tuple(kernel[2:]), tuple(stride), tuple(dilation),
        before, behind, groups, biased,
    )  # fmt: skip


def _ready(*arrays):
    """The arrays in C order, or None if not all are float32."""
    if any(a is not None and a.dtype != np.float32 for a in arrays):
        return None
    return [None if a is None else np.ascontiguousarray(a) for a in arrays]


def convolution(input, weight, bias=None, *, stride, padding, dilation, groups=1):
    """As ``standard::convolution``."""
    arrays = _ready(input, weight, bias)
    shape = arrays and _shape(
        input.shape, weight.shape, None, stride, padding, dilation, groups, bias is not None
    )
    if not shape or (bias is not None and bias.shape != weight.shape[:1]):
        return NotImplemented
    run = made("forward", shape)
    if run is None:
        return NotImplemented
    out = np.empty((shape.images, shape.results, *shape.out), np.float32)
    run(*(a for a in arrays if a is not None), out)
    return out


def convolution_input(input, weight, bias=None, *, size, stride, padding, dilation, groups=1):
    """As ``standard::convolution_input``."""
    arrays = _ready(input, weight, bias)
    if (
        not arrays
        or input.ndim != weight.ndim
        or input.ndim < 3
        or input.shape[1] != weight.shape[0]
    ):
        return NotImplemented
    images = (input.shape[0], weight.shape[1] * groups, *size)
    shape = _shape(images, weight.shape, input.shape[2:], stride, padding, dilation, groups)
    if not shape or (bias is not None and bias.shape != images[1:2]):
        return NotImplemented
    run = made("input", shape)
    if run is None:
        return NotImplemented
    out = np.empty(images, np.float32)
    run(*arrays[:2], out)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * len(size))
    return out


def convolution_weight(grad_out, input, *, kernel_size, stride, padding, dilation, groups=1):
    """As ``standard::convolution_weight``."""
    arrays = _ready(grad_out, input)
    if not arrays or grad_out.ndim != input.ndim or input.ndim < 3 or len(grad_out) != len(input):
        return NotImplemented
    kernel = (grad_out.shape[1], input.shape[1] // max(groups, 1), *kernel_size)
    shape = _shape(input.shape, kernel, grad_out.shape[2:], stride, padding, dilation, groups)
    run = shape and made("weight", shape)
    if not run:
        return NotImplemented
    out = np.empty(kernel, np.float32)
    run(*arrays, out)
    return out
