"""Timing with CUDA events, several libraries in turns.

A body is called as ``body(k)``, k counting up, and takes its inputs from one of several sets, so that a call never finds
what an earlier one left in the device's cache. All libraries work on the default stream of one primary context, so that the same
events measure each of them. A ratio is the median over the rounds of the ratios within a round, which a clock that
changes meanwhile leaves alone.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from settings import Settings

Body = Callable[[int], Any]


@dataclass
class Timing:
    """Seconds of each call, by library, in the same order for all."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        return median(self.seconds[name])

    def ratio(self, name: str, against: str) -> float | None:
        """Median of `name` / `against`, or None where one of them did not run."""
        if name not in self.seconds or against not in self.seconds:
            return None
        pairs = zip(self.seconds[name], self.seconds[against], strict=True)
        return median(a / b for a, b in pairs)


@contextmanager
def no_collection() -> Iterator[None]:
    """Without the garbage collector, which would stop at random."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def on_device(
    bodies: Mapping[str, Body], settings: Settings, held: int, ahead: Callable[[], None]
) -> Timing:
    """Seconds on the device of every call.

    `held` results stay alive per body, so that the next ones are written to other memory. `ahead` queues work that
    keeps the device busy until a round is queued: the time between two events would else be the host's.
    """
    from plugrad import cuda

    seconds: dict[str, list[float]] = {name: [] for name in bodies}
    kept: dict[str, deque[Any]] = {name: deque(maxlen=held) for name in bodies}
    names = list(bodies)
    for k in range(settings.warm_ups):
        for name in names:
            kept[name].append(bodies[name](k))
    cuda.synchronize()
    with no_collection():
        for k in range(settings.samples):
            shift = k % len(names)
            marks = []
            ahead()
            for name in names[shift:] + names[:shift]:
                start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
                start.record()
                kept[name].append(bodies[name](k))
                end.record()
                marks.append((name, start, end))
            cuda.synchronize()
            for name, start, end in marks:
                seconds[name].append(max(start.elapsed_time(end), 1e-6) / 1e3)
    return Timing(seconds)


def on_host(bodies: Mapping[str, Body], settings: Settings, calls: int, wait: bool) -> Timing:
    """Seconds on the host per call, in samples of that many; with `wait` until the device has done them."""
    from plugrad import cuda

    seconds: dict[str, list[float]] = {name: [] for name in bodies}
    names = list(bodies)
    for k in range(settings.warm_ups):
        for name in names:
            bodies[name](k)
    cuda.synchronize()
    with no_collection():
        for k in range(settings.samples):
            shift = k % len(names)
            for name in names[shift:] + names[:shift]:
                body = bodies[name]
                began = time.perf_counter()
                for _ in range(calls):
                    body(k)
                if wait:
                    cuda.synchronize()
                seconds[name].append((time.perf_counter() - began) / calls)
                cuda.synchronize()
    return Timing(seconds)
