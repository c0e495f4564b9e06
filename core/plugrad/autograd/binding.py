"""The arguments of ``Function.apply``: bound by name, and checked for tensors whose gradient would be lost."""

from __future__ import annotations

import inspect
from typing import Any

from plugrad.autograd.intermediates import tensors_in
from plugrad.graph.tensor import Tensor


def bound(
    function: Any, with_ctx: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments given by name in the places where forward has them; keyword-only ones stay apart.

    Parameters
    ----------
    function : Function subclass
    with_ctx : bool
        Whether the first parameter of forward is the ctx.
    args, kwargs
        As ``apply`` got them.

    Raises
    ------
    TypeError
        An argument is missing before one that was given by name, or was given twice.
    """
    name = function.__name__
    parameters = list(inspect.signature(function.forward).parameters.values())[with_ctx:]
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    found, rest = list(args), dict(kwargs)
    for parameter in positional[: len(args)]:
        if parameter.name in rest:
            raise TypeError(f"{name}.apply got the argument {parameter.name!r} twice")
    for i in range(len(args), len(positional)):
        if not any(p.name in rest for p in positional[i:]):
            break
        parameter = positional[i]
        if parameter.name in rest:
            found.append(rest.pop(parameter.name))
        elif parameter.default is not parameter.empty:
            found.append(parameter.default)
        else:
            raise TypeError(f"{name}.apply: missing argument {parameter.name!r}")
    return tuple(found), rest


def check_reachable(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse tensors that want a gradient where backward cannot return one."""
    for arg in args:
        if not isinstance(arg, Tensor) and any(t.requires_grad for t in tensors_in(arg)):
            raise TypeError(
                f"{name}.apply got a tensor that requires grad inside a {type(arg).__name__}, where no gradient can "
                "be returned for it; pass it as an argument of its own"
            )
    for keyword, arg in kwargs.items():
        if any(t.requires_grad for t in tensors_in(arg)):
            raise TypeError(
                f"{name}.apply got a tensor that requires grad as the keyword-only argument {keyword!r}, for which "
                "no gradient can be returned; make it a positional parameter of forward"
            )


def check_dirty(
    name: str, dirty: tuple[Tensor, ...], inputs: set[int], outputs: list[Tensor]
) -> None:
    """Refuse tensors marked dirty that are no arguments (`inputs`: their ids) or were not returned."""
    for tensor in dirty:
        if id(tensor) not in inputs:
            raise RuntimeError(
                f"{name}: a tensor marked dirty must be an argument of forward; one of shape {tensor.shape} is not"
            )
        if all(output is not tensor for output in outputs):
            raise RuntimeError(
                f"{name}: a dirty input must be an output: forward changed an argument of shape {tensor.shape} "
                "in place and has to return it"
            )
