from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

def finite(array: Array) -> bool: ...
def moderate(array: Array) -> bool: ...
