"""Tensors whose elements follow a rule: numbers at even steps, ones on a diagonal, the indices of a triangle."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from plugrad.backends.creation import DEFAULT_DTYPE, DTypeLike, finished
from plugrad.backends.dtypes import as_dtype, rounded
from plugrad.graph.tensor import Tensor

__all__ = ["arange", "eye", "linspace", "logspace", "tril_indices", "triu_indices"]


def _number(value: Any) -> Any:
    """A number, out of a tensor or an array of one element."""
    return value.item() if isinstance(value, (Tensor, np.ndarray, np.generic)) else value


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal of an n × m matrix (n × n by default), zeros elsewhere."""
    _require_sizes("eye", n, n if m is None else m)
    return finished(np.eye(n, m, dtype=as_dtype(dtype or DEFAULT_DTYPE)), device, requires_grad)


def _require_sizes(name: str, *sizes: int) -> None:
    if min(sizes) < 0:
        raise RuntimeError(f"{name}(): a size cannot be negative, got {sizes}")


def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers start, start + step, … below `end`; ``arange(end)`` starts at 0.

    int64 when all arguments are integers, else float32, unless `dtype` says otherwise.

    Raises
    ------
    TypeError
        There is no end, or a number is complex.
    RuntimeError
        The step is 0 or leads away from the end, or a bound is not finite.
    """
    if end is None:
        start, end = 0, start
    given = tuple(
        _number(0 if value is None and i == 0 else value)
        for i, value in enumerate((start, end, step))
    )
    if not all(isinstance(value, numbers.Real) for value in given):
        raise TypeError(f"arange(): start, end and step are real numbers, got {given}")
    chosen = as_dtype(dtype) if dtype is not None else None
    if chosen is not None and chosen.kind == "b":
        raise NotImplementedError("arange(): bool has no steps")
    if not all(math.isfinite(value) for value in given):
        raise RuntimeError(f"arange(): start, end and step must be finite, got {given}")
    if chosen is None:
        whole = all(isinstance(value, numbers.Integral) for value in given)
        chosen = np.dtype(np.int64) if whole else DEFAULT_DTYPE
    if chosen.kind in "iu":
        given = tuple(int(value) for value in given)
    first, last, by = given
    if by == 0:
        raise RuntimeError("arange(): step must not be 0")
    if (last - first) * by < 0:
        raise RuntimeError(f"arange(): steps of {by} do not lead from {first} to {last}")
    return finished(rounded(np.arange(first, last, by), chosen), device, requires_grad)


def _even(name: str, start: Any, end: Any, steps: int) -> np.ndarray:
    """Evenly spaced numbers in float64."""
    start, end = _number(start), _number(end)
    if isinstance(start, complex) or isinstance(end, complex):
        raise TypeError(f"{name}(): start and end are real numbers, got {start} and {end}")
    if steps < 0:
        raise RuntimeError(f"{name}(): the number of steps cannot be negative, got {steps}")
    return np.linspace(start, end, steps)


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included; float32 by default."""
    values = _even("linspace", start, end, steps)
    return finished(rounded(values, as_dtype(dtype or DEFAULT_DTYPE)), device, requires_grad)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` powers of `base`, their exponents evenly spaced from `start` to `end`; float32 by default."""
    with np.errstate(all="ignore"):
        values = np.power(float(base), _even("logspace", start, end, steps))
        return finished(rounded(values, as_dtype(dtype or DEFAULT_DTYPE)), device, requires_grad)


def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """The indices of the lower triangle of a row × col matrix, in C order: a matrix of two rows, int64 by default."""
    _require_sizes("tril_indices", row, col)
    return _indices(np.tril_indices(row, offset, col), dtype, device)


def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """The indices of the upper triangle of a row × col matrix, in C order: a matrix of two rows, int64 by default."""
    _require_sizes("triu_indices", row, col)
    return _indices(np.triu_indices(row, offset, col), dtype, device)


def _indices(found: tuple[np.ndarray, ...], dtype: DTypeLike | None, device: str | None) -> Tensor:
    return finished(rounded(np.stack(found), as_dtype(dtype or np.int64)), device, False)
