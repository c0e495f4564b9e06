"""Convolution and its adjoints in plain NumPy, one tap of the kernel after the other.

What the compiled kernels are held to. Arguments are checked by the callers.
"""

from __future__ import annotations

import numpy as np

from plugrad.backends.dtypes import wide

__all__ = ["col2im", "convolution", "convolution_input", "convolution_weight", "im2col"]


def _taps(w):
    """Each tap of the kernel, and what of a padded image it meets."""
    for tap in np.ndindex(*w.kernel):
        yield (
            tap,
            (
                ...,
                *(
                    slice(k * d, k * d + (n - 1) * s + 1, s)
                    for k, d, n, s in zip(tap, w.dilation, w.out, w.stride)
                ),
            ),
        )


def _padded(w, lead, dtype):
    """A padded image of zeros, and the view of it that is the image."""
    lengths = [
        max(p + n, (o - 1) * s + d * (k - 1) + 1)
        for n, k, s, p, d, o in zip(w.size, w.kernel, w.stride, w.padding, w.dilation, w.out)
    ]
    padded = np.zeros((*lead, *lengths), dtype)
    return padded, padded[(..., *(slice(p, p + n) for n, p in zip(w.size, w.padding)))]


def _wide(array):
    return array.astype(wide(array.dtype), copy=False)


def convolution(w, input, weight, bias, groups):
    """The convolution of images (N, C, …) with a kernel (O, C / groups, …)."""
    x, kernel = _wide(input), _wide(weight)
    padded, image = _padded(w, input.shape[:2], x.dtype)
    image[...] = x
    (n, c), o = input.shape[:2], weight.shape[0]
    kernel = kernel.reshape(groups, o // groups, *weight.shape[1:])
    out = np.zeros((n, groups, o // groups, w.count), x.dtype)
    for tap, seen in _taps(w):
        out += kernel[(..., *tap)] @ padded[seen].reshape(n, groups, c // groups, w.count)
    out = out.reshape(n, o, *w.out)
    if bias is not None:
        out = out + _wide(bias).reshape(-1, *(1,) * len(w.size))
    return out.astype(input.dtype, copy=False)


def convolution_input(w, input, weight, bias, groups):
    """Its adjoint by the images: from (N, O, …) to (N, C, …)."""
    g, kernel = _wide(input), _wide(weight)
    (n, o), c = input.shape[:2], weight.shape[1] * groups
    kernel = kernel.reshape(groups, o // groups, *weight.shape[1:])
    g = g.reshape(n, groups, o // groups, w.count)
    padded, image = _padded(w, (n, c), g.dtype)
    for tap, seen in _taps(w):
        padded[seen] += (kernel[(..., *tap)].swapaxes(-1, -2) @ g).reshape(n, c, *w.out)
    if bias is not None:
        image = image + _wide(bias).reshape(-1, *(1,) * len(w.size))
    return image.astype(input.dtype)


def convolution_weight(w, grad, input, groups):
    """Its adjoint by the kernel."""
    g, x = _wide(grad), _wide(input)
    (n, o), c = grad.shape[:2], input.shape[1]
    padded, image = _padded(w, (n, c), x.dtype)
    image[...] = x
    g = g.reshape(n, groups, o // groups, w.count)
    out = np.empty((groups, o // groups, c // groups, *w.kernel), g.dtype)
    for tap, seen in _taps(w):
        columns = padded[seen].reshape(n, groups, c // groups, w.count)
        out[(..., *tap)] = np.sum(g @ columns.swapaxes(-1, -2), axis=0)
    return out.reshape(o, c // groups, *w.kernel).astype(grad.dtype, copy=False)


def im2col(w, input):
    """What the windows over images (N, C, …) see, as (N, C * taps, windows)."""
    padded, image = _padded(w, input.shape[:2], input.dtype)
    image[...] = input
    out = np.empty((*input.shape[:2], *w.kernel, w.count), input.dtype)
    for tap, seen in _taps(w):
        out[(slice(None), slice(None), *tap)] = padded[seen].reshape(*input.shape[:2], w.count)
    return out.reshape(input.shape[0], input.shape[1] * w.taps, w.count)


def col2im(w, input):
    """Its adjoint."""
    n, c = input.shape[0], input.shape[1] // w.taps
    columns = _wide(input).reshape(n, c, *w.kernel, *w.out)
    padded, image = _padded(w, (n, c), columns.dtype)
    for tap, seen in _taps(w):
        padded[seen] += columns[(slice(None), slice(None), *tap)]
    return image.astype(input.dtype)
