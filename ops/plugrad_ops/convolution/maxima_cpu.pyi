from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

def maxima_over(
    images: Array,
    spans: list[Array],
    size: tuple[int, ...],
    step: tuple[int, ...],
    even: tuple[int, ...],
    shape: tuple[int, ...],
) -> tuple[Array, Array]: ...
def add_at_maxima(grad: Array, indices: Array, shape: tuple[int, ...], count: int) -> Array: ...
