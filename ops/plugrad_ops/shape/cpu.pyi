from collections.abc import Callable
from typing import Any

import numpy as np

from plugrad.graph.op import Kernel

class Expand(Kernel): ...

expand: Expand

class Triangle(Kernel):
    def __init__(self, reference: Callable[..., Any], upper: bool) -> None: ...

def triangle(
    array: np.ndarray[Any, Any], upper: bool, diagonal: int = 0
) -> np.ndarray[Any, Any]: ...
def expanded(array: np.ndarray[Any, Any], size: tuple[int, ...]) -> np.ndarray[Any, Any]: ...
