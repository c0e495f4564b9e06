from typing import Any

import numpy as np

from plugrad.graph.op import Kernel

Array = np.ndarray[Any, Any]

class NormalizeBatch(Kernel): ...

def normalize_batch_gradients(
    grads: tuple[Array, Array, Array],
    input: Array,
    weight: Array | None,
    mean: Array,
    var: Array,
    needs: Any,
    eps: float,
) -> tuple[Array | None, Array | None, Array | None]: ...
