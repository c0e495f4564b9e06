from collections.abc import Callable
from typing import Any

from plugrad.graph.op import Op
from plugrad.graph.tensor import Tensor

class CopySlices(Op):
    """The producer of a tensor part of which was overwritten."""

    def __init__(self) -> None: ...

class InPlace:
    """The in-place form of an operator: a callable whose first argument is written."""

    target: Callable[..., Any]
    name: str

    def __init__(self, target: Callable[..., Any]) -> None: ...
    def __call__(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor: ...

def copy_(target: Tensor, source: Tensor) -> Tensor: ...
def fill_(target: Tensor, value: Tensor | complex) -> Tensor: ...
def detach_(target: Tensor) -> Tensor: ...
