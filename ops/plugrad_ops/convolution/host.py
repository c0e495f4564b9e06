"""Convolution on the CPU: which of three ways to compute it is taken.

(a) Tiles of the result are computed from images as they are (`direct`), with as many products in the same time as BLAS
    and nothing written in between.
(b) With kernels of 3 by 3 and many channels there is a way with 4 products in place of 9 (`winograd`). It takes from
    two to three quarters of the time of (a); measured in float32 with 64 to 256 channels, the root mean square of its
    errors is 0.7 to 1.3 times that of (a).
(c) Columns and a product of matrices (`columns`) serve where there are no tiles for the machine, and where zeros that
    (a) multiplies would make nan of infinities that no sum of the reference meets: in kernels of the adjoint by the
    images, in images of that by the kernel.
"""

from __future__ import annotations

import math

from plugrad_ops.convolution import columns, direct, winograd
from plugrad_ops.convolution.columns import computable
from plugrad_ops.convolution.images import finite, moderate

__all__ = ["convolution", "convolution_input", "convolution_weight"]

HAS_TILES = direct.instruction_sets()[1] >= 0
CHANNELS = 32  # on both sides from which on (b) is faster …
PLACES = 400  # … and results of a channel, in all images
MOST = 1 << 22  # elements of a kernel, of which it makes 16 / 9 as many


def _has_squares(w, images, kernel, places, groups):
    """Whether (b) serves."""
    return (
        w.squares is not None
        and min(kernel.shape[1], kernel.shape[0] // groups) >= CHANNELS
        and images.shape[0] * places >= PLACES
        and kernel.size <= MOST
        and moderate(images)
        and moderate(kernel)
    )


def convolution(w, input, weight, bias, groups):
    """The convolution of images (N, C, …) with a kernel (O, C / groups, …)."""
    if not (HAS_TILES and input.size and weight.size):
        return columns.convolution(w, input, weight, bias, groups)
    x, kernel, added = computable(input, weight, bias)
    shape = (x.shape[0], kernel.shape[0], *w.out)
    if _has_squares(w, x, kernel, w.count, groups):
        out = winograd.convolve(x, kernel, added, shape, w.squares[0], groups, False)
    else:
        out = direct.correlate(x, kernel, added, shape, *w.forward, groups, False)
    return out.astype(input.dtype, copy=False)


def convolution_input(w, input, weight, bias, groups):
    """Its adjoint by the images: from (N, O, …) to (N, C, …)."""
    g, kernel, added = computable(input, weight, bias)
    if not (HAS_TILES and g.size and kernel.size and finite(kernel)):
        return columns.convolution_input(w, input, weight, bias, groups)
    shape = (g.shape[0], kernel.shape[1] * groups, *w.size)
    if _has_squares(w, g, kernel, math.prod(w.size), groups):
        out = winograd.convolve(g, kernel, added, shape, w.squares[1], groups, True)
    else:
        out = direct.correlate(g, kernel, added, shape, *w.adjoint, groups, True)
    return out.astype(input.dtype, copy=False)


def convolution_weight(w, grad, input, groups):
    """Its adjoint by the kernel."""
    g, x = computable(grad, input)
    if not (HAS_TILES and g.size and x.size and finite(x)):
        return columns.convolution_weight(w, grad, input, groups)
    out = direct.correlate_grad(g, x, w.kernel, *w.sums, groups)
    return out.astype(grad.dtype, copy=False)
