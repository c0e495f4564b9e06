"""How `plugrad.autograd.functional` reads its arguments, checks what functions return, and packs results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from plugrad.autograd.jacobians import bare, fresh, zeros_for
from plugrad.graph import duals, roles
from plugrad.graph.grad_mode import enable_grad
from plugrad.graph.tensor import Tensor

Function = Callable[..., Any]
Inputs = Tensor | Sequence[Tensor]


def tensors_of(name: str, given: Any, what: str) -> tuple[bool, list[Tensor]]:
    """Whether a value is a single Tensor, and it or its items in a list."""
    single = not isinstance(given, tuple | list)
    items = [given] if single else list(given)
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"{name}(): {what} must be a Tensor or a tuple of Tensors, got {type(item).__name__}"
                + ("" if single else f" at position {i}")
            )
    return single, items


def own_inputs(name: str, inputs: Any, create_graph: bool) -> tuple[bool, list[Tensor]]:
    single, items = tensors_of(name, inputs, "inputs")
    return single, [fresh(x, create_graph) for x in items]


def outputs_of(
    name: str, func: Function, xs: list[Tensor], strict: bool
) -> tuple[bool, list[Tensor]]:
    with enable_grad():
        single, outs = tensors_of(name, func(*xs), "the result of func")
    for i, out in enumerate(outs):
        if strict and not out.requires_grad:
            raise RuntimeError(
                f"{name}(): output {i} is independent of the inputs, which strict=True refuses"
            )
    return single, outs


def scalar(name: str, single: bool, outs: list[Tensor]) -> list[Tensor]:
    if not single or outs[0].numel() != 1:
        got = f"shape {outs[0].shape}" if single else f"a tuple of {len(outs)}"
        raise RuntimeError(f"{name}(): func must return one Tensor with one element, got {got}")
    return outs


def vector_for(name: str, v: Any, like: list[Tensor], what: str) -> list[Tensor]:
    """The vector of a product, checked against the tensors it belongs to."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"{name}(): v can only be left out for one {what} with one element, got "
                f"{', '.join(f'shape {t.shape}' for t in like)}"
            )
        return [zeros_for(like[0]) + 1]
    _, items = tensors_of(name, v, "v")
    if len(items) != len(like):
        raise RuntimeError(f"{name}(): v has {len(items)} tensors, there are {len(like)} {what}s")
    for i, (item, t) in enumerate(zip(items, like)):
        if item.shape != t.shape:
            raise RuntimeError(
                f"{name}(): v has shape {item.shape} for {what} {i}, which has shape {t.shape}"
            )
        if item.device != t.device:
            raise RuntimeError(
                f"{name}(): v is on device {item.device!r} for {what} {i}, which is on {t.device!r}"
            )
    return [
        item if item.dtype == t.dtype else roles.call("cast", item, dtype=t.dtype)
        for item, t in zip(items, like)
    ]


def dual_inputs(level: duals.Level, xs: list[Tensor], vector: list[Tensor]) -> list[Tensor]:
    """Copies of the inputs that carry the vector as their tangents."""
    moved = []
    for x, tangent in zip(xs, vector):
        with enable_grad(), duals.below(level):
            dual = roles.call("copy", x)
        duals.attach(dual, level, tangent)
        moved.append(dual)
    return moved


def filled(
    name: str, found: list[Any], xs: list[Tensor], strict: bool, create_graph: bool
) -> list[Tensor]:
    """Zeros for what is None, or with `strict` an error, for what has no graph too if one was asked for."""
    for i, item in enumerate(found):
        if strict and item is None:
            raise RuntimeError(
                f"{name}(): the function or its derivative is independent of input {i}, which strict=True refuses"
            )
        if strict and create_graph and not item.requires_grad:
            raise RuntimeError(
                f"{name}(): the derivative by input {i} is independent of the inputs, which strict=True refuses "
                "where it is differentiated"
            )
    return [zeros_for(x) if item is None else item for item, x in zip(found, xs)]


def packed(items: Sequence[Tensor], single: bool, create_graph: bool) -> Any:
    """The results, without a graph unless one was asked for."""
    if not create_graph:
        items = [bare(item) if item.requires_grad else item for item in items]
    return items[0] if single else tuple(items)
