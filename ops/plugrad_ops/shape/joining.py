"""Joining tensors and taking one apart."""

import numpy as np

from plugrad import composite, operator, ops
from plugrad.graph.inplace import mark_together
from plugrad_ops.shape.dims import as_size, normalize_dim

# ---- joining -------------------------------------------------------------------------------------------------


def _joined_meta(*tensors, dim=0):
    shapes = joined_shapes([x.shape for x in tensors])
    dim = _check_joinable("cat", shapes, dim)
    shape = list(shapes[0])
    shape[dim] = sum(s[dim] for s in shapes)
    return tuple(shape), np.result_type(*(x.dtype for x in tensors))


def joined_shapes(shapes):
    """The shapes without those of empty 1-d tensors, which join with any others, as in PyTorch."""
    return [shape for shape in shapes if tuple(shape) != (0,)] or shapes


def _check_joinable(name, shapes, dim):
    if not shapes:
        raise RuntimeError(f"{name}: expected at least one tensor, got none")
    if not all(shapes):
        raise RuntimeError(f"{name}: 0-d tensors cannot be concatenated; stack joins them")
    dim = normalize_dim(name, dim, len(shapes[0]))
    for i, shape in enumerate(shapes):
        if (*shape[:dim], *shape[dim + 1 :]) != (*shapes[0][:dim], *shapes[0][dim + 1 :]):
            raise RuntimeError(
                f"{name}: tensors must have equal sizes except in dim {dim}, "
                f"got shape {shapes[0]} for tensor 0 and {shape} for tensor {i}"
            )
        if len(shape) != len(shapes[0]):
            raise RuntimeError(
                f"{name}: tensors must have equally many dimensions, got shape {shapes[0]} for tensor 0 "
                f"and {shape} for tensor {i}"
            )
    return dim


@operator("standard::cat", dtypes="any", infer=_joined_meta, cuda=".cuda:cat")
def cat(*tensors, dim=0):
    """The tensors one after the other along dimension `dim`; all other sizes must be equal.

    Empty 1-d tensors join with any others.

    Raises
    ------
    RuntimeError
        There is no tensor, or shapes do not fit together.
    """
    try:
        return np.concatenate(tensors, axis=dim)
    except ValueError:
        shapes = joined_shapes([x.shape for x in tensors])
        _check_joinable("cat", shapes, dim)
        dtype = np.result_type(*(x.dtype for x in tensors))
        kept = [x for x in tensors if x.shape != (0,)]
        return np.concatenate(kept, axis=dim, dtype=dtype)


@cat.backward
def _(grad, like, needs, dim):
    pieces, start = [], 0
    for i, meta in enumerate(like.tensors):
        apart = meta.shape == (0,) and grad.ndim != 1
        length = 0 if apart else meta.shape[dim]
        wanted = needs.tensors[i] and not apart
        pieces.append(ops.narrow(grad, dim, start, length) if wanted else None)
        start += length
    return tuple(pieces)


@cat.backward_kernel
def _(grad, like, dim):
    apart = [meta.shape == (0,) and grad.ndim != 1 for meta in like.tensors]
    ends = np.cumsum([0 if alone else meta.shape[dim] for alone, meta in zip(apart, like.tensors)])
    pieces = np.split(grad, ends[:-1], axis=dim)
    return tuple(None if alone else piece for alone, piece in zip(apart, pieces))


@cat.samples
def _(make):
    yield make.call([make.normal(2, 3), make.normal(1, 3)])
    yield make.call([make.normal(2, 3), make.normal(2, 1), make.normal(2, 2)], dim=-1)
    yield make.call([make.normal(3)], dim=0)
    yield make.call([make.normal(0, 2), make.normal(3, 2)], dim=0)
    yield make.call([np.zeros(0), make.normal(2, 2)], dim=1)
    yield make.error(RuntimeError, "equal sizes", [make.normal(2, 3), make.normal(2, 2)])
    yield make.error(IndexError, "out of range", [make.normal(2), make.normal(2)], dim=1)
    yield make.error(RuntimeError, "0-d", [make.normal(), make.normal()])


def _stacked_meta(*tensors, dim=0):
    shapes = [x.shape for x in tensors]
    dim = _check_stackable(shapes, dim)
    shape = (*shapes[0][:dim], len(shapes), *shapes[0][dim:])
    return shape, np.result_type(*(x.dtype for x in tensors))


def _check_stackable(shapes, dim):
    if not shapes:
        raise RuntimeError("stack: expected at least one tensor, got none")
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise RuntimeError(
                f"stack: tensors must have equal sizes, got shape {shapes[0]} for tensor 0 and {shape} for tensor {i}"
            )
    return normalize_dim("stack", dim, len(shapes[0]) + 1)


@operator("standard::stack", dtypes="any", infer=_stacked_meta, cuda=".cuda:stack")
def stack(*tensors, dim=0):
    """The tensors, all of one shape, along a new dimension `dim`.

    Raises
    ------
    RuntimeError
        There is no tensor, or shapes differ.
    """
    axis = _check_stackable([x.shape for x in tensors], dim)
    shape = tensors[0].shape
    shape = (*shape[:axis], 1, *shape[axis:])
    return np.concatenate([x.reshape(shape) for x in tensors], axis=axis)


@stack.backward
def _(grad, dim):
    return ops.unbind(grad, dim)


@stack.backward_kernel
def _(grad, dim):
    pieces = np.moveaxis(grad, dim, 0)
    return tuple(pieces[i, ...] for i in range(len(pieces)))


@stack.samples
def _(make):
    yield make.call([make.normal(2, 3), make.normal(2, 3)])
    yield make.call([make.normal(3), make.normal(3), make.normal(3)], dim=-1)
    yield make.call([make.normal(), make.normal()])
    yield make.call([make.normal(0, 2)], dim=1)
    yield make.error(RuntimeError, "equal sizes", [make.normal(2), make.normal(3)])
    yield make.error(IndexError, "out of range", [make.normal(2), make.normal(2)], dim=2)


# ---- taking apart --------------------------------------------------------------------------------------------


@composite("standard::narrow", method=True)
def narrow(input, dim, start, length):
    """The view of `length` elements of dimension `dim` from `start` on."""
    dim = normalize_dim("narrow", dim, input.ndim)
    n = input.shape[dim] if input.ndim else 0
    first = start + n if start < 0 else start
    if length < 0 or not 0 <= first <= n - length:
        raise RuntimeError(
            f"narrow: start {start} and length {length} exceed dimension {dim} of size {n}"
        )
    return ops.slice(input, index=(*((None, None, None),) * dim, (first, first + length, 1)))


@narrow.samples
def _(make):
    yield make.call(make.normal(4, 3), dim=0, start=1, length=2)
    yield make.call(make.normal(4, 3), dim=-1, start=-2, length=2)
    yield make.call(make.normal(0, 3), dim=0, start=0, length=0)
    yield make.error(RuntimeError, "exceed", make.normal(4), dim=0, start=2, length=3)


@composite("standard::split", method=True)
def split(input, split_size_or_sections, dim=0):
    """Views of consecutive pieces of dimension `dim`.

    Parameters
    ----------
    split_size_or_sections : int or sequence of int
        The length of every piece (the last may be shorter), or the length of each, summing to the dimension's.
    """
    dim = normalize_dim("split", dim, input.ndim)
    n = _length("split", input, dim)
    if isinstance(split_size_or_sections, tuple | list):
        lengths = as_size("split", split_size_or_sections, "sections")
        if sum(lengths) != n or min(lengths, default=0) < 0:
            raise RuntimeError(
                f"split: sections {lengths} must not be negative and must sum to the size {n} of dimension {dim}"
            )
    else:
        (size,) = as_size("split", split_size_or_sections, "split_size_or_sections")
        if size < 0 or (size == 0 and n):
            raise RuntimeError(f"split: the split size must be positive, got {size}")
        lengths = tuple(min(size, n - i) for i in range(0, n, size)) if n else (0,)
    return _pieces(input, lengths, dim)


def _length(name, input, dim):
    if not input.ndim:
        raise RuntimeError(f"{name}: a 0-d tensor cannot be taken apart")
    return input.shape[dim]


def _pieces(input, lengths, dim):
    before, start, pieces = ((None, None, None),) * dim, 0, []
    for length in lengths:
        pieces.append(ops.slice(input, index=(*before, (start, start + length, 1))))
        start += length
    return mark_together(tuple(pieces))


@split.samples
def _(make):
    yield make.call(make.normal(5, 2), 2)
    yield make.call(make.normal(2, 5), (1, 0, 4), dim=-1)
    yield make.call(make.normal(0, 2), 3)
    yield make.error(RuntimeError, "sum to", make.normal(5), (2, 2))
    yield make.error(RuntimeError, "positive", make.normal(5), 0)
    yield make.error(RuntimeError, "0-d", make.normal(), 1)


@composite("standard::chunk", method=True)
def chunk(input, chunks, dim=0):
    """At most `chunks` views of consecutive pieces of dimension `dim`, all but the last of one length."""
    dim = normalize_dim("chunk", dim, input.ndim)
    n = _length("chunk", input, dim)
    if chunks < 1:
        raise RuntimeError(f"chunk: the number of chunks must be positive, got {chunks}")
    size = -(-n // chunks)
    return _pieces(input, [min(size, n - i) for i in range(0, n, size)] if n else [0] * chunks, dim)


@chunk.samples
def _(make):
    yield make.call(make.normal(5, 2), 3)
    yield make.call(make.normal(2, 4), 2, dim=-1)
    yield make.call(make.normal(0, 2), 2)
    yield make.error(RuntimeError, "positive", make.normal(5), 0)


@composite("standard::unbind", method=True)
def unbind(input, dim=0):
    """The views of `input` at each position of dimension `dim`, without that dimension."""
    dim = normalize_dim("unbind", dim, input.ndim)
    before = ((None, None, None),) * dim
    length = _length("unbind", input, dim)
    return mark_together(tuple(ops.slice(input, index=(*before, i)) for i in range(length)))


@unbind.samples
def _(make):
    yield make.call(make.normal(3, 2))
    yield make.call(make.normal(2, 3), dim=-1)
    yield make.call(make.normal(2, 0))
    yield make.error(RuntimeError, "0-d", make.normal())
