"""The greatest element of each window, and where it is.

The gradient goes to the element whose index is returned: the first of equals, as in PyTorch. NaN counts as greatest.
"""

import math
from functools import lru_cache

import numpy as np

from plugrad import operator, ops
from plugrad.backends.copies import in_c_order
from plugrad_ops.convolution import maxima_cpu
from plugrad_ops.convolution.columns import computable
from plugrad_ops.convolution.maps import adaptive_ends, pooled_length


@lru_cache(maxsize=1024)
def span_of(told, size):
    """The windows along a dimension of length `size`.

    Parameters
    ----------
    told : tuple
        ``("window", kernel, stride, padding, dilation, ceil_mode)`` or ``("adaptive", out)``.

    Returns
    -------
    ends : ndarray of int64
        (out, 2): the first element of each window, and the one behind its last.
    step : int
        From element to element of a window.
    """
    kind, *numbers = told
    if kind == "adaptive":
        return np.stack(adaptive_ends(size, *numbers), 1).astype(np.int64), 1
    kernel, stride, padding, dilation, ceil_mode = numbers
    out = pooled_length(size, kernel, stride, padding, dilation, ceil_mode)
    begin = np.arange(out, dtype=np.int64) * stride - padding
    last = np.minimum(begin + (kernel - 1) * dilation + 1, size)
    # The first element that is not in the padding.
    first = np.where(begin < 0, begin + -(begin // dilation) * dilation, begin)
    if np.any(first >= last):
        raise RuntimeError(
            f"max_pool: a window lies in the padding altogether: length {size}, kernel_size {kernel}, stride {stride}, "
            f"padding {padding}, dilation {dilation}"
        )
    return np.stack([first, last], 1), dilation


@lru_cache(maxsize=1024)
def laid_out(shape, spans):
    """The ends and steps of the windows in three dimensions, their lengths, and the shape of the result."""
    n = len(spans)
    if len(shape) < n or 0 in shape[len(shape) - n :]:
        raise RuntimeError(
            f"max_over_windows: {n} dimensions with elements are needed, got shape {tuple(shape)}"
        )
    size = (1,) * (3 - n) + tuple(shape[len(shape) - n :])
    told = (("adaptive", 1),) * (3 - n) + tuple(spans)
    ends, steps = zip(*(span_of(each, length) for each, length in zip(told, size)))
    out = tuple(len(e) for e in ends)
    return list(ends), steps, size, (*shape[: len(shape) - n], *out[3 - n :])


def _meta(input, *, spans):
    shape = laid_out(input.shape, spans)[3]
    return [(shape, input.dtype), (shape, np.dtype(np.int64))]


def _near(input, *, tol, spans):
    """Windows in which another element comes within `tol` of the greatest."""
    ends, steps, size, shape = laid_out(input.shape, spans)
    if not input.size:
        return np.zeros(shape, bool)
    planes = input.reshape(-1, *size)
    out = np.zeros((planes.shape[0], *map(len, ends)), bool)
    for place in np.ndindex(*out.shape[1:]):
        seen = planes[(slice(None), *_slices(ends, steps, place))].reshape(planes.shape[0], -1)
        close = seen >= seen.max(axis=1, keepdims=True) - tol
        out[(slice(None), *place)] = close.sum(axis=1) > 1
    return out.reshape(shape)


def _slices(ends, steps, place):
    return [slice(*e[i], step) for e, step, i in zip(ends, steps, place)]


def _even(told, size):
    """What the kernel wants to know of windows that are evenly spaced."""
    if told[0] == "window":
        return told[1:4]
    out = told[1]
    return (size // out, size // out, 0) if out and size % out == 0 else ()


def _on_host(input, *, spans):
    ends, steps, size, shape = laid_out(input.shape, spans)
    (images,) = computable(input)
    found = maxima_cpu.maxima_over(images, ends, size, steps, _even(spans[-1], size[-1]), shape)
    return found[0].astype(input.dtype, copy=False), found[1]


@operator(
    "standard::max_over_windows",
    outputs=("values", "indices"),
    nondifferentiable=("indices",),
    infer=_meta,
    kinks=_near,
    cpu=_on_host,
    cuda=".maxima_cuda:max_over_windows",
)
def max_over_windows(input, *, spans):
    """The maxima over windows along the last dimensions, and where in its plane each lies.

    Parameters
    ----------
    input : (…, *sizes)
    spans : tuple of tuple
        One per dimension, as `maxima.span_of` takes it.

    Returns
    -------
    values, indices : (…, *outs)
        An index counts the elements of a plane in C order.
    """
    ends, steps, size, shape = laid_out(input.shape, spans)
    planes = input.reshape(-1, *size)
    places = np.arange(math.prod(size)).reshape(size)
    values = np.empty((planes.shape[0], *map(len, ends)), input.dtype)
    indices = np.empty(values.shape, np.int64)
    for place in np.ndindex(*values.shape):
        where = _slices(ends, steps, place[1:])
        seen = planes[(place[0], *where)].ravel()
        none = np.flatnonzero(np.isnan(seen))
        best = none[-1] if none.size else np.argmax(seen)
        values[place], indices[place] = seen[best], places[tuple(where)].flat[best]
    return values.reshape(shape), indices.reshape(shape)


@max_over_windows.backward
def _(grad, indices, like, spans):
    shape = tuple(like.input.shape)
    plane = math.prod(shape[len(shape) - len(spans) :])
    planes = math.prod(shape[: len(shape) - len(spans)])
    flat = (planes, indices.numel() // max(planes, 1))
    found = ops.add_along_dim(
        ops.reshape(grad[0], flat), ops.reshape(indices, flat), shape=(planes, plane), dim=1
    )
    return ops.reshape(found, shape)


@max_over_windows.backward_kernel(cuda=".maxima_cuda:max_over_windows_backward")
def _(grad, indices, like, spans):
    shape = tuple(like.input.shape)
    (values,) = computable(grad[0])
    count = math.prod(shape[: len(shape) - len(spans)])
    out = maxima_cpu.add_at_maxima(values, in_c_order(indices), shape, count)
    return out.astype(grad[0].dtype, copy=False)


@max_over_windows.samples
def _(make):
    two = ("window", 2, 1, 0, 1, False)
    yield make.call(make.distinct(2, 3, 4), spans=(two, ("window", 2, 2, 1, 1, True)))
    yield make.call(make.distinct(2, 6), spans=(("window", 2, 2, 1, 3, False),))
    yield make.call(make.distinct(1, 2, 3, 2), spans=(two, ("adaptive", 2), two))
    yield make.call(make.values([[1.0, 3.0, 3.0, 2.0]]), spans=(two,))
    yield make.call(make.distinct(0, 4), spans=(two,))
    yield make.error(RuntimeError, "with elements", make.distinct(2, 0), spans=(two,))
