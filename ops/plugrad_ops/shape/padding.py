"""Padding: with a value, or with what lies near or opposite an edge.

(a) `pad` is PyTorch's: pairs of widths from the last dimension backwards. A negative width takes elements away.
(b) What is copied into a border is an index to write to and one to read from, so the CPU, CUDA and the adjoints share
    one table. Dimensions are filled one after the other, each over the whole extent of the others: corners come of
    themselves.
"""

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.dtypes import wide
from plugrad_ops.shape.dims import as_size

MODES = ("constant", "reflect", "replicate", "circular")


def pairs(name, pad, ndim):
    """`pad` as one pair (before, after) per dimension, in their order.

    Raises
    ------
    RuntimeError
        The number of widths is odd, or there are more than dimensions.
    """
    widths = as_size(name, pad, "pad")
    if len(widths) % 2 or len(widths) > 2 * ndim:
        raise RuntimeError(
            f"{name}: pad takes pairs of widths for at most the {ndim} dimensions of the tensor, got {widths}"
        )
    found = list(zip(widths[::2], widths[1::2]))[::-1]
    return [(0, 0)] * (ndim - len(found)) + found


def padded_shape(name, shape, widths):
    """The shape of the result; taking away more than a dimension has is an error."""
    out = tuple(n + before + after for n, (before, after) in zip(shape, widths))
    if any(n + min(before, 0) + min(after, 0) < 0 for n, (before, after) in zip(shape, widths)):
        raise RuntimeError(
            f"{name}: the widths {widths} take more away than a tensor of shape {tuple(shape)} has"
        )
    return out


# ---- with a value --------------------------------------------------------------------------------------------


def kept(shape, widths):
    """Two indices: what is kept of the input, and where in the result that goes."""
    source, target = [], []
    for n, (before, after) in zip(shape, widths):
        start, stop = max(-before, 0), n - max(-after, 0)
        length = max(stop - start, 0)
        begin = max(before, 0)
        source.append(slice(start, start + length))
        target.append(slice(begin, begin + length))
    return tuple(source), tuple(target)


def _constant_meta(input, *, pad, value=0):
    widths = pairs("constant_pad_nd", pad, input.ndim)
    return padded_shape("constant_pad_nd", input.shape, widths), input.dtype


@operator(
    "standard::constant_pad_nd", dtypes="any", infer=_constant_meta, cuda=".cuda:constant_pad_nd"
)
def constant_pad_nd(input, *, pad, value=0):
    """`input` with `value` around it.

    Parameters
    ----------
    pad : tuple of int
        Widths before and after the last dimension, the one before, and so on; negative ones take away.
    """
    widths = pairs("constant_pad_nd", pad, input.ndim)
    out = np.full(padded_shape("constant_pad_nd", input.shape, widths), value, input.dtype)
    source, target = kept(input.shape, widths)
    out[target] = input[source]
    return out


@constant_pad_nd.backward
def _(grad, pad):
    return ops.constant_pad_nd(grad, tuple(-n for n in as_size("constant_pad_nd", pad, "pad")))


@constant_pad_nd.samples
def _(make):
    yield make.call(make.normal(2, 3), pad=(1, 2))
    yield make.call(make.normal(2, 3), pad=(-1, 2, 1, 0), value=1.5)
    yield make.call(make.normal(4), pad=(-1, -2))
    yield make.call(make.normal(), pad=())
    yield make.call(make.normal(0, 2), pad=(0, 0, 1, 1), value=-1)
    yield make.error(RuntimeError, "pairs of widths", make.normal(3), pad=(1,))
    yield make.error(RuntimeError, "pairs of widths", make.normal(3), pad=(1, 1, 1, 1))
    yield make.error(RuntimeError, "more away", make.normal(3), pad=(-2, -2))


# ---- from the tensor itself ----------------------------------------------------------------------------------


def _at(axis, where):
    return (*(slice(None),) * axis, where)


def borders(axis, n, before, after, mode):
    """Pairs (to, from) of indices along one axis of the result, in which `n` elements lie after `before` others."""
    last = before + n - 1
    if mode == "replicate":
        sources = slice(before, before + 1), slice(last, last + 1)
    elif mode == "reflect":
        end = last - 1 - after
        sources = slice(2 * before, before, -1), slice(last - 1, end if end >= 0 else None, -1)
    else:
        sources = slice(n, n + before), slice(before, before + after)
    targets = slice(0, before), slice(before + n, before + n + after)
    return [
        (_at(axis, to), _at(axis, source))
        for to, source, width in zip(targets, sources, (before, after))
        if width
    ]


def check_edges(name, shape, widths, mode):
    """Raise unless every dimension has the elements that its borders are copied from."""
    if mode not in MODES[1:]:
        raise ValueError(f"{name}: mode must be one of {', '.join(MODES[1:])}, got {mode!r}")
    for axis, (n, pair) in enumerate(zip(shape, widths)):
        most = {"reflect": n - 1, "circular": n, "replicate": float("inf") if n else 0}[mode]
        if max(pair) > max(most, 0):
            raise RuntimeError(
                f"{name}: mode {mode!r} has at most {max(most, 0)} elements to pad dimension {axis} of shape "
                f"{tuple(shape)} with, got widths {pair}"
            )
        if min(pair) < 0:
            raise RuntimeError(f"{name}: widths cannot be negative, got {pair}")


def _edges_meta(input, *, pad, mode):
    widths = pairs("edge_pad", pad, input.ndim)
    check_edges("edge_pad", input.shape, widths, mode)
    return padded_shape("edge_pad", input.shape, widths), input.dtype


@operator("standard::edge_pad", dtypes="any", infer=_edges_meta, cuda=".cuda:edge_pad")
def edge_pad(input, *, pad, mode):
    """`input` with borders copied from itself; `pad` as for `constant_pad_nd`, none negative.

    Parameters
    ----------
    mode : {"reflect", "replicate", "circular"}
        Mirrored at the outermost elements, the outermost elements themselves, or what lies at the opposite end.

    Raises
    ------
    RuntimeError
        A dimension is too short for its border.
    """
    widths = pairs("edge_pad", pad, input.ndim)
    check_edges("edge_pad", input.shape, widths, mode)
    out = np.empty(padded_shape("edge_pad", input.shape, widths), input.dtype)
    out[kept(input.shape, widths)[1]] = input
    for axis, (n, pair) in enumerate(zip(input.shape, widths)):
        for to, source in borders(axis, n, *pair, mode):
            out[to] = out[source]
    return out


@edge_pad.backward
def _(grad, pad, mode):
    return ops.edge_pad_adjoint(grad, pad, mode)


def _edge_samples(make, padded):
    for shape, pad, mode in (
        ((4,), (2, 3), "reflect"),
        ((2, 3), (2, 0, 1, 1), "reflect"),
        ((2, 3), (1, 4, 3, 0), "replicate"),
        ((2, 3), (3, 1, 1, 2), "circular"),
        ((), (), "reflect"),
        ((0, 2), (1, 1), "replicate"),
    ):
        own = padded_shape("edge_pad", shape, pairs("edge_pad", pad, len(shape)))
        yield make.call(make.normal(*(own if padded else shape)), pad=pad, mode=mode)


@edge_pad.samples
def _(make):
    yield from _edge_samples(make, padded=False)
    yield make.error(RuntimeError, "at most 2", make.normal(3), pad=(3, 0), mode="reflect")
    yield make.error(RuntimeError, "at most 0", make.normal(0), pad=(1, 0), mode="replicate")
    yield make.error(RuntimeError, "negative", make.normal(3), pad=(-1, 0), mode="circular")
    yield make.error(ValueError, "mode", make.normal(3), pad=(1, 0), mode="symmetric")


def inner_shape(name, shape, widths):
    """The shape that padding made this shape of."""
    return padded_shape(name, shape, [(-before, -after) for before, after in widths])


def _adjoint_meta(input, *, pad, mode):
    widths = pairs("edge_pad_adjoint", pad, input.ndim)
    shape = inner_shape("edge_pad_adjoint", input.shape, widths)
    check_edges("edge_pad_adjoint", shape, widths, mode)
    return shape, input.dtype


@operator(
    "standard::edge_pad_adjoint", dtypes="any", infer=_adjoint_meta, cuda=".cuda:edge_pad_adjoint"
)
def edge_pad_adjoint(input, *, pad, mode):
    """The inner part of `input`, with its borders added to where `edge_pad` copied them from."""
    widths = pairs("edge_pad_adjoint", pad, input.ndim)
    shape = inner_shape("edge_pad_adjoint", input.shape, widths)
    check_edges("edge_pad_adjoint", shape, widths, mode)
    work = input.astype(wide(input.dtype))
    for axis in reversed(range(input.ndim)):
        before, after = widths[axis]
        for to, source in borders(axis, shape[axis], before, after, mode):
            border = work[to]
            if mode == "replicate":
                border = border.sum(axis, keepdims=True, dtype=work.dtype)
            work[source] += border
        work = work[_at(axis, slice(before, before + shape[axis]))]
    return work.astype(input.dtype, order="C")


@edge_pad_adjoint.backward
def _(grad, pad, mode):
    return ops.edge_pad(grad, pad, mode)


@edge_pad_adjoint.samples
def _(make):
    yield from _edge_samples(make, padded=True)
    yield make.error(RuntimeError, "more away", make.normal(1), pad=(1, 1), mode="circular")


# ---- what users call -----------------------------------------------------------------------------------------


@composite("standard::pad")
def pad(input, pad, mode="constant", value=None):
    """`input` made larger, or smaller, at its ends.

    Parameters
    ----------
    pad : sequence of int
        Widths before and after the last dimension, the one before, and so on; negative ones take elements away.
    mode : {"constant", "reflect", "replicate", "circular"}
        What goes into the borders: `value`; the elements mirrored at the outermost ones; the outermost ones; or the
        elements at the opposite end.
    value : number, optional
        0 by default; for mode "constant" only.

    Raises
    ------
    RuntimeError
        The widths do not fit the tensor, or `value` is given in another mode.
    ValueError
        There is no such mode.
    """
    widths = as_size("pad", pad, "pad")
    if mode == "constant":
        return ops.constant_pad_nd(input, widths, 0 if value is None else value)
    if mode not in MODES:
        raise ValueError(f"pad: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if value:
        raise RuntimeError(f"pad: mode {mode!r} takes no value, got {value!r}")
    pairs("pad", widths, input.ndim)
    less = tuple(min(n, 0) for n in widths)
    more = tuple(max(n, 0) for n in widths)
    if not any(less):
        return ops.edge_pad(input, widths, mode)
    # PyTorch takes away first where opposite ends meet, last where borders come from near by.
    if mode == "circular":
        return ops.edge_pad(ops.constant_pad_nd(input, less), more, mode)
    return ops.constant_pad_nd(ops.edge_pad(input, more, mode), less)


@pad.samples
def _(make):
    yield make.call(make.normal(2, 3), (1, 2))
    yield make.call(make.normal(2, 3), (1, -1, 1, 1), "constant", 2.5)
    yield make.call(make.normal(1, 4), (-1, 2), "reflect")
    yield make.call(make.normal(1, 4), (2, -1), "circular")
    yield make.call(make.normal(0, 4), (2, -1), "replicate")
    yield make.error(RuntimeError, "takes no value", make.normal(1, 4), (1, 1), "reflect", 1.0)
    yield make.error(ValueError, "mode", make.normal(1, 4), (1, 1), "symmetric")
