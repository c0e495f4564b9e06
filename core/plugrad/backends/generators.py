"""Generators: where random operators take their streams from.

(a) A generator is two integers, a seed and an offset that each draw raises by one. What is drawn is a `Stream`: all the
    randomness of one call of an operator. Nothing of a generator lies on a device, so one serves all of them, and a
    seed gives the same numbers everywhere.
(b) There is one default generator per process. A thread can set it aside: within that block draws come from another one,
    so that what a battery draws changes neither this thread's numbers nor those of another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from plugrad.backends.philox import Counter, Stream
from plugrad.graph.tensor import Tensor

__all__ = [
    "Generator",
    "current_generator",
    "default_generator",
    "set_aside",
    "stream_of",
]

DEFAULT_SEED = 67280421310721
STATE_BYTES = 16


class Generator(Counter):
    """A source of random numbers: a seed, and how much of its numbers was used.

    Every call of a random operator takes the next stream (`draw`). Threads may share a generator; each call then gets
    a stream of its own, though which one is left to chance.

    Parameters
    ----------
    device : str, default "cpu"
        Accepted for PyTorch's sake: any generator serves tensors of any device, with the same numbers.

    Examples
    --------
    >>> g = plugrad.Generator().manual_seed(7)
    >>> plugrad.rand(2, generator=g)
    """

    def __init__(self, device: str = "cpu") -> None:
        if not isinstance(device, str) or device.partition(":")[0] not in (
            "cpu",
            "cuda",
            "cuda-emulated",
        ):
            raise ValueError(f"Generator: device is 'cpu' or 'cuda', got {device!r}")
        self.device = device
        self._set(DEFAULT_SEED, 0)

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from a seed; returns the generator itself.

        Parameters
        ----------
        seed : int
            From -2**63 to 2**64 - 1; a negative one counts from 2**64 down.

        Raises
        ------
        ValueError
            It is outside that range.
        """
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"manual_seed: a seed is from -2**63 to 2**64 - 1, got {seed}")
        self._set(seed % 2**64, 0)
        return self

    def seed(self) -> int:
        """Start anew from a seed of the system's randomness; returns it."""
        seed = int.from_bytes(os.urandom(8), "little")
        self._set(seed, 0)
        return seed

    def initial_seed(self) -> int:
        """The seed that it started from."""
        return self._get()[0]

    def get_state(self) -> Tensor:
        """Seed and offset, as a uint8 tensor of 16 bytes on the CPU."""
        return Tensor(np.array(self._get(), "<u8").view(np.uint8))

    def set_state(self, new_state: Tensor) -> None:
        """Go on from a state that `get_state` gave.

        Raises
        ------
        ValueError
            It is no tensor of 16 bytes.
        """
        state = np.asarray(new_state.array if isinstance(new_state, Tensor) else new_state)
        if state.dtype != np.uint8 or state.shape != (STATE_BYTES,):
            raise ValueError(
                f"set_state: a state is a uint8 tensor of {STATE_BYTES} bytes on the CPU, got "
                f"{state.dtype}{list(state.shape)}"
            )
        seed, offset = np.ascontiguousarray(state).view("<u8").tolist()
        self._set(seed, offset)

    def clone_state(self) -> Generator:
        """Another generator in the same state; the two go on independently."""
        return _made(type(self), self.device, *self._get())

    def __reduce__(self) -> Any:
        return _made, (type(self), self.device, *self._get())

    def __repr__(self) -> str:
        seed, offset = self._get()
        return f"Generator(device={self.device!r}, seed={seed}, offset={offset})"


def _made(kind: type[Generator], device: str, seed: int, offset: int) -> Generator:
    made = kind(device)
    made._set(seed, offset)
    return made


default_generator = Generator()
"""What random operators draw from when they are given no generator; its seed is another one in each process."""

default_generator.seed()


class _Local(threading.local):
    generator: Generator | None = None


_local = _Local()


def current_generator() -> Generator:
    """The default generator of the calling thread: `default_generator`, unless that is set aside."""
    return _local.generator or default_generator


@contextmanager
def set_aside() -> Iterator[None]:
    """Within the block, this thread's default generator is a new one with a fixed seed."""
    before, _local.generator = _local.generator, Generator()
    try:
        yield
    finally:
        _local.generator = before


def stream_of(name: str, generator: Any) -> Stream:
    """What an operator is passed for its `generator`: a stream as it is, the next one of a generator.

    Raises
    ------
    TypeError
        It is none of these; `name` is the operator's.
    """
    if type(generator) is Stream:
        return generator
    if generator is None:
        return current_generator().draw()
    if isinstance(generator, Counter):
        return generator.draw()
    raise TypeError(
        f"{name}: generator is a plugrad.Generator, a Stream or None, got {type(generator).__name__}"
    )
