from typing import Any

from plugrad.graph.node import Node
from plugrad.graph.op import Op
from plugrad.graph.tensor import Tensor

class CustomOp(Op):
    """The Op of one Function class."""

    def record(
        self,
        inputs: list[Any],
        outs: list[Tensor],
        nondifferentiable: tuple[int, ...],
        state: Any,
    ) -> Node: ...

def alias(tensor: Tensor) -> Tensor: ...
def place(tensor: Tensor, node: Node, nr: int) -> Tensor: ...
