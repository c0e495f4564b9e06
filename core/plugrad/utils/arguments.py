"""Arguments of a call that will be made again: their tensors are kept outside the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plugrad.autograd.saved import KeptTensor
from plugrad.graph.tensor import Tensor


class _Argument:
    """A tensor among the arguments."""

    __slots__ = ("requires_grad", "value")

    def __init__(self, tensor: Tensor) -> None:
        self.value = KeptTensor(tensor)
        self.requires_grad = tensor.requires_grad


def kept(value: Any) -> Any:
    """The arguments with each tensor, also in lists, tuples and dicts, replaced by what keeps its value."""
    if isinstance(value, Tensor):
        return _Argument(value)
    if type(value) in (list, tuple):
        return type(value)(kept(item) for item in value)
    if type(value) is dict:
        return {key: kept(item) for key, item in value.items()}
    return value


def restored(value: Any, owner: str) -> Any:
    """The arguments again, their tensors as leaves. `owner` is the function they are for, named in errors."""
    if isinstance(value, _Argument):
        tensor = value.value.get(f"checkpoint (an argument of {owner})")
        return tensor.requires_grad_() if value.requires_grad else tensor
    if type(value) in (list, tuple):
        return type(value)(restored(item, owner) for item in value)
    if type(value) is dict:
        return {key: restored(item, owner) for key, item in value.items()}
    return value


def shared_arrays(value: Any) -> Iterator[Any]:
    """The arrays of kept arguments that no hook has replaced: they live as long as what is kept."""
    if isinstance(value, _Argument):
        array = value.value.shared_array
        if array is not None:
            yield array
    elif type(value) in (list, tuple):
        for item in value:
            yield from shared_arrays(item)
    elif type(value) is dict:
        yield from shared_arrays(tuple(value.values()))


def leaves(value: Any) -> Iterator[Any]:
    """All that lies in nested lists, tuples and dicts."""
    if type(value) in (list, tuple):
        for item in value:
            yield from leaves(item)
    elif type(value) is dict:
        yield from leaves(tuple(value.values()))
    else:
        yield value
