"""How to make a valid call of an operator: what is drawn, and the kinds of calls that many operators share.

A *case* knows how to draw one call. What it draws depends on the *situation*, so that each operator meets all
of them (empty and 0-d tensors, strides, ties, special values) in few examples, and on the *kind*: the dtype that
its floating arguments get, or integers in their place.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

SITUATIONS = ("plain", "scalar", "empty", "ones", "strided", "broadcast", "special", "ties")
EXTREME = "extreme"  # infinities, NaN, huge and tiny: first order only
KINDS = ("float64", "float32", "integer")
COMPLEX = "complex128"  # of operators that declare it
REGULAR = ("plain", "scalar", "empty", "ones", "strided", "broadcast")
INTEGERS = ("int64", "int32", "uint8", "bool", "int8", "int16")


@dataclass
class Fixed:
    """An array whose gradient is not asked for: PyTorch has none, or it is part of the question."""

    array: np.ndarray


@dataclass
class Call:
    """Arguments in PyTorch's order by PyTorch's names, of which the first `positional` are given by position."""

    arguments: dict[str, Any]
    keywords: dict[str, Any] = field(default_factory=dict)
    positional: int = 99

    def parts(self, path: str) -> tuple[list[Any], dict[str, Any]]:
        """What is passed by position, and what by name; Python's own operators take nothing by name."""
        count = len(self.arguments) if ".__" in path else max(self.positional, 1)
        items = list(self.arguments.items())
        return [value for _, value in items[:count]], {**dict(items[count:]), **self.keywords}

    def __str__(self) -> str:
        args, named = self.parts("")
        return ", ".join([show(v) for v in args] + [f"{k}={show(v)}" for k, v in named.items()])


def show(value: Any) -> str:
    """An array with its dtype and, where short, its values and strides; anything else as it is."""
    if isinstance(value, Fixed):
        return show(value.array)
    if isinstance(value, np.ndarray):
        values = np.array2string(value, separator=", ", threshold=40, precision=17)
        how = "" if value.flags.c_contiguous else f" strides {value.strides}"
        return f"{value.dtype}{list(value.shape)}{how} {' '.join(values.split())}"
    if isinstance(value, list | tuple):
        return type(value).__name__ + "(" + ", ".join(map(show, value)) + ")"
    return repr(value)


# ---- values ----------------------------------------------------------------------------------------------

Domain = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def uniform(low: float, high: float) -> Domain:
    return lambda rng, shape: rng.uniform(low, high, shape)


def real(rng, shape):
    return rng.normal(0, 2, shape)


def nonzero(rng, shape):
    return rng.uniform(0.3, 2.5, shape) * rng.choice([-1.0, 1.0], shape)


def distinct(rng, shape):
    """No two alike, so that sorting and extrema have no ties."""
    return rng.permutation(math.prod(shape)).reshape(shape) * 0.37 - 1.1


positive = uniform(0.1, 4.0)
unit = uniform(0.02, 0.98)
symmetric = uniform(-0.95, 0.95)
above_one = uniform(1.05, 4.0)
small = uniform(-1.5, 1.5)

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0)


def extremes(dtype: np.dtype) -> list[float]:
    wide = dtype == np.float64
    huge, tiny = (1e200, 1e-200) if wide else (1e25, 1e-25)
    return [np.inf, -np.inf, np.nan, huge, -huge, tiny, -tiny, 30.0, -30.0, 0.0]


# ---- drawing ---------------------------------------------------------------------------------------------


class Draw:
    """What a case draws from: Hypothesis, in a situation, for a kind."""

    def __init__(self, draw: Callable[..., Any], kind: str, situation: str) -> None:
        self.draw, self.kind, self.situation = draw, kind, situation
        self.dtype = np.dtype(self.choice(INTEGERS) if kind == "integer" else kind)
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def choice(self, values: Any) -> Any:
        return self.draw(st.sampled_from(list(values)))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def maybe(self) -> bool:
        return self.draw(st.booleans())

    def pick(self, choices: dict[str, Any]) -> dict[str, Any]:
        """One value for each name, or none, in which case the default counts."""
        found = {}
        for name, values in choices.items():
            if not self.maybe():
                found[name] = self.choice(values)
        return found

    # ---- shapes

    def shape(self, low: int = 0, high: int = 3, *, empty: bool = True) -> tuple[int, ...]:
        """`low` to `high` sizes that fit the situation; `empty`: whether 0 is one of them."""
        if self.situation == "scalar":
            return tuple(self.integer(1, 3) for _ in range(low))
        ndim = self.integer(max(low, 1), max(high, low, 1))
        if self.situation == "ones":
            return (1,) * ndim
        sizes = [self.integer(2, 4) for _ in range(ndim)]
        if self.situation == "empty" and empty:
            sizes[self.integer(0, ndim - 1)] = 0
        return tuple(sizes)

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`shape`, or where the situation says so one that is broadcast to it."""
        if self.situation != "broadcast":
            return shape
        kept = shape[self.integer(0, len(shape)) :]
        return tuple(1 if self.maybe() else n for n in kept)

    def dim(self, shape: tuple[int, ...]) -> int:
        """A dimension of a tensor of that shape, from the front or the back."""
        ndim = max(len(shape), 1)
        return self.integer(-ndim, ndim - 1)

    def dims(self, shape: tuple[int, ...], *, most: int | None = None) -> Any:
        """Distinct dimensions as a tuple."""
        ndim = len(shape)
        order = self.draw(st.permutations(range(ndim)))
        count = self.integer(min(1, ndim), min(ndim, most or ndim))
        return tuple(d - ndim if self.maybe() else d for d in order[:count])

    # ---- arrays

    def array(
        self, shape: tuple[int, ...], domain: Domain = real, *, dtype: Any = None
    ) -> np.ndarray:
        """Floats of the kind's dtype, or integers, laid out as the situation says."""
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        values = self._values(shape, domain, dtype)
        return self.laid_out(values)

    def _values(self, shape, domain, dtype):
        rng = self.rng
        if dtype.kind == "b":
            return np.asarray(rng.random(shape) < 0.5)
        if dtype.kind in "iu":
            low = 0 if dtype.kind == "u" else -4
            return np.asarray(rng.integers(low, 6, shape)).astype(dtype)
        values = np.asarray(domain(rng, shape))
        if dtype.kind == "c":
            return np.asarray((values + 1j * np.asarray(domain(rng, shape))).astype(dtype))
        if self.situation == "ties":
            values = np.round(values)
        elif self.situation == "special":
            values = np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), values)
        elif self.situation == EXTREME:
            values = np.where(rng.random(shape) < 0.6, rng.choice(extremes(dtype), shape), values)
        return np.asarray(values.astype(dtype))

    def laid_out(self, values: np.ndarray) -> np.ndarray:
        """The same values, in the strided situation with other strides."""
        if self.situation != "strided" or not values.ndim:
            return values
        how = self.choice(["transposed", "sliced", "negative", "repeated"])
        if how == "transposed":
            return np.ascontiguousarray(values.T).T
        if how == "sliced":
            wide = np.zeros([2 * n + 1 for n in values.shape], values.dtype)
            view = wide[tuple(slice(1, None, 2) for _ in values.shape)]
            view[...] = values
            return view
        if how == "negative":
            every = (slice(None, None, -1),) * values.ndim
            return np.ascontiguousarray(values[every])[every]
        first = np.array(values[:1])
        return np.lib.stride_tricks.as_strided(first, values.shape, (0, *first.strides[1:]))

    def laid_out_plain(self, values: np.ndarray) -> np.ndarray:
        """`values` in the kind's dtype; in the strided situation transposed, which repeats no element."""
        values = values.astype(self.dtype)
        return np.ascontiguousarray(values.T).T if self.situation == "strided" else values

    def integers(self, shape: tuple[int, ...], low: int, high: int, dtype: Any = "int64") -> Fixed:
        """Integers of ``[low, high)``, for indices and classes."""
        values = np.asarray(self.rng.integers(low, max(high, low + 1), shape))
        return Fixed(self.laid_out(values.astype(dtype)))

    def booleans(self, shape: tuple[int, ...]) -> Fixed:
        return Fixed(self.laid_out(np.asarray(self.rng.random(shape) < 0.5)))


# ---- cases -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """How one operator is called and compared.

    Attributes
    ----------
    make : callable
        ``make(draw)`` gives a `Call`.
    run : callable or None
        ``run(lib, *args, **named)`` where the operator is not called by its path alone.
    through : callable or None
        ``through(lib, outputs, *args)``: what is compared in place of outputs that are defined only up to a gauge.
    kinds, situations : tuple of str
    orders : int
        How often it is differentiated in float64.
    exact : bool
        Whether values are compared relative to each element, as fits an elementwise operator.
    loose, gradient, second : float
        Factors of the tolerance: of all, and of gradients and those of the second order beyond.
    """

    make: Callable[[Draw], Call]
    run: Callable[..., Any] | None = None
    through: Callable[..., Any] | None = None
    kinds: tuple[str, ...] = KINDS
    situations: tuple[str, ...] = SITUATIONS
    orders: int = 2
    exact: bool = False
    loose: float = 1.0
    gradient: float = 1.0
    second: float = 1.0

    def but(self, **changes: Any) -> "Case":
        return replace(self, **changes)

    def without(self, *situations: str) -> "Case":
        return replace(self, situations=tuple(s for s in self.situations if s not in situations))

    @property
    def floating(self) -> "Case":
        """Floating inputs only."""
        return replace(self, kinds=("float64", "float32"))


def case(make: Callable[[Draw], Call], **options: Any) -> Case:
    """A case of its own, as a decorator or around a lambda."""
    return Case(make, **{"situations": tuple(s for s in SITUATIONS if s != "broadcast"), **options})


ELEMENTWISE = {"exact": True, "situations": (*SITUATIONS, EXTREME)}
ALONE = {"exact": True, "situations": (*(s for s in SITUATIONS if s != "broadcast"), EXTREME)}


def unary(domain: Domain = real, /, **choices: Any) -> Case:
    """One tensor of any shape, and constants of which each is left out or one of some."""
    return Case(lambda d: Call({"input": d.array(d.shape(), domain)}, d.pick(choices)), **ALONE)


def binary(
    first: Domain = real,
    second: Domain | None = None,
    /,
    *,
    number: bool = True,
    names=("input", "other"),
    **choices: Any,
) -> Case:
    """Two tensors that broadcast, or a tensor and a Python number."""

    def make(d):
        shape = d.shape()
        a, b = d.array(shape, first), d.array(d.broadcast(shape), second or first)
        if d.maybe():
            a, b = d.array(d.broadcast(shape), first), d.array(shape, second or first)
        if number and d.situation == "ones":
            b = d.choice([2, 3] if d.kind == "integer" else [2, 0.5, 1.5])
        return Call(dict(zip(names, (a, b))), d.pick(choices), d.choice([1, 2]))

    return Case(make, **ELEMENTWISE)


def ternary(*domains: Domain, names: tuple[str, ...], **choices: Any) -> Case:
    """Several tensors that broadcast."""

    def make(d):
        shape = d.shape()
        shapes = [shape] + [d.broadcast(shape) for _ in domains[1:]]
        arrays = [d.array(s, domain) for s, domain in zip(shapes, domains)]
        return Call(dict(zip(names, arrays)), d.pick(choices), d.choice([1, len(names)]))

    return Case(make, **ELEMENTWISE)


def reduction(
    domain: Domain = real,
    /,
    *,
    dims: bool = True,
    whole: bool = True,
    keepdim: bool = True,
    low: int = 0,
    empty: bool = True,
    **choices: Any,
) -> Case:
    """A tensor reduced over nothing named (`whole`), one dimension or several (`dims`)."""

    def make(d):
        shape = d.shape(low, empty=empty)
        named = d.pick(choices)
        call = {"input": d.array(shape, domain)}
        how = d.choice((["whole"] if whole else []) + ["one"] + (["several"] if dims else []))
        if how == "one":
            call["dim"] = d.dim(shape)
        elif how == "several":
            call["dim"] = d.dims(shape)
        if how != "whole" and keepdim:
            named |= d.pick({"keepdim": [True, False]})
        return Call(call, named, d.choice([1, 2]))

    return case(make)


def along(domain: Domain = real, /, *, low: int = 0, empty: bool = True, **choices: Any) -> Case:
    """A tensor and one dimension, which is not left out."""

    def make(d):
        shape = d.shape(low, empty=empty)
        call = {"input": d.array(shape, domain), "dim": d.dim(shape)}
        return Call(call, d.pick(choices), d.choice([1, 2]))

    return case(make)


def shaped(low: int = 0, high: int = 3, /, empty: bool = True, **choices: Any) -> Case:
    """One tensor whose elements are moved about, and constants."""
    return case(
        lambda d: Call({"input": d.array(d.shape(low, high, empty=empty))}, d.pick(choices))
    )


def tensors(make: Callable[[Draw], list[np.ndarray]], /, **choices: Any) -> Case:
    """A list of tensors."""
    return case(lambda d: Call({"tensors": make(d)}, d.pick(choices)))
