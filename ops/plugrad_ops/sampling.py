"""Samples that many elementwise operators share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["binary", "comparable", "unary"]


def unary(make: Any, low: float = -2.0, high: float = 2.0) -> Iterator[Any]:
    """Arrays with values from `low` to `high`, one of them long; the battery adds 0-d and empty ones."""
    yield make.call(make.uniform(3, 4, low=low, high=high))
    yield make.call(make.uniform(2, 1, 3, low=low, high=high))
    yield make.call(make.uniform(70, low=low, high=high))


def binary(
    make: Any,
    low: float = -2.0,
    high: float = 2.0,
    other_low: float | None = None,
    other_high: float | None = None,
    **constants: Any,
) -> Iterator[Any]:
    """Equal shapes, a row, numbers on either side, and shapes that do not fit; the battery adds others."""

    def left(*shape: int) -> Any:
        return make.uniform(*shape, low=low, high=high)

    def right(*shape: int) -> Any:
        return make.uniform(
            *shape,
            low=low if other_low is None else other_low,
            high=high if other_high is None else other_high,
        )

    yield make.call(left(3, 4), right(3, 4), **constants)
    yield make.call(left(2, 17), right(17), **constants)
    yield make.call(left(5), float(right()), **constants)
    yield make.call(float(left()), right(2, 2), **constants)
    yield make.error(RuntimeError, "broadcast", left(2, 3), right(4), **constants)


def comparable(make: Any) -> Iterator[Any]:
    """Operands of comparisons: floats with some equal elements, integers, numbers."""
    yield make.call(make.values([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]]), make.values([1.0, 2.5, 2.0]))
    yield make.call(make.integers(3, 4, high=3), make.integers(3, 4, high=3))
    yield make.call(make.normal(2, 17), make.normal(17))
    yield make.call(make.normal(3), 0.25)
    yield make.call(0.25, make.normal(2, 3))
    yield make.error(RuntimeError, "broadcast", make.normal(2, 3), make.normal(4))
