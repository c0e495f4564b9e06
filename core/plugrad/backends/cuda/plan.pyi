from typing import Any

class Plan:
    function: Any
    grid: int
    block: int
    more: tuple[Any, ...]
    makes: tuple[Any, ...]
    ranges: tuple[tuple[int, int] | None, ...]
    outer: tuple[int, ...]
    def __init__(
        self,
        function: Any,
        grid: int,
        block: int,
        more: tuple[Any, ...],
        makes: Any,
        ranges: Any,
        outer: tuple[int, ...] = (),
    ) -> None: ...

class Shadow:
    """What has ``__array_interface__``."""

def overlaps(array: Any) -> bool: ...

class Caller:
    name: str
    inputs: tuple[str, ...]
    constants: tuple[str, ...]
    several: bool
    decides: bool
    def __init__(self, name: str, inputs: tuple[str, ...], constants: tuple[str, ...]) -> None: ...
    def __call__(
        self,
        *operands: Any,
        out: Any = None,
        shape: tuple[int, ...] | None = None,
        dtype: Any = None,
        **constants: Any,
    ) -> Any: ...
