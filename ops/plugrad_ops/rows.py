"""Rows along one dimension of tensors, as `rows.cuh` takes them: where they lie, and how many threads work on each."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import lru_cache

from plugrad.backends.cuda import layout
from plugrad.backends.cuda.array import contiguous
from plugrad.backends.cuda.dtypes import c_type
from plugrad_ops.cuda_source import cover

__all__ = ["Rows", "rows_of"]

HELD = 8  # elements of a row that a thread should have; of floats, twice as many fit its registers
WIDEST = 16  # bytes that one instruction brings


@dataclass
class Rows:
    """A launch over rows.

    Attributes
    ----------
    arrays : list of GPUArray
        The operands; one whose layout has too many dimensions was copied.
    macros : dict
        What the kernels' text leaves open.
    packed : bytes
        The struct of the kernels.
    grid, block : int
    """

    arrays: list
    macros: dict
    packed: bytes
    grid: int
    block: int


def rows_of(arrays, axis, out=None):
    """The rows of arrays of one shape and dtype along an axis.

    Parameters
    ----------
    arrays : sequence of GPUArray
    axis : int
    out : GPUArray, optional
        A last operand, of the same shape and in C order.
    """
    every = [*arrays] if out is None else [*arrays, out]
    found = _planned(every, axis)
    if found is None:
        every = [contiguous(x) for x in every]
        found = _planned(every, axis)
    return Rows(every, *found)


def _planned(arrays, axis):
    first = arrays[0]
    strides = tuple(x.strides for x in arrays)
    apart = tuple(int(x.gpudata) % WIDEST for x in arrays)
    return _plan(first.shape, first.dtype, strides, apart, axis)


@lru_cache(maxsize=2048)
def _plan(shape, dtype, strides, apart, axis):
    """Macros, struct, grid and block for rows of this layout; None where there are too many dimensions.

    `apart` says how far each operand begins from an address that WIDEST divides.
    """
    size, n = dtype.itemsize, shape[axis]
    rest = [d for d in range(len(shape)) if d != axis]
    lengths, steps = layout.collapse(
        tuple(shape[d] for d in rest), [tuple(own[d] // size for d in rest) for own in strides]
    )
    if len(lengths) > layout.MAX_DIMS:
        return None
    count = math.prod(lengths)
    along = [own[axis] // size for own in strides]
    columns = along[0] not in (0, 1) and count > 1 and abs(steps[0][0]) < abs(along[0])
    vec = 1 if columns else _vector(size, n, along, steps, apart)
    team, items = _team(n, vec, columns, HELD if size == 8 else 2 * HELD)
    threads = 32 * team if columns else team if team > 32 else 128
    dims = layout.MAX_DIMS
    unused = [0] * (dims - len(lengths))
    packed = struct.pack(
        f"{3 + dims + len(strides) * (dims + 1)}q",
        count, n, len(lengths), *lengths, *unused,
        *(value for k in range(len(strides)) for value in (*(own[k] for own in steps), *unused)),
        *along,
    )  # fmt: skip
    macros = {"T": c_type(dtype), "COLUMNS": int(columns), "TEAM": team, "VEC": vec, "ITEMS": items}
    return macros, packed, cover(count, threads // team), threads


def _vector(size, n, along, steps, apart):
    """How many neighbours can be brought with one instruction."""
    vec = WIDEST // size if all(step == 1 for step in along) else 1
    places = [n, *(step for own in steps for step in own)]
    while vec > 1 and (
        n < 4 * vec
        or any(place % vec for place in places)
        or any(offset % (vec * size) for offset in apart)
    ):
        vec //= 2
    return vec


def _team(n, vec, columns, held):
    """How many threads work on a row, and on how many packs of neighbours each at a time."""
    team, most = (1, 16) if columns else (4, 1024)
    while team < most and team * HELD < n:
        team *= 2
    needed = -(-n // (team * vec))
    items = 1
    while items < needed and items * vec < held:
        items *= 2
    return team, items
