from typing import Any

import numpy as np

def exchange(
    pivots: np.ndarray[Any, Any], order: np.ndarray[Any, Any], start: int, inverse: bool
) -> None: ...
def substitute(
    matrix: np.ndarray[Any, Any], right: np.ndarray[Any, Any], upper: bool, unit: bool
) -> None: ...
def eliminate(
    matrix: np.ndarray[Any, Any], pivots: np.ndarray[Any, Any], info: np.ndarray[Any, Any]
) -> None: ...
