from typing import Any

from plugrad.graph.node import Node

def sealed(name: str, node: Node, result: Any, why: str | None = None) -> Any: ...
