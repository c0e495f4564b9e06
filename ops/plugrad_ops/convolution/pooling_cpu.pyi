from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

def maxima_over(
    images: Array,
    values: Array,
    indices: Array,
    spans: list[Array],
    size: tuple[int, ...],
    out: tuple[int, ...],
    step: tuple[int, ...],
) -> None: ...
def add_at_maxima(grad: Array, indices: Array, out: Array, count: int) -> None: ...
def map_along(
    source: Array, out: Array, offsets: Array, taps: Array, weights: Array, divisors: Array
) -> None: ...
