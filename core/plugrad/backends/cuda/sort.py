"""Stable sorting of rows, with the indices that sort them."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np

from plugrad.backends.cuda import storage
from plugrad.backends.cuda.array import is_contiguous
from plugrad.backends.cuda.dtypes import c_type, is_complex
from plugrad.backends.cuda.module import Module
from plugrad.backends.cuda.texts import text_of

__all__ = ["sort_rows"]

TILE = 2048  # as in sort.cuh
MOST_BLOCKS = 1 << 15


@cache
def _module(key: str) -> Module:
    return Module(f"typedef {key} X;\n" + text_of("sort.cuh"), name=f"sort of {key}")


def sort_rows(array: Any, descending: bool = False) -> tuple[Any, Any]:
    """Sort each row; keys that are equal stay in the order they came in.

    Parameters
    ----------
    array : GPUArray
        Of two dimensions, in C order, with fewer than 2**31 columns. NaN counts as the greatest value.
    descending : bool
        Whether the greatest value comes first.

    Returns
    -------
    values : GPUArray
    indices : GPUArray
        int64: where in its row each value stood.

    Raises
    ------
    ValueError
        The array is not of that kind.
    """
    if len(array.shape) != 2 or not is_contiguous(array) or array.shape[1] >= 2**31:
        raise ValueError(
            f"sort_rows() takes an array of two dimensions in C order, got shape {array.shape}, strides {array.strides}"
        )
    key = c_type(array.dtype, "sort_rows()")
    if is_complex(key):
        raise TypeError(f"sort_rows(): {array.dtype} has no order")
    values = storage.empty(array.shape, array.dtype)
    order = storage.empty(array.shape, np.int64)
    if not array.size:
        return values, order
    module, (count, n) = _module(key), array.shape
    padded = max(1 << (n - 1).bit_length(), 4)  # four keys end where an index may begin
    rows = struct.pack("4q", count, n, padded, descending)
    if padded <= TILE:
        block = max(32, min(padded // 2, 1024))
        shared = padded * (array.dtype.itemsize + 4)
        module.function("short_rows")(count, block, array, values, order, rows, shared=shared)
        return values, order
    _sort_long(module, array, values, order, padded, rows)
    return values, order


def _sort_long(
    module: Module, array: Any, values: Any, order: Any, padded: int, rows: bytes
) -> None:
    total = array.shape[0] * padded
    keys = storage.empty((total,), array.dtype)
    indices = storage.empty((total,), np.int32)
    shared = TILE * (array.dtype.itemsize + 4)
    tiles, blocks = total // TILE, min(total // 512, MOST_BLOCKS)
    module.function("tiles")(tiles, 1024, array, keys, indices, rows, shared=shared)
    far, near = module.function("far"), module.function("near")
    run = 2 * TILE
    while run <= padded:
        apart = run // 2
        while apart >= TILE:
            far(blocks, 256, keys, indices, apart, run, rows)
            apart //= 2
        near(tiles, 1024, keys, indices, run, rows, shared=shared)
        run *= 2
    module.function("unpadded")(blocks, 256, keys, indices, values, order, rows)
