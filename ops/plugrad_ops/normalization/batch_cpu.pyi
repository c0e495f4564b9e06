from typing import Any

import numpy as np

from plugrad.graph.op import Kernel

Array = np.ndarray[Any, Any]

class NormalizeBatch(Kernel): ...
class NormalizeWith(Kernel): ...

def normalize_batch_gradients(
    grads: tuple[Array, Array, Array],
    input: Array,
    weight: Array | None,
    mean: Array,
    var: Array,
    needs: Any,
    eps: float,
) -> tuple[Array | None, Array | None, Array | None]: ...
def normalize_with_gradients(
    grad: Array,
    input: Array,
    mean: Array | float,
    var: Array | float,
    weight: Array | float,
    eps: float,
    needs: Any,
) -> tuple[Array | None, ...] | None: ...
