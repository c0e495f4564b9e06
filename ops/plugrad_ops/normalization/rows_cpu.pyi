from typing import Any

import numpy as np

from plugrad.graph.op import Kernel

Array = np.ndarray[Any, Any]

class NormalizeRows(Kernel): ...

def normalize_rows_gradients(
    grad: Array,
    input: Array,
    weight: Array | None,
    shape: tuple[int, ...] | None,
    needs: Any,
    length: int,
    groups: int,
    eps: float,
    centered: bool,
) -> tuple[Array | None, Array | None, Array | None] | None: ...
