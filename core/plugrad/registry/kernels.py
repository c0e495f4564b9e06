"""Kernels that one plugin offers for operators of another: putting them in and taking them out.

Such a kernel serves calls only after the operator's whole battery has passed with it. One that
fails is withdrawn, its operator goes on with its own kernel, and a warning says so.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from plugrad.graph.op import READY, UNVERIFIED
from plugrad.registry.operator import Operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.graph.op import Kernel
    from plugrad.registry.certificates import Certificates
    from plugrad.registry.loader import Loader
    from plugrad.registry.table import AnyOperator, KernelEntry

__all__ = ["Kernels", "reopen"]


def reopen(operator: AnyOperator, device: str) -> None:
    """Have an operator verified again before its next call on a device: a kernel was offered for it."""
    if operator.state_on(device) == READY:
        operator.set_state_on(device, UNVERIFIED)
        if device != "cpu" and isinstance(operator, Operator):
            operator.dismiss(device)


def _or_own(function: Callable[..., Any], own: Kernel | None) -> Callable[..., Any]:
    """An offered kernel that leaves to the operator's own what it answers with NotImplemented."""
    if own is None:
        return function

    @wraps(function)
    def kernel(*arrays: Any, **constants: Any) -> Any:
        found = function(*arrays, **constants)
        return own(*arrays, **constants) if found is NotImplemented else found

    return kernel


class Kernels:
    """Which offered kernels are in place."""

    def __init__(self, loader: Loader, certificates: Certificates) -> None:
        self._loader = loader
        self._certificates = certificates
        self._own: dict[tuple[str, str], Kernel | None] = {}
        self._placed: dict[tuple[str, str], KernelEntry] = {}

    def is_current(self, operator: AnyOperator, device: str) -> bool:
        """Whether the kernel in place is the one that the table names."""
        key = operator.name, device
        return self._placed.get(key) is self._loader.table.kernels.get(key)

    def place(self, operator: AnyOperator, device: str) -> KernelEntry | None:
        """Put the offered kernel in place, if there is one, and return it.

        The operator's state must not be READY meanwhile.
        """
        key = operator.name, device
        entry = self._loader.table.kernels.get(key)
        if entry is not self._placed.get(key) and isinstance(operator, Operator):
            if entry is not None:
                if device == "cpu":
                    own = self._own.setdefault(key, operator._kernel(device))
                    operator._set_kernel(device, _or_own(entry.function, own))
                else:
                    operator.offer(device, entry.function)
                self._placed[key] = entry
            else:
                self._restore(operator, device)
            self._certificates.forget(operator)
        return entry

    def withdraw(self, entry: KernelEntry, operator: Operator, why: str) -> str:
        """Take a kernel out for good; returns the sentence that says so."""
        key = entry.operator, entry.device
        plugin = entry.plugin
        with self._loader.lock:
            self._loader.table.kernels.pop(key, None)
            plugin.kernels = tuple(k for k in plugin.kernels if k != key)
            reason = f"its kernel of '{entry.operator}' on '{entry.device}' was refused:\n{why}"
            if plugin.kernels or plugin.operators:
                plugin.reason = "\n".join(filter(None, [plugin.reason, reason]))
            else:
                plugin.quarantine(reason)
        self._restore(operator, entry.device)
        self._certificates.forget(operator)
        return (
            f"the kernel that {plugin.distribution} offers for '{entry.operator}' on "
            f"'{entry.device}' did not pass the operator's battery and is not used:\n{why}"
        )

    def _restore(self, operator: Operator, device: str) -> None:
        key = operator.name, device
        if device != "cpu":
            operator.offer(device, None)
        own = self._own.pop(key, None)
        if own is not None:
            operator._set_kernel(device, own)
        self._placed.pop(key, None)
