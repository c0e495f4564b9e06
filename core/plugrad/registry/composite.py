"""Composites: registered functions of Tensors, differentiated through what they call."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from plugrad.graph.op import NUMPY_NAMES, READY, UNVERIFIED
from plugrad.registry.declared import Declared
from plugrad.registry.errors import DeclarationError
from plugrad.registry.random_operator import check_random_composite
from plugrad.registry.schema import check_name

__all__ = ["Composite", "composite"]


class Composite(Declared):
    """A function of Tensors with a name, samples and a verified gradient, but no rule of its own.

    Made by `plugrad.composite`. Attributes are those of an operator as far as they apply.
    """

    kind = "composite"
    once_differentiable = False

    def __init__(self, name: str, function: Callable[..., Any], module: str) -> None:
        self.name = name
        self.state = UNVERIFIED
        self._describe(function, module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.state != READY:
            self.resolve()
        if kwargs and ("axis" in kwargs or "keepdims" in kwargs):
            kwargs = self._renamed(kwargs)
        return self.function(*args, **kwargs)

    def _renamed(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The keywords with NumPy's names turned into the function's own, where it has these alone."""
        names = inspect.signature(self.function).parameters
        own = {
            theirs: ours
            for theirs, ours in NUMPY_NAMES.items()
            if ours in names and theirs not in names
        }
        return {own.get(name, name): value for name, value in kwargs.items()}


def composite(
    name: str,
    *,
    method: bool = False,
    random: bool = False,
    kinks: Callable[..., Any] | None = None,
    replaces: str | None = None,
    fingerprint: bytes = b"",
) -> Callable[[Callable[..., Any]], Composite]:
    """Declare a function of Tensors as an operator without a rule of its own.

    Parameters
    ----------
    name : str
        ``"namespace::name"``.
    method : bool, default False
        Whether it becomes a method of Tensor.
    random : bool, default False
        Whether it draws random numbers; it then has a parameter ``generator=None``, which it passes on.
    kinks : callable, optional
        ``kinks(*arrays, tol, **constants)``: where the derivative does not exist.
    replaces : str, optional
        Name of another plugin's operator that this one stands in for.
    fingerprint : bytes, optional
        Added to what certificates depend on.

    Returns
    -------
    callable
        A decorator; it gives a `Composite` with a ``samples`` decorator.

    Raises
    ------
    DeclarationError
        `name` is no operator name, or what is decorated is not callable.

    Examples
    --------
    >>> @plugrad.composite("my::rms")
    ... def rms(x, dim=-1):
    ...     return (x * x).mean(dim).sqrt()
    >>> @rms.samples
    ... def _(make):
    ...     yield make.call(make.normal(3, 4))
    """
    check_name(name)
    if replaces is not None:
        check_name(replaces)
    module = sys._getframe(1).f_globals.get("__name__", "__main__")

    def declare(function: Callable[..., Any]) -> Composite:
        if not callable(function):
            raise DeclarationError(
                f"{name}: a composite is a function of Tensors, got {function!r}"
            )
        check_random_composite(name, function, bool(random))
        made = Composite(name, function, module)
        made.method, made.random, made.kinks = bool(method), bool(random), kinks
        made.replaces, made.fingerprint = replaces, fingerprint
        return made

    return declare
