"""What is alive: counts that leak tests and curious users compare."""

from __future__ import annotations

import gc
from typing import NamedTuple

from plugrad.graph.node import Node, live_nodes
from plugrad.graph.tensor import Tensor


class GraphStats(NamedTuple):
    """What exists in this process at one moment.

    Attributes
    ----------
    nodes : int
        Recorded calls, and leaves of tensors that require grad.
    tensors : int
        Tensors.
    saved_bytes : int
        Memory that operators keep for backward, in graphs that some tensor leads to; shared memory counts once.
    """

    nodes: int
    tensors: int
    saved_bytes: int


def graph_stats() -> GraphStats:
    """Count the nodes, tensors and saved bytes that are alive.

    Nodes are counted as they come and go. Tensors are found through the garbage collector, and saved values by walking
    their graphs, which takes time in proportion to what is alive: nothing is spent on it while computing.

    Returns
    -------
    GraphStats

    Examples
    --------
    >>> import plugrad
    >>> before = plugrad.graph_stats().nodes
    >>> y = plugrad.ones(3, requires_grad=True) * 2
    >>> plugrad.graph_stats().nodes - before
    2
    """
    tensors = [item for item in gc.get_objects() if issubclass(type(item), Tensor)]
    return GraphStats(live_nodes(), len(tensors), _saved_bytes(tensors))


def _saved_bytes(tensors: list[Tensor]) -> int:
    sizes: dict[int, int] = {}
    seen: set[int] = set()
    stack: list[Node | None] = []
    for tensor in tensors:
        # What a view leads to may have changed with its base, and asking could be an error or make nodes.
        if tensor._base is None:
            stack.append(tensor.grad_fn)
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        for value in node.saved:
            memory = getattr(value, "base", None)
            owner = value if memory is None else memory
            sizes[id(owner)] = getattr(owner, "nbytes", 0)
        stack += [edge for edge, _ in node.next_functions]
    return sum(sizes.values())
