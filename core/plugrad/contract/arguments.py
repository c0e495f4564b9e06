"""How functions that are declared beside an operator are called: its reference, surrogate, kinks and infer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["as_declared", "left_out"]


def as_declared(
    schema: Any, args: list[Any], constants: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of an operator's call, tensors by position and all constants by keyword."""
    fixed = len(schema.inputs) - int(schema.variadic)
    tensors, rest = args[:fixed], args[fixed:]
    for name in schema.inputs[len(tensors) : fixed]:
        tensors.append(constants.pop(name, None))
    if schema.variadic:
        if rest and isinstance(rest[0], list):
            tensors += rest.pop(0)
        else:
            tensors += [value for value in rest if value is not None]
            rest = []
    given = dict(zip((n for n in schema.constants if n not in constants), rest))
    return tensors, {**schema.defaults, **constants, **given}


def left_out(
    op: Any, function: Callable[..., Any], given: int, constants: dict[str, Any]
) -> dict[str, Any]:
    """Defaults of a composite's parameters that the call leaves out and `function` takes."""
    try:
        theirs = inspect.signature(getattr(op, "function", op)).parameters
        ours = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {
        name: parameter.default
        for name, parameter in list(theirs.items())[given:]
        if parameter.default is not parameter.empty and name not in constants and name in ours
    }
