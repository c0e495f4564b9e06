from typing import Any

import numpy as np

from plugrad.graph.backend import Backend
from plugrad.graph.op import Kernel

class CpuKernel(Kernel): ...
class CpuBackend(Backend): ...

def promoted(
    dtypes: list[np.dtype[Any]], numbers: list[complex], floating: bool = False
) -> np.dtype[Any]: ...
