"""The points an operator is checked at, and the `make` object that builds them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

__all__ = ["Maker", "Sample", "collect", "describe_value", "fixed_stream"]


@dataclass
class Sample:
    """One call that an operator must survive, or must refuse.

    Attributes
    ----------
    args : tuple
        What is passed by position: float64, complex128, integer or bool arrays, Python numbers, ``None`` for an
        absent optional tensor, a list for a list input.
    constants : dict
        What is passed by keyword.
    through : callable, optional
        A function of the output Tensors; the derivative of ``through(op(...))`` is checked instead of
        that of ``op(...)``, for outputs that are defined only up to a gauge (eigenvectors, say).
    raises, words : type, str
        For a bad call: the exception it must raise and words its message must hold.
    index : int
        Position among the samples of the operator; -1 for one that the battery added.
    label : str
        What the battery added it for, e.g. ``"0-d"``.
    """

    args: tuple[Any, ...]
    constants: dict[str, Any] = field(default_factory=dict)
    through: Callable[..., Any] | None = None
    raises: type[BaseException] | None = None
    words: str = ""
    index: int = -1
    label: str = ""

    def __str__(self) -> str:
        parts = [describe_value(value) for value in self.args]
        parts += [f"{name}={describe_value(value)}" for name, value in self.constants.items()]
        name = f"added ({self.label})" if self.index < 0 else f"sample {self.index}"
        return f"{name}: ({', '.join(parts)})"


def describe_value(value: Any) -> str:
    """Dtype and shape of an array, ``repr`` of anything else, cut to a readable length."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list | tuple) and any(isinstance(item, np.ndarray) for item in value):
        return f"[{', '.join(describe_value(item) for item in value)}]"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


class Maker:
    """Builds samples; every value is drawn from a stream that depends on the operator's name only.

    Arrays come as float64 (`integers` as int64, `booleans` as bool, `complex` as complex128); the battery casts
    the float64 and complex128 ones to the other dtypes that the operator declares.

    Examples
    --------
    >>> @my_operator.samples
    ... def _(make):
    ...     yield make.call(make.normal(3, 4), make.normal(4))
    ...     yield make.error(ValueError, "positive", make.normal(3), cap=-1.0)
    """

    def __init__(self, name: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self._streams = 0

    # ------------------------------------------------------------------------------------ samples

    def call(
        self, *tensors: Any, through: Callable[..., Any] | None = None, **constants: Any
    ) -> Sample:
        """A call that must work: arrays, numbers, ``None`` or lists by position, then constants."""
        return Sample(tuple(tensors), constants, through)

    def error(
        self, exception: type[BaseException], words: str, *tensors: Any, **constants: Any
    ) -> Sample:
        """A call that must raise `exception`, with `words` in its message (any letter case)."""
        return Sample(tuple(tensors), constants, raises=exception, words=words)

    # ------------------------------------------------------------------------------------- values

    def normal(self, *shape: Any) -> np.ndarray:
        """Standard normal values."""
        return self.rng.standard_normal(_shape(shape))

    def uniform(self, *shape: Any, low: float = -1.0, high: float = 1.0) -> np.ndarray:
        """Values between `low` and `high`."""
        return self.rng.uniform(low, high, _shape(shape))

    def positive(self, *shape: Any) -> np.ndarray:
        """Values between 0.5 and 2."""
        return self.rng.uniform(0.5, 2.0, _shape(shape))

    def values(self, values: Any) -> np.ndarray:
        """These numbers, as float64."""
        return np.array(values, dtype=np.float64)

    def complex(self, *shape: Any, low: float = 0.5, high: float = 2.0) -> np.ndarray:
        """complex128 values of a size between `low` and `high`, anywhere around 0."""
        shape = _shape(shape)
        angle = self.rng.uniform(-np.pi, np.pi, shape)
        return np.asarray(self.rng.uniform(low, high, shape) * np.exp(1j * angle))

    def integers(self, *shape: Any, low: int = 0, high: int = 10) -> np.ndarray:
        """int64 values from `low` up to, but not including, `high`."""
        return self.rng.integers(low, high, _shape(shape), dtype=np.int64)

    def booleans(self, *shape: Any) -> np.ndarray:
        """Bool values."""
        return self.rng.integers(0, 2, _shape(shape)).astype(bool)

    def generator(self) -> Any:
        """A stream of random numbers for the constant `generator`, another one each time.

        A sample of a random operator that passes none gets one that is the same for all.
        """
        self._streams += 1
        return fixed_stream(self._streams)

    def distinct(self, *shape: Any) -> np.ndarray:
        """Values between -2 and 2 that differ from each other clearly, in random order."""
        shape = _shape(shape)
        count = int(np.prod(shape))
        gap = 4.0 / max(count, 1)
        values = -2.0 + gap * (np.arange(count) + self.rng.uniform(0.3, 0.7, count))
        return self.rng.permutation(values).reshape(shape)


def fixed_stream(offset: int = 0) -> Any:
    """What a random operator draws from while it is checked: the same numbers in every call of a sample."""
    from plugrad.backends.philox import Stream  # few operators need it

    return Stream(0x706C7567726164, offset)


def _shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape


def collect(sampler: Any, name: str) -> list[Sample]:
    """The samples of `sampler`: a function of `make`, or an iterable of Samples or argument tuples.

    Raises
    ------
    TypeError
        An item is neither a Sample nor a tuple of arguments.
    """
    items: Iterator[Any] = iter(sampler(Maker(name)) if callable(sampler) else sampler)
    found = []
    for index, item in enumerate(items):
        if isinstance(item, np.ndarray):
            item = (item,)
        if isinstance(item, tuple | list):
            item = Sample(tuple(item))
        if not isinstance(item, Sample):
            raise TypeError(
                f"{name}: the samples must be make.call(...) or make.error(...), got {item!r:.80}"
            )
        found.append(replace(item, index=index))
    return found
