"""The flat table of what plugins registered: operators, kernels, backends, replacements.

Only plain dictionaries, read without a lock; writing is the loader's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from plugrad.registry.composite import Composite
    from plugrad.registry.operator import Operator
    from plugrad.registry.quarantine import Plugin

    AnyOperator: TypeAlias = Operator | Composite

__all__ = ["AnyOperator", "Backend", "KernelEntry", "Table", "matches", "split"]


@dataclass(frozen=True)
class KernelEntry:
    """A kernel that another plugin than the operator's own offers.

    Attributes
    ----------
    operator, device : str
        What it serves.
    function : callable
        Called ``f(*arrays, out=None, **constants)``.
    plugin : Plugin
        Who offers it.
    """

    operator: str
    device: str
    function: Callable[..., object]
    plugin: Plugin


@dataclass(frozen=True)
class Backend:
    """An array backend as a plugin registered it."""

    device: str
    backend: object
    distribution: str


class Table:
    """Everything registered so far.

    Attributes
    ----------
    operators : dict
        Full name to operator.
    replacements : dict
        Name of a replaced operator to the one that stands in for it (``replaces=``).
    kernels : dict
        (operator, device) to the kernel entry that serves it.
    backends : dict
        Device to backend.
    methods : dict
        Name of a Tensor method to the operator that it is.
    """

    def __init__(self) -> None:
        self.operators: dict[str, AnyOperator] = {}
        self.replacements: dict[str, AnyOperator] = {}
        self.kernels: dict[tuple[str, str], KernelEntry] = {}
        self.backends: dict[str, Backend] = {}
        self.methods: dict[str, AnyOperator] = {}
        self._listeners: list[Callable[[Iterable[str]], None]] = []

    def get(self, name: str) -> AnyOperator | None:
        """The operator that a call of ``namespace::name`` reaches, or None."""
        return self.replacements.get(name) or self.operators.get(name)

    def names(self, namespace: str) -> list[str]:
        """The names in one namespace, without it, sorted."""
        head = f"{namespace}::"
        return sorted(name[len(head) :] for name in list(self.operators) if name.startswith(head))

    def listen(self, listener: Callable[[Iterable[str]], None]) -> None:
        """Have `listener` called with the names that mean another operator than before."""
        self._listeners.append(listener)

    def changed(self, names: Iterable[str]) -> None:
        """Tell the listeners."""
        names = list(names)
        for listener in self._listeners:
            listener(names)

    def kernels_of(self, name: str) -> list[KernelEntry]:
        """The kernels that other plugins offer for one operator."""
        return [entry for (operator, _), entry in self.kernels.items() if operator == name]


def split(name: str) -> tuple[str, str]:
    """``"ns::name"`` as ``("ns", "name")``; a bare name is one of the standard namespace."""
    namespace, separator, short = name.partition("::")
    return (namespace, short) if separator else ("standard", name)


def matches(name: str, pattern: str | None) -> bool:
    """Whether a full name matches a shell pattern.

    A pattern without ``::`` is compared with the namespace and with the name in it too, so that
    "ste" means all of ``ste::`` and "*round*" any operator with that in its name.
    """
    if pattern is None or fnmatchcase(name, pattern):
        return True
    return "::" not in pattern and any(fnmatchcase(part, pattern) for part in split(name))
