"""The parameters of a function: what declarations, rules, samples and surrogates are read from.

A plain function is read through its code object: `inspect.signature` takes ten times as long, and
some hundreds of functions are read when the standard operators are loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from plugrad.registry.errors import DeclarationError

__all__ = ["Parameters", "read_parameters"]


class Parameters(NamedTuple):
    """The parameters of a function, sorted by how they are passed."""

    positional: tuple[str, ...]
    defaults: tuple[Any, ...]  # of the last positional ones
    variadic: str | None
    keywords: tuple[str, ...]
    keyword_defaults: Mapping[str, Any]
    any_keyword: str | None

    def refuses(self, positional: int, keywords: Collection[str]) -> str | None:
        """Why a call with so many positional arguments and these keywords fails, or None."""
        if positional > len(self.positional) and self.variadic is None:
            return f"it takes {len(self.positional)} positional arguments"
        rest = self.positional[positional:]
        if self.any_keyword is None:
            for name in keywords:
                if name not in rest and name not in self.keywords:
                    return f"it does not take {name!r}"
        required = [
            *self.positional[positional : len(self.positional) - len(self.defaults)],
            *(name for name in self.keywords if name not in self.keyword_defaults),
        ]
        for name in required:
            if name not in keywords:
                return f"it also requires {name!r}"
        return None


def read_parameters(name: str, function: Callable[..., Any]) -> Parameters:
    """The parameters of `function`; `name` is the operator's, for the error.

    Raises
    ------
    DeclarationError
        It is not callable, or has no signature that can be read.
    """
    if type(function) is FunctionType and not function.__dict__:
        code = function.__code__
        names, n = code.co_varnames, code.co_argcount
        end = n + code.co_kwonlyargcount
        variadic = bool(code.co_flags & inspect.CO_VARARGS)
        return Parameters(
            names[:n],
            function.__defaults__ or (),
            names[end] if variadic else None,
            names[n:end],
            function.__kwdefaults__ or {},
            names[end + variadic] if code.co_flags & inspect.CO_VARKEYWORDS else None,
        )
    if not callable(function):
        raise DeclarationError(f"{name}: expected a function, got {function!r}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise DeclarationError(
            f"{name}: the signature of {function!r} cannot be read; wrap it in a function with named parameters"
        ) from None
    empty = inspect.Parameter.empty
    by_kind: dict[Any, list[inspect.Parameter]] = {kind: [] for kind in inspect._ParameterKind}
    for parameter in parameters:
        by_kind[parameter.kind].append(parameter)
    positional = by_kind[inspect.Parameter.POSITIONAL_ONLY]
    positional += by_kind[inspect.Parameter.POSITIONAL_OR_KEYWORD]
    keywords = by_kind[inspect.Parameter.KEYWORD_ONLY]
    variadics = by_kind[inspect.Parameter.VAR_POSITIONAL]
    any_keywords = by_kind[inspect.Parameter.VAR_KEYWORD]
    return Parameters(
        tuple(p.name for p in positional),
        tuple(p.default for p in positional if p.default is not empty),
        variadics[0].name if variadics else None,
        tuple(p.name for p in keywords),
        {p.name: p.default for p in keywords if p.default is not empty},
        any_keywords[0].name if any_keywords else None,
    )
