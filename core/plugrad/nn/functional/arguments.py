"""Arguments that PyTorch's functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugrad.graph.inplace import InPlace

__all__ = ["in_place_if", "reduction_of"]


def in_place_if(inplace: bool, operator: Callable[..., Any]) -> Callable[..., Any]:
    """`operator`, or its form that writes the result over the first argument."""
    return InPlace(operator) if inplace else operator


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction; PyTorch's two old flags go first where they are given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"
