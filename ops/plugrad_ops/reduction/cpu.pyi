from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

def linear_scan(factor: Array, term: Array, axis: int) -> Array: ...
def running_extreme(input: Array, axis: int, greatest: bool) -> tuple[Array, Array]: ...
