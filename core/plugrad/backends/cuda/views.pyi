from collections.abc import Callable
from typing import Any

import numpy as np

class Ghost(np.ndarray[Any, Any]):
    """Gives a view where NumPy would read the one element that an index names."""

def seen_by(
    function: Callable[..., Any], array: Any, args: tuple[Any, ...], constants: dict[str, Any]
) -> Any: ...
