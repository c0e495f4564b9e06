from typing import Any

import numpy as np

from plugrad.graph.op import Kernel

class CrossEntropy(Kernel): ...

def cross_entropy_gradient(
    grad: np.ndarray[Any, Any],
    input: np.ndarray[Any, Any],
    target: np.ndarray[Any, Any],
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> np.ndarray[Any, Any] | None: ...
