from typing import Any

import numpy as np

def in_c_order(array: np.ndarray, dtype: Any = None) -> np.ndarray: ...
