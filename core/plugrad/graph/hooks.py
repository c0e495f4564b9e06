"""Hooks of a node: what runs when a gradient arrives.

(a) A node without hooks has none of this: the engine tests one pointer.
(b) Order at a node: the tensor hooks of each output as registered, then retained gradients (always last,
    so that they show what the rule gets), then pre-hooks of the node, its rule, its post-hooks.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from types import CellType, FunctionType, MethodType
from typing import Any

_ids = itertools.count()


class RemovableHandle:
    """Returned when a hook is registered; ``remove()`` takes it out again. Also a context manager."""

    def __init__(self, table: dict[int, Callable[..., Any]], key: int) -> None:
        self._table = table
        self._key = key

    def remove(self) -> None:
        """Take the hook out; doing it twice is harmless."""
        self._table.pop(self._key, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


class Hooks:
    """Everything that was hooked onto one node.

    Parameters
    ----------
    sequence_nr : int
        The node's; what a hook refers to and was computed later can close a cycle through the node.
    """

    __slots__ = ("post", "post_accumulate", "pre", "retained", "sequence_nr", "tensor")

    def __init__(self, sequence_nr: int) -> None:
        self.sequence_nr = sequence_nr
        self.tensor: dict[int, dict[int, Callable[..., Any]]] = {}
        self.retained: dict[int, list[Any]] = {}
        self.pre: dict[int, Callable[..., Any]] = {}
        self.post: dict[int, Callable[..., Any]] = {}
        self.post_accumulate: dict[int, Callable[..., Any]] = {}

    def add_tensor_hook(self, nr: int, hook: Callable[..., Any]) -> RemovableHandle:
        return self._add(self.tensor.setdefault(nr, {}), hook)

    def add_pre(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self._add(self.pre, hook)

    def add_post(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self._add(self.post, hook)

    def add_post_accumulate(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self._add(self.post_accumulate, hook)

    def _add(
        self, table: dict[int, Callable[..., Any]], hook: Callable[..., Any]
    ) -> RemovableHandle:
        if not callable(hook):
            raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
        from plugrad.graph.walks import reveal

        for tensor in _tensors_of(hook):
            reveal(tensor, self.sequence_nr)
        key = next(_ids)
        table[key] = hook
        return RemovableHandle(table, key)

    def retain(self, nr: int, tensor_ref: Any) -> None:
        references = self.retained.setdefault(nr, [])
        if all(reference() is not tensor_ref() for reference in references):
            references.append(tensor_ref)

    def retains(self, nr: int, tensor: Any) -> bool:
        return any(reference() is tensor for reference in self.retained.get(nr, ()))

    def forget(self, nr: int, tensor: Any) -> bool:
        """Take a retained tensor out again; whether it was there."""
        references = self.retained.get(nr, [])
        kept = [reference for reference in references if reference() is not tensor]
        self.retained[nr] = kept
        return len(kept) < len(references)

    def for_output(self, nr: int) -> tuple[Callable[..., Any], ...]:
        """The tensor hooks of one output; a copy, since a hook may remove itself."""
        return tuple(self.tensor.get(nr, {}).values())


def _tensors_of(hook: Any) -> Iterator[Any]:
    """Tensors that a hook holds: in its closure, defaults, bound arguments or object, and in containers there."""
    from plugrad.graph.tensor import Tensor

    level = [hook]
    for _ in range(5):
        below: list[Any] = []
        for item in level:
            if isinstance(item, Tensor):
                yield item
            elif isinstance(item, (list, tuple, set, frozenset)):
                below += item
            elif isinstance(item, dict):
                below += item.values()
            elif isinstance(item, CellType):
                with contextlib.suppress(ValueError):  # still empty
                    below.append(item.cell_contents)
            elif isinstance(item, FunctionType):
                below += [*(item.__closure__ or ()), item.__defaults__, item.__kwdefaults__]
            elif isinstance(item, MethodType):
                below += [item.__func__, getattr(item.__self__, "__dict__", None)]
            elif isinstance(item, functools.partial):
                below += [item.func, item.args, item.keywords]
            elif callable(item):
                below.append(getattr(item, "__dict__", None))
        level = below


def attach(node: Any) -> Hooks:
    """The node's hooks, made on first use."""
    from plugrad.graph.engine import hooks_of

    hooks: Hooks = hooks_of(node)
    return hooks
