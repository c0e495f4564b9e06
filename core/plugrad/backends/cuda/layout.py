"""Shapes and strides of several operands as one nest of loops with as few dimensions as possible.

(a) Dimensions of length 1 go, neighbours that every operand steps through evenly become one: operands of one layout end
    up with one dimension, a row added to a matrix with two.
(b) Kernels take the innermost dimension first, strides in bytes, as one struct by value (`Layout` in prelude.cuh), with
    32-bit arithmetic wherever no offset can leave it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import pairwise

__all__ = [
    "MAX_DIMS",
    "broadcast_shapes",
    "broadcast_strides",
    "collapse",
    "dense_strides",
    "fits_in_32_bits",
    "is_dense",
    "pack",
    "spread_operands",
]

MAX_DIMS = 8
LIMIT = 2**31 - 2**24  # a grid may step past the end by what all its threads take at once

Shape = tuple[int, ...]
Dims = list[int]


def broadcast_shapes(name: str, shapes: Sequence[Shape]) -> Shape:
    """The shape that shapes are broadcast to.

    Raises
    ------
    ValueError
        There is none; the message names all of them.
    """
    result: list[int] = []
    for shape in shapes:
        if len(shape) > len(result):
            result = [1] * (len(shape) - len(result)) + result
        for i in range(-len(shape), 0):
            if result[i] == 1:
                result[i] = shape[i]
            elif shape[i] not in (1, result[i]):
                listed = " and ".join(map(str, shapes))
                raise ValueError(f"{name}: shapes {listed} cannot be broadcast together")
    return tuple(result)


def broadcast_strides(shape: Shape, own: Shape, strides: Shape) -> Shape:
    """The strides of an operand of shape `own` when it is read as one of shape `shape`: 0 where it repeats."""
    added = len(shape) - len(own)
    return (0,) * added + tuple(0 if n == 1 else stride for n, stride in zip(own, strides))


def dense_strides(shape: Shape, itemsize: int, like: Shape | None = None) -> Shape:
    """Strides of an array without gaps: in C order, or with the dimensions in the order of the strides `like`."""
    order = list(range(len(shape)))
    if like is not None:
        full = [d for d in order if shape[d] != 1]
        if any(like[d] < like[e] for d, e in pairwise(full)):
            order.sort(key=lambda d: -like[d] if shape[d] != 1 else -math.inf)
    strides, step = [0] * len(shape), itemsize
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def is_dense(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Whether the elements fill their memory without gaps or overlap, in some order of dimensions."""
    expected = itemsize
    for stride, n in sorted((stride, n) for stride, n in zip(strides, shape) if n != 1):
        if stride != expected:
            return False
        expected *= n
    return True


def collapse(
    shape: Shape, strides: Sequence[Shape], order: Sequence[int] | None = None
) -> tuple[Dims, list[Dims]]:
    """The same elements with the fewest dimensions, innermost first.

    Parameters
    ----------
    shape : tuple of int
    strides : sequence of tuple of int
        Of each operand.
    order : sequence of int, optional
        The dimensions from the outermost to the innermost; as given if omitted.

    Returns
    -------
    lengths : list of int
        At least one.
    steps : list of list of int
        Per dimension, the stride of each operand.
    """
    lengths: Dims = []
    steps: list[Dims] = []
    for d in reversed(range(len(shape)) if order is None else order):
        n, own = shape[d], [each[d] for each in strides]
        if n == 1:
            continue
        if lengths and all(lengths[-1] * inner == outer for inner, outer in zip(steps[-1], own)):
            lengths[-1] *= n
        else:
            lengths.append(n)
            steps.append(own)
    if not lengths:
        return [1], [[0] * len(strides)]
    return lengths, steps


def fits_in_32_bits(lengths: Sequence[int], steps: Sequence[Sequence[int]]) -> bool:
    """Whether the number of elements and every operand's offset in bytes stay below `LIMIT`."""
    if math.prod(lengths) >= LIMIT:
        return False
    reach = [0] * len(steps[0])
    for n, own in zip(lengths, steps):
        for k, step in enumerate(own):
            reach[k] += abs(step) * (n - 1)
    return max(reach, default=0) < LIMIT


def spread_operands(
    lengths: Sequence[int], steps: Sequence[Sequence[int]], sizes: Sequence[int], width: int
) -> int | None:
    """Whether `width` neighbours of the innermost dimension can be moved at once.

    Returns
    -------
    int or None
        A bit for each operand that repeats one element there; None: some operand's neighbours lie apart, or not
        where they can be moved.
    """
    if width == 1 or lengths[0] % width:
        return None
    spread = 0
    for k, size in enumerate(sizes):
        if steps[0][k] == 0:
            spread |= 1 << k
        elif steps[0][k] != size or any(own[k] % (size * width) for own in steps[1:]):
            return None
    return spread


def pack(lengths: Sequence[int], steps: Sequence[Sequence[int]], narrow: bool) -> bytes:
    """The struct ``Layout<int, N>`` (if `narrow`) or ``Layout<i64, N>`` of prelude.cuh."""
    rest = MAX_DIMS - len(lengths)
    count = len(steps[0])
    flat = [step for own in steps for step in own] + [0] * (rest * count)
    shape = [*lengths, *[1] * rest]
    if not narrow:
        return struct.pack(f"{1 + MAX_DIMS + MAX_DIMS * count}q", len(lengths), *shape, *flat)
    magic = [_magic(n) for n in shape]
    return struct.pack(
        f"{1 + MAX_DIMS}i{2 * MAX_DIMS}I{MAX_DIMS * count}i",
        len(lengths),
        *shape,
        *(m for m, _ in magic),
        *(s for _, s in magic),
        *flat,
    )


def _magic(divisor: int) -> tuple[int, int]:
    """(m, s) such that i // divisor is ((i * m >> 32) + i) >> s for i below 2**31."""
    shift = (divisor - 1).bit_length()
    return (2**32 * (2**shift - divisor)) // divisor + 1, shift
