from plugrad.graph.op import Op
from plugrad.graph.tensor import Tensor

class Transfer(Op):
    """The producer of a tensor that came from another device."""

    def __init__(self) -> None: ...

def transfer(tensor: Tensor, device: str) -> Tensor: ...
