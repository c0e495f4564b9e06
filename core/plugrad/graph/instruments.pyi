from collections.abc import Callable
from typing import Any, Self

from plugrad.graph.op import Op

class Packed:
    """A saved value that a hook replaced, and the hook that brings it back."""

    def __init__(self, content: Any, unpack: Callable[[Any], Any]) -> None: ...

class observe:
    """Call ``callback(op)`` for every operator called in this process inside a ``with`` block."""

    def __init__(self, callback: Callable[[Op], object]) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...

def install(kind: str, instrument: Any) -> None: ...
