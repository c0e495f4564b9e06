"""Questions about arrays that Python asks: is there a NaN, is everything finite, are these the values from before.

Each is one reduction, so a few bytes come to the host instead of the array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plugrad.backends.cuda import storage
from plugrad.backends.cuda.array import to_host
from plugrad.backends.cuda.reduction import Reduction

__all__ = ["all_finite", "checksum", "has_nan", "reals"]

NAN = Reduction(
    map="isnan(x) ? 1 : 0", combine="a | b", acc="int", out_dtype=np.int32, name="isnan"
)
INFINITE = Reduction(
    map="isfinite(x) ? 0 : 1", combine="a | b", acc="int", out_dtype=np.int32, name="isfinite"
)
# The bits of each element are mixed downwards, so that changes of signs do not cancel, and count by an odd number of
# its own. Whole numbers add up to the same in any order.
CHECKSUM = Reduction(
    map="(u64(x) ^ (u64(x) >> 32) ^ (u64(x) >> 7)) * ((u64(index) + 1) * 0x9E3779B97F4A7C15u ^ u64(index) >> 3 | 1u)",
    acc="u64",
    out_dtype=np.uint64,
    name="checksum",
)


def has_nan(array: Any) -> bool:
    """Whether an element is NaN."""
    return bool(to_host(NAN(reals(array))))


def all_finite(array: Any) -> bool:
    """Whether no element is NaN or infinite."""
    return not to_host(INFINITE(reals(array)))


def checksum(array: Any) -> int:
    """64 bits that differ, with all but certainty, when the values of two arrays of one shape and dtype do."""
    words = array
    if array.dtype.kind == "c":
        words = reals(array)
    dtype = np.dtype(f"u{words.dtype.itemsize}")
    words = storage.view(words.shape, dtype, words.strides, storage.pointer(array), array)
    return int(to_host(CHECKSUM(words)))


def reals(array: Any) -> Any:
    """A complex array as one of real numbers, with a last dimension for real and imaginary parts."""
    if array.dtype.kind != "c":
        return array
    dtype = np.dtype(f"f{array.dtype.itemsize // 2}")
    shape, strides = (*array.shape, 2), (*array.strides, dtype.itemsize)
    return storage.view(shape, dtype, strides, storage.pointer(array), array)
