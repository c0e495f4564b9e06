"""Lookup in tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = ["embedding", "embedding_bag"]


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` at the integers `input`.

    Parameters
    ----------
    input : integers of any shape
    weight : (V, D)
    padding_idx : int, optional
        A row that gets no gradient; negative numbers count from the end.

    Raises
    ------
    IndexError
        An index is negative, or V or more.
    NotImplementedError
        `max_norm` (which would change `weight`), `scale_grad_by_freq` or `sparse` is asked for.
    """
    _check_options("embedding", max_norm, scale_grad_by_freq, sparse)
    padding = _padding("embedding", padding_idx, weight)
    return _rows("embedding", input, weight, padding)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of `weight` in each bag; 0 for a bag without any.

    Parameters
    ----------
    input : integers of shape (B, N) or (M)
        Bags of N, or all bags one after the other.
    weight : (V, D)
    offsets : integers of shape (B), optional
        Where each bag of a 1-d `input` begins; with `include_last_offset` also where the last one ends.
    mode : "sum", "mean" or "max"
        Rows that tie for a maximum share its gradient.
    per_sample_weights : Tensor, optional
        Factor of each row, of the shape of `input`; for sums only.
    padding_idx : int, optional
        A row that counts for nothing.

    Raises
    ------
    ValueError
        Shapes, offsets or the mode make no sense.
    IndexError, NotImplementedError
        As for `embedding`.
    """
    name = "embedding_bag"
    _check_options(name, max_norm, scale_grad_by_freq, sparse)
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{name}: mode must be 'sum', 'mean' or 'max', got {mode!r}")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                f"{name}: per_sample_weights goes with mode='sum', got {mode!r}"
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"{name}: per_sample_weights must have the shape {input.shape} of input, got {per_sample_weights.shape}"
            )
    kept = None
    if input.ndim == 1:
        places, kept = _places(name, input, offsets, include_last_offset)
        input = input[places]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[places]
    elif input.ndim != 2 or offsets is not None:
        raise ValueError(
            f"{name}: input must be 1-d with offsets, or 2-d without, got shape {input.shape}"
        )
    padding = _padding(name, padding_idx, weight)
    rows = _rows(name, input, weight, None)
    if padding is not None:
        real = input != padding
        kept = real if kept is None else ops.logical_and(kept, real)
    return _reduced(rows, kept, mode, per_sample_weights)


def _reduced(rows: Tensor, kept: Tensor | None, mode: str, factors: Tensor | None) -> Tensor:
    """Bags (B, N, D) without what is not kept, reduced along their rows."""
    if factors is not None:
        rows = rows * ops.unsqueeze(factors, dim=-1)
    if not rows.shape[1]:
        return ops.sum(rows, dim=1)
    if kept is None:
        if mode == "max":
            return ops.amax(rows, dim=1)
        return ops.sum(rows, dim=1) if mode == "sum" else ops.mean(rows, dim=1)
    each = ops.unsqueeze(kept, dim=-1)
    if mode == "max":
        highest = ops.amax(ops.where(each, rows, -math.inf), dim=1)
        return ops.where(ops.any(each, dim=1), highest, 0.0)
    total = ops.sum(ops.where(each, rows, 0.0), dim=1)
    if mode == "sum":
        return total
    return total / ops.cast(ops.clamp(ops.sum(each, dim=1), min=1), dtype=rows.dtype)


def _places(name: str, input: Tensor, offsets: Tensor | None, ended: bool) -> tuple[Any, Any]:
    """For bags that follow each other: the places of their elements (B, N), and which of those there are."""
    if offsets is None:
        raise ValueError(f"{name}: a 1-d input needs offsets, which say where its bags begin")
    given = offsets.to("cpu").array
    begin, end = (given[:-1], given[1:]) if ended else (given, np.append(given[1:], input.numel()))
    if (
        given.ndim != 1
        or not given.size
        or given[0] != 0
        or np.any(end < begin)
        or end.max(initial=0) > input.numel()
    ):
        raise ValueError(
            f"{name}: offsets must begin at 0 and rise to {input.numel()} at most, the number of indices; got {given}"
        )
    along = np.arange((end - begin).max(initial=0))
    places = begin[:, None] + along
    kept = places < end[:, None]
    found = (np.where(kept, places, 0), kept)
    return tuple(Tensor(x).to(input.device) for x in found)  # type: ignore[return-value]


def _check_options(name: str, max_norm: Any, scale_grad_by_freq: bool, sparse: bool) -> None:
    for word, given in (
        ("max_norm", max_norm is not None),
        ("scale_grad_by_freq", scale_grad_by_freq),
        ("sparse", sparse),
    ):
        if given:
            raise NotImplementedError(f"{name}: {word} is not supported")


def _padding(name: str, padding_idx: int | None, weight: Tensor) -> int | None:
    """The padding row as an index from 0."""
    if weight.ndim != 2:
        raise ValueError(f"{name}: weight must be 2-d, got shape {weight.shape}")
    if padding_idx is None:
        return None
    count = weight.shape[0]
    if not -count <= padding_idx < count:
        raise ValueError(
            f"{name}: padding_idx must be a row of weight {weight.shape}, got {padding_idx}"
        )
    return padding_idx % count


def _rows(name: str, input: Tensor, weight: Tensor, padding: int | None) -> Tensor:
    """Rows of a table; that of padding without gradient."""
    if input.dtype.kind not in "iu":
        raise TypeError(f"{name}: input must hold integers, got {input.dtype}")
    if input.device == "cpu":
        _check_rows(name, input, weight)
        out = weight[input]
    else:
        # Without a wait beside the index's own: a negative index becomes one that is refused there.
        at = ops.cast(input, dtype=np.int64)
        try:
            out = weight[ops.where(at < 0, at - weight.shape[0], at)]
        except IndexError:
            _check_rows(name, input, weight)
            raise
    if padding is None:
        return out
    return ops.where(ops.unsqueeze(input == padding, dim=-1), out.detach(), out)


def _check_rows(name: str, input: Tensor, weight: Tensor) -> None:
    at, count = input.to("cpu").array, weight.shape[0]
    if at.size:
        low, high = at.min(), at.max()
        if low < 0 or high >= count:
            raise IndexError(
                f"{name}: indices must be from 0 to {count - 1}, the rows of weight, got {low if low < 0 else high}"
            )
