from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

def map_along(
    source: Array, offsets: Array, taps: Array, weights: Array | None, divisors: Array
) -> Array: ...
