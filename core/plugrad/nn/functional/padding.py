"""Padding of signals, images and volumes."""

from __future__ import annotations

from collections.abc import Sequence

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = ["pad"]


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """`input` made larger, or smaller, by pairs of widths (before, after) from the last dimension backwards.

    Parameters
    ----------
    mode : {"constant", "reflect", "replicate", "circular"}
        Filled with `value`, or from the tensor itself: mirrored at the edge, the edge repeated, or the opposite end.
    """
    return ops.pad(input, pad, mode, value)
