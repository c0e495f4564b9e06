"""Random numbers: generators, and tensors filled with what they give.

Every random function takes `generator`, a `Generator` or None for the default one. A seed gives the same numbers on every
device and with any number of threads; integers and uniform numbers bit for bit. They are not PyTorch's or NumPy's.

A generator hands out streams (`Stream`), which random operators are functions of: see `plugrad.operator`, ``random=True``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from plugrad.backends.creation import DTypeLike, empty, empty_like
from plugrad.backends.generators import Generator, current_generator, default_generator
from plugrad.backends.philox import Stream
from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = [
    "Generator",
    "Stream",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]

# ---- the default generator ---------------------------------------------------------------------


def manual_seed(seed: int) -> Generator:
    """Start the default generator, which serves all devices, from a seed; returns it.

    Raises
    ------
    ValueError
        The seed is not from -2**63 to 2**64 - 1.
    """
    return current_generator().manual_seed(seed)


def seed() -> int:
    """Start the default generator from a seed of the system's randomness; returns it."""
    return current_generator().seed()


def initial_seed() -> int:
    """The seed that the default generator started from."""
    return current_generator().initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state: a uint8 tensor of 16 bytes."""
    return current_generator().get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Have the default generator go on from a state that `get_rng_state` gave.

    Raises
    ------
    ValueError
        It is no such state.
    """
    current_generator().set_state(new_state)


@contextmanager
def fork_rng(devices: Iterable[Any] | None = None, enabled: bool = True) -> Iterator[None]:
    """A block after which the default generator is in the state it was in before.

    Parameters
    ----------
    devices : iterable, optional
        Accepted for PyTorch's sake: there is one generator for all devices.
    enabled : bool, default True
        Whether to do so.
    """
    generator = current_generator()
    state = generator._get()
    try:
        yield
    finally:
        if enabled:
            generator._set(*state)


# ---- tensors of random numbers -----------------------------------------------------------------


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in [0, 1)."""
    made = empty(*size, dtype=dtype, device=device)
    return _finish(ops.uniform_(made, generator=generator), requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal numbers."""
    made = empty(*size, dtype=dtype, device=device)
    return _finish(ops.normal_(made, generator=generator), requires_grad)


def randint(
    *args: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers from `low` (0 unless given) up to, but not including, `high`: ``randint(low, high, size)``.

    Parameters
    ----------
    low, high : int
        By position or by name; with one of them by position, that is `high`.
    size : tuple of int
    dtype : dtype, default int64

    Raises
    ------
    TypeError
        An argument is missing or given twice.
    RuntimeError
        The range is empty, or `dtype` does not hold it.
    """
    rest = list(args)
    if size is None and rest:
        size = rest.pop()
    if high is None and rest:
        high = rest.pop()
    if low is None and rest:
        low = rest.pop()
    if rest or size is None or high is None:
        raise TypeError(
            f"randint() takes (high, size) or (low, high, size), got {args}, low={low}, high={high}, size={size}"
        )
    made = empty(size, dtype=dtype or np.int64, device=device)
    return _finish(ops.random_(made, low or 0, high, generator=generator), requires_grad)


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in [0, 1) with the shape, dtype and device of `input`."""
    made = empty_like(input, dtype=dtype, device=device)
    return _finish(ops.uniform_(made, generator=generator), requires_grad)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal numbers with the shape, dtype and device of `input`."""
    made = empty_like(input, dtype=dtype, device=device)
    return _finish(ops.normal_(made, generator=generator), requires_grad)


def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers from `low` up to `high` (with one argument: from 0 up to it), shaped as `input` and of its dtype."""
    if high is None:
        low, high = 0, low
    made = empty_like(input, dtype=dtype, device=device)
    return _finish(ops.random_(made, low, high, generator=generator), requires_grad)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The integers from 0 to n - 1 in random order; int64 unless `dtype` says otherwise.

    Raises
    ------
    RuntimeError
        `n` is negative, or `dtype` does not hold n - 1.
    """
    if n < 0:
        raise RuntimeError(f"randperm: n must be >= 0, got {n}")
    made = empty(n, dtype=dtype or np.int64, device=device)
    return _finish(ops.fill_permutation(made, generator=generator), requires_grad)


def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers, each with a mean and a standard deviation of its own.

    Parameters
    ----------
    mean, std : Tensor or float
        Tensors broadcast; no gradient flows to them.
    size : tuple of int, optional
        Where neither is a tensor. `dtype` and `device` are for this case, too.

    Raises
    ------
    RuntimeError
        A standard deviation is negative.
    TypeError
        `size` is given and one of the two is a tensor, or it is missing and none is.
    """
    tensors = [x.detach() for x in (mean, std) if isinstance(x, Tensor)]
    if bool(tensors) == (size is not None):
        raise TypeError(
            "normal() takes mean and std, one of them a tensor, or two numbers and size=, got "
            f"{type(mean).__name__}, {type(std).__name__} and size={size}"
        )
    if not tensors:
        made = empty(size, dtype=dtype, device=device)
        filled = ops.normal_(made, mean=mean, std=std, generator=generator)
        return _finish(filled, requires_grad)
    if not isinstance(std, Tensor) and not std >= 0:
        raise RuntimeError(f"normal: std must be >= 0, got {std}")
    like = tensors[0] if len(tensors) == 1 else tensors[0] + tensors[1]
    spread = std.detach() if isinstance(std, Tensor) else std
    if isinstance(spread, Tensor) and not bool((spread >= 0).all()):
        raise RuntimeError(f"normal: std must be >= 0 everywhere, got {float(spread.amin())}")
    center = mean.detach() if isinstance(mean, Tensor) else mean
    return _finish(randn_like(like, generator=generator) * spread + center, requires_grad)


def _finish(made: Tensor, requires_grad: bool) -> Tensor:
    return made.requires_grad_() if requires_grad else made
