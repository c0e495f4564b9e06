from typing import Any

import numpy as np

from plugrad.graph.op import Kernel

class Expand(Kernel): ...

expand: Expand

def expanded(array: np.ndarray[Any, Any], size: tuple[int, ...]) -> np.ndarray[Any, Any]: ...
