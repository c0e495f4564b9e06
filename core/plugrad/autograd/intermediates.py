"""What the forward of a Function computed on the way and kept for its backward.

Such a tensor is neither an argument nor an output. It was computed outside the graph, so differentiating a backward that
uses it would silently leave out how it depends on the arguments. While a backward is recorded, it is therefore shown with
a place in the graph that raises as soon as a gradient arrives there. Nothing is in the way of a first derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from plugrad.backends.dtypes import kind
from plugrad.graph.rule import sealed
from plugrad.graph.tensor import Tensor


def tensors_in(value: Any) -> Iterable[Tensor]:
    """The Tensors of a value, also in lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def is_intermediate(tensor: Tensor, known: set[int]) -> bool:
    """Whether a kept tensor's own derivative would be lost; `known` holds the ids of those that are fine."""
    return id(tensor) not in known and kind(tensor.dtype) in "fc" and not tensor.requires_grad


class Intermediates:
    """The attributes of one ctx that hold intermediates, and how they are shown."""

    __slots__ = ("_known", "_values")

    def __init__(self, attributes: dict[str, Any], known: set[int]) -> None:
        """Take what holds intermediates out of `attributes`."""
        names = [
            name
            for name, value in attributes.items()
            if any(is_intermediate(tensor, known) for tensor in tensors_in(value))
        ]
        self._values = {name: attributes.pop(name) for name in names}
        self._known = {
            id(tensor) for tensor in tensors_in(self._values) if not is_intermediate(tensor, known)
        }

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str) -> Any:
        """The attribute as it is."""
        return self._values[name]

    def remove(self, name: str) -> None:
        """Forget an attribute."""
        del self._values[name]

    def shown(self, name: str, node: Any, function: str) -> Any:
        """The attribute for a backward that is recorded."""

        def show(value: Any) -> Any:
            if isinstance(value, Tensor):
                if not is_intermediate(value, self._known):
                    return value
                return barrier(value, node, function, f"ctx.{name}")
            return _mapped(show, value)

        return show(self._values[name])


def barrier(tensor: Tensor, node: Any, function: str, where: str) -> Tensor:
    """The tensor in a place of the graph that raises when it is differentiated."""
    found: Tensor = sealed(
        function,
        node,
        tensor,
        f"the backward of {function} was differentiated, and it uses {where} (shape {tensor.shape}, {tensor.dtype}), "
        "an intermediate that forward computed outside the graph: its part of the derivative would be left out. "
        "Save arguments and outputs and compute it from them in backward, return it as another output, or, if it "
        "depends on no argument, say so with ctx.mark_constant()",
    )
    return found


def _mapped(show: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(show, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(show, value))
    if isinstance(value, dict):
        return {key: show(item) for key, item in value.items()}
    return value
