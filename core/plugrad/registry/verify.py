"""Verification: an operator runs its battery, or shows a certificate, before its first call.

(a) One group at a time, under one lock. A group is the operator that was called and every operator
    that the batteries reach; its members may call each other while they are verified. Other
    threads that call one of them wait for the lock.
(b) Members met on the way are verified after the one that met them, so nothing recurses and
    operators whose rules need each other are no problem. A member that calls a refused one is
    refused too.
(c) On another device than the CPU an operator is verified with its kernel there, after the CPU; a failure there
    refuses it there alone. An operator whose rule runs on a device has the operators of the rule join the group on
    that device, as on the CPU.
(d) A battery never starts inside a running backward. Operators that a rule calls were met, and
    verified, when the operator with the rule was; a certificate lists them for the same reason.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from plugrad.graph.engine import running
from plugrad.graph.op import READY, REFUSED, VERIFYING
from plugrad.registry.errors import OperatorRefused, RegistryError
from plugrad.registry.group import Group
from plugrad.registry.kernels import Kernels
from plugrad.registry.operator import Operator
from plugrad.registry.outcome import Verification
from plugrad.registry.quarantine import raising
from plugrad.registry.table import split

if TYPE_CHECKING:
    from plugrad.registry.certificates import Certificates
    from plugrad.registry.loader import Loader
    from plugrad.registry.table import AnyOperator

__all__ = ["ENGINE_ROLES", "Verifier"]

ENGINE_ROLES = ("add", "sum_to", "cast", "copy")
"""Operators that the engine itself may call in any backward that is recorded."""


class Verifier:
    """Verifies the operators of one loader.

    Parameters
    ----------
    loader : Loader
    certificates : Certificates
    battery : callable, optional
        ``battery(operator, device) -> Report``; the contract's unless given.
    roles : sequence of str, optional
        Standard operators to verify together with the first one of a process.
    """

    def __init__(
        self,
        loader: Loader,
        certificates: Certificates,
        battery: Callable[[AnyOperator, str], Any] | None = None,
        roles: Sequence[str] = ENGINE_ROLES,
    ) -> None:
        self.loader = loader
        self.certificates = certificates
        self.kernels = Kernels(loader, certificates)
        self.battery = battery if battery is not None else _contract
        self._lock = threading.RLock()
        self._group: Group | None = None
        self._roles = tuple(roles)
        self._roles_left: dict[str, list[str]] = {}
        self._records: dict[tuple[str, str], tuple[AnyOperator, Verification]] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def verify(self, operator: AnyOperator, *, device: str = "cpu", fresh: bool = False) -> None:
        """Make an operator callable on a device, or raise why it is not.

        Parameters
        ----------
        operator : Operator or Composite
        device : str, default "cpu"
        fresh : bool, default False
            Run its battery even if it passed before or has a certificate.

        Raises
        ------
        OperatorRefused
            It did not pass, now or before.
        PluginQuarantined
            The plugin that owns it is left out.
        NotImplementedError
            It has no kernel for the device.
        RegistryError
            Its battery would have to start inside a running backward.
        """
        state = operator.state_on(device)
        if state == READY and not fresh:
            return
        group = self._group
        if state == VERIFYING and group is not None and group.is_mine():
            group.note(operator)
            return
        self._adopt(operator)
        with self._lock:
            if self._group is not None:
                # This thread's own group, for no other could hold the lock.
                self._join(operator, device)
                return
            state = operator.state_on(device)
            if state == VERIFYING or (state == READY and not fresh):
                return
            if not fresh:
                self._raise_refusal(operator, device)
            self._find_kernel(operator, device)
            with self._open(Group(self)) as opened:
                opened.include(operator, device, anew=fresh)
            self._raise_refusal(operator, device)
            self._verify_roles(device)

    @contextmanager
    def group(self) -> Iterator[None]:
        """A block in which operators that were not verified yet may be called.

        They are verified when it ends; their states then tell the outcome. For code that calls an
        operator's rule by itself, as `plugrad.contract.check` does.
        """
        with self._lock:
            if self._group is not None:
                yield
            else:
                with self._open(Group(self)):
                    yield

    def verification(self, operator: AnyOperator, device: str = "cpu") -> Verification | None:
        """How the operator was verified on a device; None if it was not."""
        known = self._records.get((operator.name, device))
        return known[1] if known is not None and known[0] is operator else None

    def record(self, operator: AnyOperator, outcome: Verification, device: str = "cpu") -> None:
        """Remember the outcome of an operator on a device."""
        self._records[operator.name, device] = operator, outcome

    # ---- parts -------------------------------------------------------------------------------

    @contextmanager
    def _open(self, group: Group) -> Iterator[Group]:
        self._group = group
        try:
            yield group
            group.run()
        finally:
            self._group = None
            group.close()
        for message in group.warnings:
            warnings.warn(message, RuntimeWarning, stacklevel=4)

    def _join(self, operator: AnyOperator, device: str) -> None:
        assert self._group is not None
        self._raise_refusal(operator, device)
        if operator.state_on(device) not in (READY, VERIFYING):
            self._find_kernel(operator, device)
            self._group.include(operator, device)

    def _find_kernel(self, operator: AnyOperator, device: str) -> None:
        """Have the kernel made that is to be verified; an operator that has none is told so before anything runs."""
        if device != "cpu" and isinstance(operator, Operator):
            self.kernels.place(operator, device)
            operator.kernel_on(device)

    def _adopt(self, operator: AnyOperator) -> None:
        """Load the plugin of an operator that was reached by importing its module directly."""
        if operator.owner is None and self.loader.table.get(operator.name) is not operator:
            plugin = self.loader.owner(split(operator.name)[0])
            if plugin is not None:
                self.loader.load(plugin)
                if plugin.status in ("quarantined", "blocked"):
                    raise raising(plugin, operator.name)

    def _verify_roles(self, device: str) -> None:
        """Verify what the engine may call, so that no backward is the first to need it."""
        if running():
            return
        left = self._roles_left.setdefault(device, list(self._roles))
        while left:
            name = left.pop(0)
            try:
                operator = self.loader.get(name)
                if operator.state_on(device) not in (READY, REFUSED):
                    self._find_kernel(operator, device)
                    with self._open(Group(self)) as group:
                        group.include(operator, device)
            except (RegistryError, LookupError, NotImplementedError):
                continue  # using it will say why

    def _raise_refusal(self, operator: AnyOperator, device: str) -> None:
        """Raise if the operator was refused on a device, or on the CPU, without which it runs nowhere."""
        for where in dict.fromkeys((device, "cpu")):
            if operator.state_on(where) == REFUSED:
                known = self.verification(operator, where)
                if known is None or known.report is None:
                    raise OperatorRefused(f"the operator '{operator.name}' was refused")
                raise OperatorRefused(known.report)

    def _after_fork(self) -> None:
        # Another thread of the parent may have held the lock; it does not exist here.
        self._lock = threading.RLock()
        group, self._group = self._group, None
        if group is not None and not group.is_mine():
            group.close()


def _contract(operator: AnyOperator, device: str) -> Any:
    from plugrad import contract

    return contract.check(operator, device=device)
