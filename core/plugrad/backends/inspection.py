"""Whether a tensor holds NaN or infinity, looked at where its values are."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from plugrad.backends.dtypes import kind
from plugrad.graph.tensor import Tensor

__all__ = ["all_finite", "has_nan"]


def has_nan(tensor: Tensor) -> bool:
    """Whether an element is NaN."""
    if kind(tensor.dtype) not in "fc":
        return False
    array = tensor.array
    if isinstance(array, np.ndarray):
        return bool(np.isnan(array).any())
    found: bool = _on_device(tensor).has_nan(array)
    return found


def all_finite(tensor: Tensor) -> bool:
    """Whether no element is NaN or infinite."""
    if kind(tensor.dtype) not in "fc":
        return True
    array = tensor.array
    if isinstance(array, np.ndarray):
        return bool(np.isfinite(array).all())
    found: bool = _on_device(tensor).all_finite(array)
    return found


def _on_device(tensor: Tensor) -> Any:
    """The module that looks at arrays of the tensor's device; each backend's folder has one."""
    return import_module(f"plugrad.backends.{tensor.device}.inspection")
