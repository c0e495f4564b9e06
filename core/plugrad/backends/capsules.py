"""DLPack for bfloat16 on the host: NumPy's own capsules, which know no such type.

An array travels as 16-bit integers, and the capsule is told what they are.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from plugrad.backends.dtypes import bfloat16

__all__ = ["exported", "imported"]

UNSIGNED, BFLOAT = 1, 4  # DLPack's codes
BITS = 16

# Where a capsule of each name has the code of its type: behind address, device and number of dimensions, which stand in
# front of all or, from version 1 on, behind version, context, deleter and flags.
PLACES = {b"dltensor": 20, b"dltensor_versioned": 52}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


def exported(array: np.ndarray, **wishes: Any) -> Any:
    """A capsule on a bfloat16 array; `wishes` are the arguments of ``__dlpack__``."""
    capsule = array.view(np.uint16).__dlpack__(**wishes)
    _renamed(capsule, UNSIGNED, BFLOAT)
    return capsule


def imported(source: Any) -> np.ndarray:
    """An array on the memory of an object with ``__dlpack__``, of whatever dtype."""
    seen = _AsIntegers(source)
    found = np.from_dlpack(seen)
    return found.view(bfloat16()) if seen.changed else found


class _AsIntegers:
    """Another object's capsules, with integers in place of bfloat16."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.changed = False

    def __dlpack__(self, **wishes: Any) -> Any:
        capsule = self.source.__dlpack__(**wishes)
        self.changed = _renamed(capsule, BFLOAT, UNSIGNED)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.source.__dlpack_device__()


def _renamed(capsule: Any, old: int, new: int) -> bool:
    """Write another code where the capsule has `old` and 16 bits; whether it had."""
    for name, place in PLACES.items():
        if _is_valid(capsule, name):
            kind = (ctypes.c_uint8 * 2).from_address(_pointer(capsule, name) + place)
            if tuple(kind) != (old, BITS):
                return False
            kind[0] = new
            return True
    return False  # whoever takes it will say so
