"""Operators that draw random numbers: pure functions of tensors, constants and a stream.

(a) Callers pass a Generator or nothing. When a call is bound that becomes a `Stream`, so that the function, its rule and
    its kernels get two integers, the node records no more than those, and a rule that is given the same stream has the
    same numbers again. A stream that is passed is used as it is.
(b) The graph knows nothing of this: to it `generator` is a constant without a default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from plugrad.registry.errors import DeclarationError
from plugrad.registry.operator import Operator
from plugrad.registry.parameters import read_parameters
from plugrad.registry.schema import Schema

__all__ = ["GENERATOR", "RandomOperator", "check_random", "check_random_composite"]

GENERATOR = "generator"
"""The name of the constant."""


class RandomOperator(Operator):
    """An operator declared with ``random=True``."""

    def __init__(
        self, name: str, schema: Schema, function: Callable[..., Any], **options: Any
    ) -> None:
        super().__init__(name, schema, function, **options)
        self._place = schema.constants.index(GENERATOR)
        # Without a default the graph binds every call, also one without constants.
        defaults = {key: value for key, value in schema.defaults.items() if key != GENERATOR}
        self._define(replace(schema, defaults=defaults))

    def _bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], tuple[Any, ...]]:
        schema = self.schema
        reach = len(schema.inputs) + self._place
        if GENERATOR not in kwargs and (schema.variadic or len(args) <= reach):
            kwargs = {**kwargs, GENERATOR: None}
        inputs, constants = super()._bind(args, kwargs)
        from plugrad.backends.generators import stream_of  # only a call needs it

        drawn = stream_of(self.name, constants[self._place])
        return inputs, (*constants[: self._place], drawn, *constants[self._place + 1 :])


def check_random(name: str, schema: Schema, random: bool) -> None:
    """Refuse a random operator without a generator, and the reverse.

    Raises
    ------
    DeclarationError
        ``random=True`` and the constant ``generator=None`` do not come together.
    """
    if GENERATOR in schema.inputs:
        raise DeclarationError(
            f"{name}: {GENERATOR!r} is a keyword-only constant, and a tensor here; put it after '*'"
        )
    has = GENERATOR in schema.constants
    if random and (not has or schema.defaults.get(GENERATOR, 0) is not None):
        raise DeclarationError(
            f"{name}: random=True goes with the keyword-only constant generator=None, through which the function "
            "gets its stream of random numbers"
        )
    _refuse_generator(name, has, random)


def check_random_composite(name: str, function: Callable[..., Any], random: bool) -> None:
    """The same for a composite, which passes its generator on."""
    parameters = read_parameters(name, function)
    has = GENERATOR in parameters.keywords or GENERATOR in parameters.positional
    if random and not has:
        raise DeclarationError(
            f"{name}: random=True goes with a parameter generator=None, passed on to the operator that draws"
        )
    _refuse_generator(name, has, random)


def _refuse_generator(name: str, has: bool, random: bool) -> None:
    if has and not random:
        raise DeclarationError(
            f"{name}: {GENERATOR!r} is the constant of operators that draw random numbers; declare random=True, or "
            "choose another name"
        )
