"""The state of random generators: taken before a computation, so that a second one draws the same numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from plugrad.backends.generators import current_generator
from plugrad.backends.philox import Counter

_Source = tuple[Callable[[], Any], Callable[[Any], object]]


class GeneratorStates:
    """The state that generators had when this object was made.

    Parameters
    ----------
    values : iterable
        Among them the generators to include; Python's, NumPy's and plugrad's global ones always are. A generator
        is a `numpy.random.Generator`, a `numpy.random.RandomState`, or anything with ``get_state`` and
        ``set_state``.
    """

    __slots__ = ("_states",)

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._states = [(source, source[0]()) for source in _sources(values)]

    def unused(self) -> bool:
        """Whether all generators still have that state: nothing was drawn since."""
        return all(_same(get(), state) for (get, _), state in self._states)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Within the block the generators start from that state; after it they are as they were before it."""
        now = [(set_state, get()) for (get, set_state), _ in self._states]
        try:
            for (_, set_state), state in self._states:
                set_state(state)
            yield
        finally:
            for set_state, state in now:
                set_state(state)


def _sources(values: Iterable[Any]) -> list[_Source]:
    found: list[_Source] = [
        (random.getstate, random.setstate),
        # The global generator is what programs use that need this.
        (lambda: np.random.get_state(legacy=False), np.random.set_state),  # noqa: NPY002
    ]
    found.append(_counter(current_generator()))
    for value in values:
        if isinstance(value, np.random.Generator):
            found.append(_bit_generator(value.bit_generator))
        elif isinstance(value, np.random.RandomState):
            found.append((lambda value=value: value.get_state(legacy=False), value.set_state))  # type: ignore[misc]
        elif isinstance(value, Counter):
            found.append(_counter(value))
        elif hasattr(value, "get_state") and hasattr(value, "set_state"):
            found.append((value.get_state, value.set_state))
    return found


def _bit_generator(bits: np.random.BitGenerator) -> _Source:
    return lambda: bits.state, lambda state: setattr(bits, "state", state)


def _counter(generator: Counter) -> _Source:
    return generator._get, lambda state: generator._set(*state)


def _same(a: Any, b: Any) -> bool:
    """Equality of nested states that hold arrays."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if hasattr(a, "__array__") and hasattr(b, "__array__"):
        return np.array_equal(np.asarray(a), np.asarray(b))
    return bool(a == b)
