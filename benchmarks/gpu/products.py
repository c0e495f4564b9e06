"""Matrix products: floating operations per second, next to PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median
from typing import Any

import clock
import numpy as np
from bandwidth import Copy, make_sets
from libraries import Library
from report import Row
from settings import Settings

# name, dtype, whether TF32 is allowed
MODES = (("float32", "float32", False), ("TF32", "float32", True), ("half", "float16", False))


def measure(libraries: list[Library], settings: Settings, cache: int) -> Iterator[Row]:
    ahead = Copy(make_sets(settings, "float32", 0)).ahead
    for mode, dtype, tf32 in MODES:
        for library in libraries:
            library.allow_tf32(tf32)
        try:
            for stack, n in settings.products:
                bodies = {
                    library.name: _body(library, dtype, stack, n, cache) for library in libraries
                }
                timing = clock.on_device(bodies, settings, 2, ahead)
                work = 2 * stack * n**3
                figures = {name: work / median(s) / 1e12 for name, s in timing.seconds.items()}
                shape = f"{n}x{n}" if stack == 1 else f"{stack} of {n}x{n}"
                ratio = timing.ratio("plugrad", "torch")
                yield Row("matmul", f"product {shape}, {mode}", "TFLOP/s", figures, ratio)
        finally:
            for library in libraries:
                library.allow_tf32(False)


def _body(library: Library, dtype: str, stack: int, n: int, cache: int) -> clock.Body:
    rng = np.random.default_rng()
    shape = (n, n) if stack == 1 else (stack, n, n)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    sets = min(64, max(2, math.ceil(4 * cache / (2 * size))))

    def array() -> Any:
        return library.array(rng.standard_normal(shape, np.float32).astype(dtype))

    pairs = [(array(), array()) for _ in range(sets)]

    def body(k: int) -> Any:
        a, b = pairs[k % sets]
        return a @ b

    return body
