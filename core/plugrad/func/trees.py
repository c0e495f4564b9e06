"""Trees: Tensors, and lists, tuples, named tuples and dictionaries of trees; None is an empty tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from plugrad.graph.tensor import Tensor

__all__ = ["flatten", "map_leaves", "rebuild"]


def flatten(tree: Any, where: str) -> list[Tensor]:
    """The Tensors of a tree, in order.

    Parameters
    ----------
    tree : tree
    where : str
        What it is, for the error.

    Raises
    ------
    TypeError
        Something in it is neither a Tensor nor a container.
    """
    return list(_leaves(tree, where))


def _leaves(tree: Any, where: str) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for i, item in enumerate(tree):
            yield from _leaves(item, f"{where}[{i}]")
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from _leaves(item, f"{where}[{key!r}]")
    elif tree is not None:
        raise TypeError(
            f"{where} must be a Tensor, or a list, tuple or dict of Tensors, got {type(tree).__name__}"
        )


def map_leaves(function: Callable[[Tensor], Any], tree: Any) -> Any:
    """A tree of the same form with `function` applied to each Tensor; what is none stays."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(function, item) for item in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_leaves(function, item) for item in tree)
    if isinstance(tree, dict):
        return {key: map_leaves(function, item) for key, item in tree.items()}
    return tree


def rebuild(tree: Any, leaves: list[Any]) -> Any:
    """A tree of the same form with other leaves, in the order of `flatten`."""
    left = iter(leaves)
    return map_leaves(lambda _: next(left), tree)


def same_form(tree: Any, other: Any) -> bool:
    """Whether two trees differ at most in their leaves."""
    if isinstance(tree, Tensor) or isinstance(other, Tensor):
        return isinstance(tree, Tensor) and isinstance(other, Tensor)
    if isinstance(tree, dict) and isinstance(other, dict):
        return list(tree) == list(other) and all(same_form(tree[k], other[k]) for k in tree)
    if isinstance(tree, (list, tuple)) and isinstance(other, (list, tuple)):
        return (
            type(tree) is type(other)
            and len(tree) == len(other)
            and all(map(same_form, tree, other))
        )
    return tree is None and other is None
