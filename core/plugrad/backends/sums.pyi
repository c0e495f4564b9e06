from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

def add_reduce(
    array: Array,
    axis: int | tuple[int, ...] | None = None,
    dtype: np.dtype[Any] | None = None,
    keepdims: bool = False,
) -> Array: ...
