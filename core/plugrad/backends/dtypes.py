"""What holds for all floating dtypes, bfloat16 included, which NumPy has not.

(a) bfloat16 is an extension of NumPy that the package ml_dtypes brings; it is imported when the dtype is first asked for.
    To NumPy its kind is "V": whoever wants to know what an element is asks `kind`.
(b) The 16-bit floats are storage. What is computed, is computed in `wide` and rounded once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

__all__ = [
    "as_dtype",
    "bfloat16",
    "check_number",
    "finfo",
    "is_bfloat16",
    "kind",
    "rounded",
    "wide",
]

FLOAT16, FLOAT32, FLOAT64 = (np.dtype(name) for name in ("float16", "float32", "float64"))


@cache
def bfloat16() -> np.dtype[Any]:
    """The dtype; imports ml_dtypes.

    Raises
    ------
    ModuleNotFoundError
        The package is not installed.
    """
    try:
        import ml_dtypes
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "bfloat16 is no dtype of NumPy's: it needs the package ml_dtypes, which is not installed "
            "(pip install 'plugrad[bfloat16]')",
            name="ml_dtypes",
        ) from error
    return np.dtype(ml_dtypes.bfloat16)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether it is that dtype; imports nothing."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def kind(dtype: np.dtype[Any]) -> str:
    """NumPy's letter for what an element is; "f" for bfloat16 as for all floating dtypes."""
    return "f" if is_bfloat16(dtype) else dtype.kind


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What elements of a dtype are computed in: float32 for the 16-bit floats, else the dtype itself."""
    return FLOAT32 if dtype == FLOAT16 or is_bfloat16(dtype) else dtype


def finfo(dtype: Any) -> Any:
    """``numpy.finfo(dtype)``, or what ml_dtypes has like it for bfloat16."""
    if not is_bfloat16(np.dtype(dtype)):
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)


def check_number(name: str, value: Any, dtype: np.dtype[Any]) -> None:
    """Refuse a number that tensors of integers cannot hold: NaN, an infinity, one out of their range.

    Raises
    ------
    RuntimeError
        It is such a number, which `name`, what writes it, tells.
    """
    if dtype.kind not in "iu" or not isinstance(value, (float, int, np.integer, np.floating)):
        return
    limits = np.iinfo(dtype)
    if not limits.min - 1 < value < limits.max + 1:
        raise RuntimeError(f"{name}: {value!r} cannot be written into a tensor of {dtype}")


def as_dtype(value: Any) -> np.dtype[Any]:
    """``numpy.dtype(value)``, which knows the name "bfloat16", too."""
    return bfloat16() if isinstance(value, str) and value == "bfloat16" else np.dtype(value)


def rounded(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """``array.astype(dtype)``, where each element is rounded but once.

    ml_dtypes converts to bfloat16 by way of float32. A number that is none there takes the neighbour whose last bit is
    odd, which is no tie between two bfloat16 (Boldo and Melquiond, IEEE Trans. Computers 57 (2008), 462).
    """
    own = array.dtype
    if is_bfloat16(dtype) and own.kind in "iuf" and own.itemsize >= 4 and own != FLOAT32:
        array = _rounded_to_odd(array.astype(FLOAT64, copy=False))
    return array.astype(dtype)


def _rounded_to_odd(array: np.ndarray) -> np.ndarray:
    near = array.astype(FLOAT32)
    inexact = (near != array) & (array == array)
    bits = near.view(np.int32)
    bits -= inexact & (np.abs(near) > np.abs(array))
    bits |= inexact
    return near
