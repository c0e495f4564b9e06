"""Elementwise operators, softmax, norms and sums: bytes per second, next to a copy on the device.

What is counted is what an ideal kernel moves: each input read once, each result written once. An operator that is made of
several kernels moves more, and shows less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import clock
import numpy as np
from libraries import Library
from report import Row
from settings import Settings

DTYPES = ("float32", "float16")

Function = Callable[[Library, Any, Any], Any]


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes
    ----------
    group, work : str
    reads, writes : float
        Arrays that an ideal kernel reads and writes, in units of one input.
    function : callable
        ``f(library, x, y)``; with `backward` what is differentiated, and only the backward is timed.
    cupy : callable or None
        The same for CuPy.
    """

    group: str
    work: str
    reads: float
    writes: float
    function: Function
    cupy: Callable[[Any, Any, Any], Any] | None = None
    backward: bool = False


def layer_norm(library: Library, x: Any, _: Any) -> Any:
    functional, shape = library.functional, (x.shape[-1],)
    if hasattr(functional, "layer_norm"):
        return functional.layer_norm(x, shape)
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / ((centred * centred).mean(dim=-1, keepdim=True) + 1e-5).sqrt()


CASES = (
    Case("elementwise", "exp", 1, 1, lambda l, x, y: x.exp(), lambda c, x, y: c.exp(x)),
    Case("elementwise", "add", 2, 1, lambda l, x, y: x + y, lambda c, x, y: x + y),
    Case("elementwise", "mul", 2, 1, lambda l, x, y: x * y, lambda c, x, y: x * y),
    Case("elementwise", "x + row", 1, 1, lambda l, x, y: x + y[0], lambda c, x, y: x + y[0]),
    Case("elementwise", "sigmoid", 1, 1, lambda l, x, y: x.sigmoid()),
    Case("elementwise", "gelu", 1, 1, lambda l, x, y: l.functional.gelu(x)),
    Case("elementwise", "exp, backward", 2, 1, lambda l, x, y: x.exp(), backward=True),
    Case("elementwise", "mul, backward", 3, 2, lambda l, x, y: x * y, backward=True),
    Case(
        "elementwise", "gelu, backward", 2, 1, lambda l, x, y: l.functional.gelu(x), backward=True
    ),
    Case("rows", "softmax", 1, 1, lambda l, x, y: x.softmax(-1)),
    Case("rows", "log_softmax", 1, 1, lambda l, x, y: x.log_softmax(-1)),
    Case("rows", "softmax, backward", 2, 1, lambda l, x, y: x.softmax(-1), backward=True),
    Case("rows", "layer norm", 1, 1, layer_norm),
    Case("rows", "layer norm, backward", 2, 1, layer_norm, backward=True),
    Case("sums", "sum of rows", 1, 0, lambda l, x, y: x.sum(-1), lambda c, x, y: x.sum(-1)),
    Case("sums", "sum of columns", 1, 0, lambda l, x, y: x.sum(0), lambda c, x, y: x.sum(0)),
    Case("sums", "sum of all", 1, 0, lambda l, x, y: x.sum(), lambda c, x, y: x.sum()),
    Case("sums", "greatest of rows", 1, 0, lambda l, x, y: x.amax(-1), lambda c, x, y: x.max(-1)),
    Case("sums", "variance of rows", 1, 0, lambda l, x, y: x.var(-1)),
)


@dataclass
class Sets:
    """Inputs of one dtype on the host, several times, so that all of them together exceed the device's cache."""

    dtype: str
    hosts: list[tuple[np.ndarray, np.ndarray]]

    @property
    def nbytes(self) -> int:
        return self.hosts[0][0].nbytes


def make_sets(settings: Settings, dtype: str, cache: int) -> Sets:
    rng = np.random.default_rng()
    shape = (settings.elements // settings.columns, settings.columns)
    size = settings.elements * np.dtype(dtype).itemsize
    count = max(2, math.ceil(4 * cache / max(size, 1 << 20)))

    def host() -> np.ndarray:
        return (rng.random(shape, np.float32) + np.float32(0.5)).astype(dtype)

    return Sets(dtype, [(host(), host()) for _ in range(count)])


def measure(libraries: list[Library], settings: Settings, cache: int) -> Iterator[Row]:
    """A row for the copy, then one per case, for each dtype."""
    for dtype in DTYPES:
        sets = make_sets(settings, dtype, cache)
        copy = Copy(sets)
        seconds = clock.on_device({"copy": copy}, settings, 1, copy.ahead).seconds["copy"]
        rate = 2 * sets.nbytes / sorted(seconds)[len(seconds) // 2] / 1e9
        yield Row("elementwise", f"copy, {dtype}", "GB/s", {"plugrad": rate}, against="copy")
        for case in CASES:
            yield _row(case, sets, libraries, settings, copy, rate)


class Copy:
    """The driver's copy from one array on the device to another, each set in turn."""

    def __init__(self, sets: Sets) -> None:
        from plugrad.backends.cuda.array import empty, from_host

        self.nbytes = sets.nbytes
        self.sources = [from_host(x) for x, _ in sets.hosts]
        self.targets = [empty(x.shape, x.dtype) for x in self.sources]

    def __call__(self, k: int) -> None:
        from pycuda.driver import memcpy_dtod_async

        k %= len(self.sources)
        memcpy_dtod_async(self.targets[k].gpudata, self.sources[k].gpudata, self.nbytes)

    def ahead(self) -> None:
        """About a millisecond of work: the host queues a round meanwhile."""
        for k in range(max(1, min(64, (1 << 30) // self.nbytes))):
            self(k)


def _row(
    case: Case, sets: Sets, libraries: list[Library], settings: Settings, copy: Copy, rate: float
) -> Row:
    bodies = {}
    for library in libraries:
        body = _body(case, library, sets)
        if body is not None:
            bodies[library.name] = body
    timing = clock.on_device(bodies, settings, len(sets.hosts), copy.ahead)
    moved = (case.reads + case.writes) * sets.nbytes
    figures = {name: moved / timing.median(name) / 1e9 for name in bodies}
    note = ""
    if case.function is layer_norm and not hasattr(libraries[0].functional, "layer_norm"):
        note = "made of several operators"
    work = f"{case.work}, {sets.dtype}"
    return Row(case.group, work, "GB/s", figures, figures["plugrad"] / rate, "copy", note)


def _body(case: Case, library: Library, sets: Sets) -> clock.Body | None:
    if not library.differentiates:
        if case.cupy is None:
            return None
        inputs = [(library.array(x), library.array(y)) for x, y in sets.hosts]
        return lambda k: case.cupy(library.module, *inputs[k % len(inputs)])
    inputs = [tuple(library.array(a, case.backward) for a in pair) for pair in sets.hosts]
    if not case.backward:
        return lambda k: case.function(library, *inputs[k % len(inputs)])
    outputs = [case.function(library, x, y) for x, y in inputs]
    seeds = [library.array(x.copy()) for x, _ in sets.hosts]

    def backward(k: int) -> Any:
        k %= len(inputs)
        x, y = inputs[k]
        x.grad = y.grad = None
        outputs[k].backward(seeds[k], retain_graph=True)
        return x.grad, y.grad

    return backward
