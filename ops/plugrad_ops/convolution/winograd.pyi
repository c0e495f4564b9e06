from typing import Any

import numpy as np

from plugrad_ops.convolution.layouts import Layout

Array = np.ndarray[Any, Any]

def convolve(
    images: Array,
    weight: Array,
    bias: Array | None,
    shape: tuple[int, ...],
    layout: Layout,
    groups: int,
    adjoint: bool,
) -> Array: ...
