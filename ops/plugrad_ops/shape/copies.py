"""Repetition, reversal and copies."""

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.copies import copied, copied_alike
from plugrad.backends.tensor_methods import refuse_format
from plugrad_ops.shape import cpu
from plugrad_ops.shape.dims import as_size, expanded_shape, normalize_dims, starred


@operator(
    "standard::expand",
    dtypes="any",
    infer=lambda input, *, size: (expanded_shape(input.shape, size), input.dtype),
    view_of="input",
    cpu=cpu.expand,
    method=True,
)
def expand(input, *, size):
    """Dimensions of length 1 repeated, without a copy, to the lengths in `size`; -1 keeps a length.

    New dimensions come in front. The result's elements share memory, so it cannot be written in place.

    Raises
    ------
    RuntimeError
        The shape of `input` does not broadcast to `size`.
    """
    return np.broadcast_to(input, expanded_shape(input.shape, size))


@expand.backward
def _(grad, like):
    return ops.sum_to(grad, shape=like.input.shape)


@expand.samples
def _(make):
    yield make.call(make.normal(3, 1), size=(3, 4))
    yield make.call(make.normal(3), size=(2, -1))
    yield make.call(make.normal(), size=(2, 3))
    yield make.call(make.normal(1, 3), size=(0, 3))
    yield make.call(make.normal(0, 1), size=(0, 2))
    yield make.error(RuntimeError, "cannot be expanded", make.normal(2, 3), size=(4, 3))
    yield make.error(RuntimeError, "cannot be expanded", make.normal(2, 3), size=(3,))


@composite("standard::expand_as", method=True)
def expand_as(input, other):
    """`input` expanded to the shape of `other`."""
    return ops.expand(input, size=other.shape)


@expand_as.samples
def _(make):
    yield make.call(make.normal(3, 1), make.normal(3, 4))
    yield make.call(make.normal(), make.normal(2))
    yield make.call(make.normal(1), make.normal(0))


@composite("standard::broadcast_to", method=True)
def broadcast_to(input, *lengths, size=None):
    """`input` expanded to `size`, or to the lengths given one by one, as NumPy broadcasting does."""
    return ops.expand(input, size=starred(lengths) if size is None else size)


@broadcast_to.samples
def _(make):
    yield make.call(make.normal(3, 1), (3, 4))
    yield make.call(make.normal(), (2,))
    yield make.call(make.normal(1), size=(0,))
    yield make.error(RuntimeError, "cannot be expanded", make.normal(2), (3,))


def owned(out, input):
    """`out`, or a copy where it lies in the memory of `input`.

    For what was made of `input` by reshaping, reordering and expanding, which all keep the first element in its place.
    """
    return ops.contiguous_copy(out) if out.data_ptr() == input.data_ptr() else out


@composite("standard::repeat", method=True)
def repeat(input, *repeats):
    """A copy with dimension i repeated ``repeats[i]`` times; surplus repeats make new dimensions in front."""
    counts = as_size("repeat", starred(repeats), "repeats")
    if len(counts) < input.ndim or any(n < 0 for n in counts):
        raise RuntimeError(
            f"repeat: a tensor of shape {input.shape} needs at least {input.ndim} counts, none negative, got {counts}"
        )
    shape = (1,) * (len(counts) - input.ndim) + input.shape
    # (n, m) becomes (1, n, 1, m), that (r, n, s, m), and that (r·n, s·m).
    apart = tuple(k for n in shape for k in (1, n))
    spread = tuple(k for r, n in zip(counts, shape) for k in (r, n))
    out = ops.expand(ops.reshape(input, apart), size=spread)
    return owned(ops.reshape(out, tuple(r * n for r, n in zip(counts, shape))), input)


@repeat.samples
def _(make):
    yield make.call(make.normal(2, 3), (2, 2))
    yield make.call(make.normal(3), 2, 1)
    yield make.call(make.normal(), (2,))
    yield make.call(make.normal(2, 1), (0, 2))
    yield make.error(RuntimeError, "at least 2", make.normal(2, 3), (2,))


@composite("standard::tile", method=True)
def tile(input, *dims):
    """As `repeat`; missing counts, in front, are 1."""
    counts = as_size("tile", starred(dims), "dims")
    return ops.repeat(input, (1,) * (input.ndim - len(counts)) + counts)


@tile.samples
def _(make):
    yield make.call(make.normal(2, 3), (2,))
    yield make.call(make.normal(3), 2, 2)
    yield make.call(make.normal(), ())


def _same(input, **constants):
    return input.shape, input.dtype


@operator("standard::flip", dtypes="any", infer=_same, cuda=".cuda:flip", method=True)
def flip(input, *, dims):
    """A copy with the order reversed along `dims` (an integer or a tuple)."""
    dims = dims if isinstance(dims, tuple | list) else (dims,)
    return np.flip(input, normalize_dims("flip", dims, input.ndim) if dims else ()).copy()


@flip.backward
def _(grad, dims):
    return ops.flip(grad, dims=dims)


@flip.samples
def _(make):
    yield make.call(make.normal(2, 3), dims=(0,))
    yield make.call(make.normal(2, 3), dims=(0, -1))
    yield make.call(make.normal(3), dims=-1)
    yield make.call(make.normal(0, 2), dims=(1,))
    yield make.error(IndexError, "out of range", make.normal(2, 3), dims=(2,))
    yield make.error(RuntimeError, "twice", make.normal(2, 3), dims=(0, 0))


@operator("standard::copy", dtypes="any", infer=_same, cuda=".cuda:copy")
def copy(input):
    """The same values in memory of their own, laid out as in `input` where `input` has no gaps or overlaps."""
    return copied_alike(input)


@copy.backward
def _(grad):
    return grad


@copy.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal())
    yield make.call(make.normal(0, 2))


@composite("standard::clone", method=True)
def clone(input, *, memory_format=None):
    """A copy through which gradients flow."""
    refuse_format("clone", memory_format)
    return ops.copy(input)


@clone.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal())
    yield make.call(make.normal(0, 2))
    yield make.error(NotImplementedError, "not offered", make.normal(2), memory_format="last")


@operator("standard::contiguous_copy", dtypes="any", infer=_same, cuda=".cuda:contiguous_copy")
def contiguous_copy(input):
    """The same values in memory of their own, in C order."""
    return copied(input)


@contiguous_copy.backward
def _(grad):
    return grad


@contiguous_copy.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal())
    yield make.call(make.normal(0, 2))


@composite("standard::contiguous", method=True)
def contiguous(input, *, memory_format=None):
    """`input` itself if it lies in memory in C order without gaps, else such a copy."""
    refuse_format("contiguous", memory_format)
    return input if input.array.flags.c_contiguous else ops.contiguous_copy(input)


@contiguous.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal())
    yield make.call(make.normal(0, 2))
    yield make.error(NotImplementedError, "not offered", make.normal(2), memory_format="last")
