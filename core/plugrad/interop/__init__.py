"""Bridges to other libraries: ``plugrad.interop.torch`` for PyTorch."""

import importlib
from typing import Any

__all__ = ["torch"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"plugrad.interop.{name}")
    raise AttributeError(f"module 'plugrad.interop' has no attribute {name!r}")
