from typing import Any

import numpy as np

Arrays = np.ndarray[Any, Any]

def sgd(
    lists: tuple[list[Arrays], ...],
    rate: float,
    momentum: float,
    fresh: float,
    decay: float,
    nesterov: bool,
    maximize: bool,
) -> list[tuple[Arrays, ...]]: ...
def adam(
    lists: tuple[list[Arrays], ...],
    rate: float,
    root: float,
    eps: float,
    betas: tuple[float, float],
    decay: float,
    shrink: float,
    maximize: bool,
) -> list[tuple[Arrays, ...]]: ...
