"""Access by strides: what in-place operators on views are differentiated with.

(a) Sizes, strides and offsets count elements, from the first element of `input`. They describe memory, so they mean
    something only together with the layout of `input`: `input_stride` names it and the kernel holds `input` to it. None
    stands for C order.
(b) Three operators close the set under differentiation: `as_strided` (a view), its adjoint `as_strided_adjoint`
    (positions that the view shows several times add up), and the adjoint's adjoint `as_strided_gather` (a copy,
    because an incoming gradient may have any layout).
"""

from itertools import pairwise

import numpy as np

from plugrad import operator, ops
from plugrad_ops.shape.dims import as_size


def c_strides(shape):
    """Strides, in elements, of an array of this shape in C order."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def _geometry(shape, size, stride, storage_offset, input_stride):
    """The arguments as tuples, and the number of elements from the first to the last of `input`."""
    size, stride = as_size("as_strided", size), as_size("as_strided", stride, "stride")
    layout = (
        c_strides(shape)
        if input_stride is None
        else as_size("as_strided", input_stride, "input_stride")
    )
    if len(size) != len(stride) or len(layout) != len(shape):
        raise RuntimeError(
            f"as_strided: size and stride need equally many entries, got {size} and {stride}"
            f" (input_stride {layout} for shape {shape})"
        )
    if min((*size, *stride, *layout, storage_offset), default=0) < 0:
        raise RuntimeError(
            "as_strided: sizes, strides and storage_offset cannot be negative, got "
            f"{size}, {stride}, {storage_offset} (input_stride {layout})"
        )
    extent = 0 if 0 in shape else 1 + sum(s * (n - 1) for n, s in zip(shape, layout))
    last = -1 if 0 in size else storage_offset + sum(s * (n - 1) for n, s in zip(size, stride))
    if last >= extent:
        raise RuntimeError(
            f"as_strided: size {size}, stride {stride} and storage_offset {storage_offset} reach element {last} "
            f"of a tensor that spans {extent}"
        )
    order = sorted((s, n) for n, s in zip(shape, layout) if n > 1)
    if (
        extent
        and order
        and (order[0][0] == 0 or any(s < n * t for (t, n), (s, _) in pairwise(order)))
    ):
        raise RuntimeError(f"as_strided: input_stride {layout} lets elements of {shape} overlap")
    return size, stride, layout, extent


def _seen(array, size, stride, offset=0):
    step = array.itemsize
    if 0 in size:
        return array.reshape(-1)[:0].reshape(size)
    flat = np.lib.stride_tricks.as_strided(array, (offset + 1,), (step,))[offset:]
    return np.lib.stride_tricks.as_strided(flat, size, tuple(s * step for s in stride))


def _strided_meta(input, *, size, stride, storage_offset=0, input_stride=None):
    _geometry(input.shape, size, stride, storage_offset, input_stride)
    return as_size("as_strided", size), input.dtype


@operator("standard::as_strided", dtypes="any", infer=_strided_meta, view_of="input", method=True)
def as_strided(input, *, size, stride, storage_offset=0, input_stride=None):
    """The memory of `input` seen with `size` and `stride` (in elements), from element `storage_offset` of `input` on.

    Parameters
    ----------
    input_stride : tuple of int, optional
        The strides of `input`, in elements; C order if left out.

    Raises
    ------
    RuntimeError
        `input` has other strides than `input_stride` says, or the view would leave the memory of `input`.
    """
    size, stride, layout, _ = _geometry(input.shape, size, stride, storage_offset, input_stride)
    step = input.itemsize
    if (
        any(n > 1 and have != s * step for n, have, s in zip(input.shape, input.strides, layout))
        and input.size
    ):
        raise RuntimeError(
            f"as_strided: input has strides {input.strides} (bytes), expected {layout} elements of {step} bytes; "
            "pass input_stride, or make it contiguous()"
        )
    return _seen(input, size, stride, storage_offset)


@as_strided.backward
def _(grad, like, size, stride, storage_offset, input_stride):
    return ops.as_strided_adjoint(
        grad, like.input.shape, size, stride, storage_offset, input_stride
    )


@as_strided.samples
def _(make):
    yield make.call(make.normal(2, 3).ravel(), size=(2, 2), stride=(3, 1), storage_offset=1)
    yield make.call(make.normal(5), size=(3, 3), stride=(1, 1))
    yield make.call(make.normal(2, 3), size=(), stride=(), storage_offset=4)
    yield make.call(make.normal(4), size=(0, 2), stride=(2, 1))
    yield make.error(RuntimeError, "reach element 6", make.normal(5), size=(4,), stride=(2,))
    yield make.error(RuntimeError, "equally many", make.normal(5), size=(2, 2), stride=(2,))
    yield make.error(RuntimeError, "negative", make.normal(5), size=(2,), stride=(-1,))


def _adjoint_meta(input, *, shape, size, stride, storage_offset=0, input_stride=None):
    _geometry(shape, size, stride, storage_offset, input_stride)
    return tuple(shape), input.dtype


@operator(
    "standard::as_strided_adjoint",
    dtypes="any",
    infer=_adjoint_meta,
    cuda=".cuda:as_strided_adjoint",
)
def as_strided_adjoint(input, *, shape, size, stride, storage_offset=0, input_stride=None):
    """Zeros of `shape` with `input` added where `as_strided` would have read it."""
    size, stride, layout, extent = _geometry(shape, size, stride, storage_offset, input_stride)
    _require_size("as_strided_adjoint", input, size)
    memory = np.zeros(max(extent, 1), input.dtype)
    positions = np.arange(max(extent, 1))
    np.add.at(memory, _seen(positions, size, stride, storage_offset).ravel(), input.ravel())
    return _seen(memory, tuple(shape), layout)


def _require_size(name, input, size):
    if input.shape != size:
        raise RuntimeError(f"{name}: input must have shape {size}, got {input.shape}")


@as_strided_adjoint.backward
def _(grad, size, stride, storage_offset, input_stride):
    return ops.as_strided_gather(grad, size, stride, storage_offset, input_stride)


@as_strided_adjoint.samples
def _(make):
    yield make.call(make.normal(2, 2), shape=(2, 3), size=(2, 2), stride=(3, 1), storage_offset=1)
    yield make.call(make.normal(3, 3), shape=(5,), size=(3, 3), stride=(1, 1))
    yield make.call(make.normal(2), shape=(2, 2), size=(2,), stride=(1,), input_stride=(1, 2))
    yield make.call(make.normal(0), shape=(0, 3), size=(0,), stride=(1,))
    yield make.error(
        RuntimeError, "must have shape", make.normal(3), shape=(4,), size=(2,), stride=(1,)
    )


@operator(
    "standard::as_strided_gather", dtypes="any", infer=_strided_meta, cuda=".cuda:as_strided_gather"
)
def as_strided_gather(input, *, size, stride, storage_offset=0, input_stride=None):
    """A copy of what `as_strided` would show if `input`, whatever its layout, had the strides `input_stride`."""
    size, stride, layout, extent = _geometry(
        input.shape, size, stride, storage_offset, input_stride
    )
    memory = np.zeros(max(extent, 1), input.dtype)
    _seen(memory, input.shape, layout)[...] = input
    return _seen(memory, size, stride, storage_offset).copy()


@as_strided_gather.backward
def _(grad, like, size, stride, storage_offset, input_stride):
    return ops.as_strided_adjoint(
        grad, like.input.shape, size, stride, storage_offset, input_stride
    )


@as_strided_gather.samples
def _(make):
    yield make.call(make.normal(2, 3), size=(2, 2), stride=(3, 1), storage_offset=1)
    yield make.call(make.normal(5), size=(3, 3), stride=(1, 1))
    yield make.call(make.normal(2, 2), size=(3,), stride=(1,), input_stride=(1, 2))
    yield make.call(make.normal(), size=(), stride=())
    yield make.call(make.normal(4), size=(0,), stride=(1,))
