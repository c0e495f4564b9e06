from typing import Any

import numpy as np

from plugrad_ops.convolution.layouts import Grid, Layout

Array = np.ndarray[Any, Any]

def instruction_sets() -> tuple[int, int]: ...
def use_instruction_set(number: int) -> None: ...
def correlate(
    images: Array,
    weight: Array,
    bias: Array | None,
    shape: tuple[int, ...],
    layout: Layout,
    grids: list[Grid],
    groups: int,
    adjoint: bool,
) -> Array: ...
def correlate_grad(
    grad: Array,
    images: Array,
    kernel: tuple[int, ...],
    plain: Layout,
    layout: Layout,
    grid: Grid,
    groups: int,
) -> Array: ...
