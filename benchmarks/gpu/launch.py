"""What a call costs from Python: arrays of four numbers, nothing waits for the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import clock
import numpy as np
from libraries import Library
from report import Row
from settings import Settings

ELEMENTS = 4


def measure(libraries: list[Library], settings: Settings) -> Iterator[Row]:
    for work, make in CALLS.items():
        bodies = {}
        for library in libraries:
            body = make(library)
            if body is not None:
                bodies[library.name] = body
        timing = clock.on_host(bodies, settings, settings.launches, wait=False)
        figures = {name: 1e6 * timing.median(name) for name in bodies}
        yield Row("launch", work, "µs", figures, timing.ratio("plugrad", "torch"))


def leaf(library: Library, requires_grad: bool = False) -> Any:
    return library.array(np.full(ELEMENTS, 1.0001, np.float32), requires_grad)


def product(library: Library) -> clock.Body:
    x, y = leaf(library), leaf(library)
    return lambda k: x * y


def exponential(library: Library) -> clock.Body:
    x = leaf(library)
    exp = library.module.exp
    return lambda k: exp(x)


def total(library: Library) -> clock.Body:
    x = leaf(library)
    return lambda k: x.sum()


def recorded(library: Library) -> clock.Body | None:
    """Forward and backward of a product."""
    if not library.differentiates:
        return None
    x, y, seed = leaf(library, True), leaf(library), leaf(library)

    def body(k: int) -> None:
        (x * y).backward(seed)
        x.grad = None

    return body


CALLS = {
    "x * y": product,
    "exp(x)": exponential,
    "x.sum()": total,
    "x * y, forward and backward": recorded,
}
