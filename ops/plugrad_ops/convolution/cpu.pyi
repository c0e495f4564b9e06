from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

def columns_of(
    images: Array,
    columns: Array,
    table: Array,
    channels: int,
    image_step: int,
    tap_step: int,
    first: int,
    last: int,
) -> None: ...
def add_columns(
    images: Array,
    columns: Array,
    table: Array,
    channels: int,
    image_step: int,
    tap_step: int,
    first: int,
    last: int,
) -> None: ...
