"""What transforms know of their surroundings: whether anything outside may ask for a derivative of what they return.

(a) Inside another transform, or in a level of forward mode, something does: derivatives are then recorded.
(b) Elsewhere a result keeps its graph only if the graph leads to a tensor that requires grad and that the
    transforms did not make themselves: a weight that the function closes over, for instance. A leaf whose
    tensor is gone can give nobody a gradient and does not count.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from plugrad.func.trees import flatten
from plugrad.graph import duals
from plugrad.graph.node import Leaf, Node
from plugrad.graph.tensor import Tensor

Function = Callable[..., Any]
Argnums = int | Sequence[int]


class _Depth(threading.local):
    value = 0


_depth = _Depth()


@contextmanager
def transform() -> Iterator[bool]:
    """A transform at work; gives whether it is inside another one."""
    outer = nested()
    _depth.value += 1
    try:
        yield outer
    finally:
        _depth.value -= 1


def nested() -> bool:
    """Whether a transform or a level of forward mode is at work on this thread."""
    return _depth.value > 0 or bool(duals.stack())


def leads_outside(tensors: Iterable[Tensor], own: Iterable[Tensor]) -> bool:
    """Whether the graph of some tensor reaches a leaf that is not among `own`."""
    known = {id(tensor) for tensor in own}
    stack: list[Node | None] = []
    for tensor in tensors:
        if tensor.is_leaf:
            if tensor.requires_grad and id(tensor) not in known:
                return True
        else:
            stack.append(tensor.grad_fn)
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Leaf):
            variable = node.variable
            if variable is not None and id(variable) not in known:
                return True
            continue
        stack.extend(edge for edge, _ in node.next_functions)
    return False


# ---- arguments ---------------------------------------------------------------------------------


def chosen(name: str, args: tuple[Any, ...], argnums: Argnums) -> list[int]:
    """The positions that `argnums` names, none negative.

    Raises
    ------
    ValueError
        There is no argument at one of them, or one is named twice.
    TypeError
        It is neither an integer nor a sequence of integers.
    """
    given = [argnums] if isinstance(argnums, int) else list(argnums)
    if not all(isinstance(i, int) for i in given):
        raise TypeError(f"{name}(): argnums is an int or a tuple of ints, got {argnums!r}")
    found = [i + len(args) if i < 0 else i for i in given]
    if not found or len(set(found)) != len(found) or not all(0 <= i < len(args) for i in found):
        raise ValueError(
            f"{name}(): argnums={argnums!r} must name different ones of the {len(args)} positional arguments"
        )
    return found


def result_of(name: str, found: Any, has_aux: bool) -> tuple[Any, Any]:
    """What a function returned as (result, aux).

    Raises
    ------
    TypeError
        With `has_aux`, it is no pair; or the result is no tree of Tensors.
    """
    aux = None
    if has_aux:
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(
                f"{name}(): with has_aux=True the function returns a pair (result, aux), got {type(found).__name__}"
            )
        found, aux = found
    flatten(found, f"{name}(): the function's result")
    return found, aux
