from collections.abc import Callable
from typing import Any

from plugrad.graph.node import Node

class Run:
    """One backward pass."""

    @property
    def id(self) -> int: ...
    @property
    def notes(self) -> dict[Any, Any]: ...
    def will_visit(self, node: Node) -> bool: ...
    def when_done(self, callback: Callable[[], object]) -> None: ...
