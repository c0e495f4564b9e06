"""What operators and composites have in common: a name, documentation, samples, and their state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from plugrad.graph.op import UNVERIFIED
from plugrad.registry.errors import DeclarationError
from plugrad.registry.parameters import read_parameters
from plugrad.registry.schema import check_name

__all__ = ["Declared"]

F = TypeVar("F", bound=Callable[..., Any])


class _Signature:
    """The signature as `inspect.signature` asks for it, built when it is asked for."""

    def __get__(self, declared: Declared | None, owner: type) -> inspect.Signature:
        if declared is None:  # the class itself has an ordinary signature
            raise AttributeError("__signature__")
        return declared._signature()


class Declared:
    """Something that a plugin registers under a name and that is verified before its first call.

    Attributes
    ----------
    name : str
        ``"namespace::name"``.
    function : callable
    sampler : callable or None
        The function given to `samples`.
    kinks : dict or callable or None
    exempt : frozenset of str
    random, method, once_differentiable, nondifferentiable : bool
    replaces : str or None
    fingerprint : bytes
    module : str
        Where it was declared.
    owner : str or None
        The distribution that it came from, filled in by the loader.
    state : int
        ``UNVERIFIED``, ``VERIFYING``, ``READY`` or ``REFUSED`` of `plugrad.graph.op`.
    """

    kind = "operator"
    name: str
    state: int
    function: Callable[..., Any]
    sampler: Callable[..., Any] | None = None
    kinks: dict[float, Any] | Callable[..., Any] | None = None
    exempt: frozenset[str] = frozenset()
    random: bool = False
    method: bool = False
    once_differentiable: (
        bool  # of an operator it is a field of the graph's Op, which a default would hide
    )
    nondifferentiable: bool = False
    replaces: str | None = None
    fingerprint: bytes = b""
    module: str = ""
    owner: str | None = None
    _default: bool = False
    _states: Mapping[str, int] = {}

    __signature__ = _Signature()

    def _describe(self, function: Callable[..., Any], module: str) -> None:
        """Look like `function` to `help`, `inspect` and editors."""
        self.function = function
        self.module = module
        self.__module__ = module
        self.__name__ = self.__qualname__ = self.name.partition("::")[2]
        self.__doc__ = function.__doc__ or f"The {self.kind} {self.name}."

    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def state_on(self, device: str) -> int:
        """Its state on a device: `state` is that on the CPU."""
        return self.state if device == "cpu" else self._states.get(device, UNVERIFIED)

    def set_state_on(self, device: str, state: int) -> None:
        """Set what `state_on` tells."""
        if device == "cpu":
            self.state = state
        else:
            self._states = {**self._states, device: state}

    def _check_open(self, what: str) -> None:
        """Refuse to change what was verified, or is being verified."""
        if self.state != UNVERIFIED:
            raise DeclarationError(
                f"{self.name}: {what} cannot be given after the {self.kind} was verified; declare it anew"
            )

    def samples(self, sampler: F) -> F:
        """Declare what the gradient is checked on; use as a decorator.

        Parameters
        ----------
        sampler : callable
            ``sampler(make)`` yields ``make.call(*tensors, **constants)`` and, for input that must
            be refused, ``make.error(Exception, "words of the message", *tensors, **constants)``.

        Returns
        -------
        callable
            `sampler` itself.

        Raises
        ------
        DeclarationError
            Samples were given before, or `sampler` does not take one argument.
        """
        self._check_open("samples")
        if self.sampler is not None and not self._default:
            raise DeclarationError(
                f"{self.name}: samples were given twice; yield all from one function"
            )
        why = read_parameters(self.name, sampler).refuses(1, ())
        if why is not None:
            raise DeclarationError(
                f"{self.name}: samples are a function of 'make' alone, but {why}"
            )
        self.sampler, self._default = sampler, False
        return sampler

    def default_samples(self, sampler: Callable[..., Any]) -> None:
        """Samples that stand until the author gives others."""
        self.samples(sampler)
        self._default = True

    def problems(self) -> list[str]:
        """What keeps it from being registered, a sentence each; empty when nothing does."""
        if self.sampler is not None:
            return []
        return [
            f"The {self.kind} {self.name} has no samples, so it cannot be verified; "
            f"add a function 'def _(make): yield make.call(…)' under @{self.__name__}.samples."
        ]

    def resolve(self) -> None:
        """Verify it; return once it can be called.

        Raises
        ------
        OperatorRefused
            The battery found something wrong, now or before.
        """
        from plugrad import registry

        registry.verify(self)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}{self._signature()}>"

    # There is one object of a name: copies are the object itself, and a pickle holds the name.

    def __copy__(self) -> Declared:
        return self

    def __deepcopy__(self, memo: object) -> Declared:
        return self

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return _by_name, (self.name,)


def _by_name(name: str) -> Any:
    from plugrad import registry

    return registry.get(check_name(name))
