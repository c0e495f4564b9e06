"""The C types of dtypes, as kernels name them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from plugrad.backends.dtypes import is_bfloat16, wide

__all__ = ["c_type", "common_dtype", "compute_type", "is_complex", "is_floating", "wide_type"]

_TYPES = {
    "bool": "bool",
    "int8": "i8",
    "int16": "i16",
    "int32": "int",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "bfloat16": "bfloat16",
    "complex64": "Complex<float>",
    "complex128": "Complex<double>",
}
_STORED_NARROW = ("half", "bfloat16")


def c_type(dtype: Any, kernel: str = "a kernel") -> str:
    """The type of an element in memory.

    Raises
    ------
    TypeError
        Kernels have no such type.
    """
    try:
        return _TYPES[np.dtype(dtype).name]
    except KeyError:
        raise TypeError(
            f"{kernel}: arrays of dtype {dtype} cannot be computed with on a device; known are {', '.join(_TYPES)}"
        ) from None


def compute_type(dtype: Any, kernel: str = "a kernel") -> str:
    """The type in which an element is computed with: float for the half types, else its own."""
    found = c_type(dtype, kernel)
    return "float" if found in _STORED_NARROW else found


def wide_type(dtype: Any, kernel: str = "a kernel") -> str:
    """The type in which many elements are summed up: 64-bit integers for integers and bools."""
    found = compute_type(dtype, kernel)
    if is_floating(found) or is_complex(found):
        return found
    return "u64" if found == "u64" else "i64"


def is_floating(c: str) -> bool:
    """Whether a compute type is a floating one."""
    return c in ("float", "double")


def is_complex(c: str) -> bool:
    return c.startswith("Complex")


def common_dtype(dtypes: Sequence[np.dtype]) -> np.dtype:
    """The dtype that operands are computed in: that of the floating ones if there are any."""
    inexact = [dtype for dtype in dtypes if dtype.kind not in "biu"]
    return _result_type(inexact or dtypes)


def _result_type(dtypes: Iterable[np.dtype]) -> np.dtype:
    first, *rest = dtypes
    if all(dtype == first for dtype in rest):
        return first
    if any(is_bfloat16(dtype) for dtype in (first, *rest)):
        first, *rest = (wide(dtype) for dtype in (first, *rest))
    return np.result_type(first, *rest)
