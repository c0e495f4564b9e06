"""Arguments that PyTorch's functions share."""

from __future__ import annotations

__all__ = ["not_in_place", "reduction_of"]


def not_in_place(name: str, inplace: bool) -> None:
    """Raise if a function that never works in place is asked to."""
    if inplace:
        raise NotImplementedError(
            f"{name}: inplace=True is not supported; use the tensor that {name} returns"
        )


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction; PyTorch's two old flags go first where they are given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"
