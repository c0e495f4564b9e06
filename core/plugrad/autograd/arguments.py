"""The arguments of a Function: which come by name, which may carry a gradient, and which forward changes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from plugrad.autograd.intermediates import tensors_in
from plugrad.graph.tensor import Tensor


def bound(
    cls: Any, takes_ctx: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments given by name in their positions; only keyword-only ones stay apart.

    Raises
    ------
    TypeError
        An argument is missing, or given twice.
    """
    parameters = list(inspect.signature(cls.forward).parameters.values())[int(takes_ctx) :]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    left, found = dict(kwargs), list(args)
    for p in positional[: len(args)]:
        if p.kind is p.POSITIONAL_OR_KEYWORD and p.name in left:
            raise TypeError(f"{cls.__name__}.apply() got the argument {p.name!r} twice")
    rest = positional[len(args) :]
    last = max((i for i, p in enumerate(rest) if p.name in left), default=-1)
    for p in rest[: last + 1]:
        if p.name in left:
            found.append(left.pop(p.name))
        elif p.default is not p.empty:
            found.append(p.default)
        else:
            raise TypeError(f"{cls.__name__}.apply() is missing argument {p.name!r}")
    for p in rest[last + 1 :]:
        if p.default is p.empty:
            raise TypeError(f"{cls.__name__}.apply() is missing argument {p.name!r}")
    return tuple(found), left


def check_reachable(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse tensors that require grad where no gradient can be returned for them.

    Raises
    ------
    TypeError
        One lies inside a list, tuple or dict, or is a keyword-only argument.
    """
    for i, arg in enumerate(args):
        if not isinstance(arg, Tensor) and any(t.requires_grad for t in tensors_in(arg)):
            raise TypeError(
                f"{name}.apply(): argument {i} holds a tensor that requires grad inside a {type(arg).__name__}, where "
                "backward cannot return a gradient for it; pass it as an argument of its own, or detach() it"
            )
    for key, value in kwargs.items():
        if any(t.requires_grad for t in tensors_in(value)):
            raise TypeError(
                f"{name}.apply(): the keyword-only argument {key!r} requires grad, but backward returns gradients for "
                "positional arguments only; make it positional, or detach() it"
            )


def check_dirty(
    name: str, dirty: Iterable[Tensor], inputs: set[int], outputs: Iterable[Tensor]
) -> None:
    """Refuse dirty tensors that are no argument, or no output.

    Raises
    ------
    RuntimeError
        As said.
    """
    for tensor in dirty:
        if id(tensor) not in inputs:
            raise RuntimeError(
                f"{name}: a tensor marked dirty must be an argument, got one of shape {tensor.shape} that is not"
            )
        if not any(tensor is output for output in outputs):
            raise RuntimeError(
                f"{name}: a dirty input must be an output, too (shape {tensor.shape}): return it from forward"
            )
