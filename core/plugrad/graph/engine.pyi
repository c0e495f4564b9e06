from collections.abc import Sequence

from plugrad.graph.hooks import Hooks
from plugrad.graph.node import Node
from plugrad.graph.run import Run
from plugrad.graph.tensor import Tensor

def backward(
    tensors: Tensor | Sequence[Tensor],
    gradients: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None: ...
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
def running() -> bool: ...
def current_run() -> Run | None: ...
def hooks_of(node: Node) -> Hooks: ...
