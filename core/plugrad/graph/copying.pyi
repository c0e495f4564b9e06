from typing import Any

from plugrad.graph.tensor import Tensor

def shallow(tensor: Tensor) -> Tensor: ...
def deep(tensor: Tensor, memo: dict[int, Any]) -> Tensor: ...
def reduced(tensor: Tensor) -> tuple[Any, ...]: ...
def rebuilt(
    kind: type[Tensor],
    array: Any,
    device: str,
    requires_grad: bool,
    grad: Tensor | None,
    attributes: dict[str, Any] | None,
) -> Tensor: ...
