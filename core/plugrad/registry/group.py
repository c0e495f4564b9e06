"""Operators that are verified together because their batteries call each other.

A member is an operator on one device. What is verified on another device than the CPU is verified on the CPU too.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from plugrad.graph.engine import running
from plugrad.graph.op import READY, REFUSED, UNVERIFIED, VERIFYING, observe
from plugrad.registry.conditions import Progress, neutral
from plugrad.registry.errors import RegistryError
from plugrad.registry.hardware import label, name_of
from plugrad.registry.operator import Operator
from plugrad.registry.outcome import Verification, crashed, refused_with

if TYPE_CHECKING:
    from plugrad.registry.certificates import Certificate
    from plugrad.registry.table import AnyOperator
    from plugrad.registry.verify import Verifier

__all__ = ["Group", "Member"]


class Member:
    """One operator of a group on one device: what it called, and how it came out."""

    __slots__ = ("anew", "before", "calls", "certificate", "device", "operator", "reason", "report")

    def __init__(self, operator: AnyOperator, device: str, anew: bool) -> None:
        self.operator = operator
        self.device = device
        self.before = operator.state_on(device)
        self.anew = anew
        self.calls: dict[str, AnyOperator] = {}
        self.certificate: Certificate | None = None
        self.report: Any = None
        self.reason = ""

    @property
    def passed(self) -> bool:
        """Whether it has a certificate that holds or a battery that found nothing."""
        return self.certificate is not None if self.report is None else bool(self.report.passed)

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from the other members."""
        return self.operator.name, self.device


class Group:
    """The members of one verification, in the order in which they were met.

    Attributes
    ----------
    warnings : list of str
        What the user must be told once it is over.
    """

    def __init__(self, verifier: Verifier) -> None:
        self.warnings: list[str] = []
        self._verifier = verifier
        self._thread = threading.get_ident()
        self._in_backward = running()
        self._members: dict[tuple[str, str], Member] = {}
        self._queue: deque[Member] = deque()
        self._current: Member | None = None
        self._done = 0

    def is_mine(self) -> bool:
        """Whether it is the calling thread that verifies this group."""
        return threading.get_ident() == self._thread

    def include(self, operator: AnyOperator, device: str = "cpu", *, anew: bool = False) -> None:
        """Make an operator a member; it can be called on that device from now on, by this thread alone.

        Parameters
        ----------
        operator : Operator or Composite
        device : str, default "cpu"
        anew : bool, default False
            Whether its certificate does not count.
        """
        if device != "cpu" and operator.state == UNVERIFIED:
            self.include(operator)
        if (operator.name, device) not in self._members:
            member = Member(operator, device, anew)
            self._members[member.key] = member
            self._queue.append(member)
            operator.set_state_on(device, VERIFYING)
        self._note(operator, device)

    def run(self) -> None:
        """Verify all members, those met on the way included, and settle their states."""
        progress = Progress()
        try:
            while self._queue:
                member = self._queue.popleft()
                where = "" if member.device == "cpu" else f" on {label(member.device)}"
                progress.update(self._done, 1 + len(self._queue), member.operator.name + where)
                self._verify(member)
                self._done += 1
        finally:
            progress.close()
        self._settle()

    def close(self) -> None:
        """Give members that were not settled, because something was raised, their old states."""
        for member in self._members.values():
            if member.operator.state_on(member.device) == VERIFYING:
                before = member.before if member.before != READY else UNVERIFIED
                member.operator.set_state_on(member.device, before)

    # ---- one member --------------------------------------------------------------------------

    def _verify(self, member: Member) -> None:
        operator, verifier = member.operator, self._verifier
        entry = verifier.kernels.place(operator, member.device)
        if self._by_certificate(member):
            return
        member.report = self._battery(member)
        if not member.report.passed and entry is not None and isinstance(operator, Operator):
            # The offered kernel is on trial, not the operator, which is tried again without it.
            message = verifier.kernels.withdraw(entry, operator, str(member.report))
            if verifier.loader.strict:
                raise RegistryError(message)
            self.warnings.append(message)
            member.calls.clear()
            if member.device != "cpu" and not operator.has_own(member.device):
                return  # nothing is left to try there
            member.report = None
            if not self._by_certificate(member):
                member.report = self._battery(member)

    def _by_certificate(self, member: Member) -> bool:
        if not member.anew:
            member.certificate = self._verifier.certificates.find(member.operator, member.device)
        if member.certificate is None:
            return False
        for name in member.certificate.calls:
            called = self._verifier.loader.get(name)
            member.calls[name] = called
            if called.state_on(member.device) == UNVERIFIED:
                self.include(called, member.device)
        return True

    def _battery(self, member: Member) -> Any:
        operator, device = member.operator, member.device
        if self._in_backward:
            option = "" if device == "cpu" else f"--device {name_of(device)} "
            raise RegistryError(
                f"the operator '{operator.name}' was never verified"
                f"{'' if device == 'cpu' else f' on {label(device)}'}, and its battery cannot run "
                "inside the backward that calls it now. Call the operator once before, or run "
                f"'plugrad check --warm {option}{operator.name}'"
            )
        started = time.perf_counter()
        self._current = member
        try:
            with neutral(), observe(self.note):
                return self._verifier.battery(operator, device)
        except Exception as error:
            from plugrad.contract.run import is_no_fault

            if is_no_fault(error):
                raise
            return crashed(operator, label(device), error, started)
        finally:
            self._current = None

    def note(self, operator: Any) -> None:
        """Write down that the current member's battery calls an operator."""
        current = self._current
        # A battery on a device also calls operators on the CPU, to compare with: those are not its business.
        if current is not None and operator.state_on(current.device) in (READY, VERIFYING):
            self._note(operator, current.device)

    def _note(self, operator: AnyOperator, device: str) -> None:
        current = self._current
        if (
            current is not None
            and operator is not current.operator
            and device == current.device
            and self.is_mine()
        ):
            current.calls[operator.name] = operator

    # ---- the outcome -------------------------------------------------------------------------

    def _settle(self) -> None:
        self._spread_refusals()
        for member in self._members.values():
            member.operator.set_state_on(member.device, self._outcome(member))
        for member in self._members.values():
            if member.passed and member.report is not None:
                self._certify(member)
            self._record(member)

    def _outcome(self, member: Member) -> int:
        operator, device = member.operator, member.device
        if not member.passed:
            return REFUSED
        if not self._verifier.kernels.is_current(operator, device):
            # A kernel was offered meanwhile; the next call verifies the operator with it.
            return UNVERIFIED
        if device != "cpu" and isinstance(operator, Operator):
            operator.admit(device)
        return READY

    def _spread_refusals(self) -> None:
        """Refuse members that call a refused operator, and those that call them."""
        refused = {m.key: m.report for m in self._members.values() if not m.passed}
        waiting = [m for m in self._members.values() if m.passed]
        found = True
        while found:
            found = False
            for member in list(waiting):
                for called, device in self._needed(member):
                    key = called.name, device
                    if key in refused or called.state_on(device) == REFUSED:
                        known = self._verifier.verification(called, device)
                        theirs = refused.get(key) or (known.report if known else None)
                        refused[member.key] = member.report = refused_with(
                            member.operator.name,
                            member.report,
                            label(member.device),
                            called.name
                            if device == member.device
                            else f"{called.name}' on '{device}",
                            theirs,
                        )
                        waiting.remove(member)
                        found = True
                        break

    def _needed(self, member: Member) -> list[tuple[AnyOperator, str]]:
        """The operators, each on a device, without which a member cannot pass."""
        needed = [(called, member.device) for called in member.calls.values()]
        return needed if member.device == "cpu" else [(member.operator, "cpu"), *needed]

    def _certify(self, member: Member) -> None:
        kept = self._verifier.certificates.keep(
            member.operator, member.device, list(member.calls.values()), member.report.seconds
        )
        if isinstance(kept, str):
            member.reason = kept
        else:
            member.certificate = kept

    def _record(self, member: Member) -> None:
        self._verifier.record(
            member.operator,
            Verification(
                member.operator.name,
                member.passed,
                "certificate" if member.report is None else "battery",
                member.report,
                member.certificate if member.passed else None,
                member.reason,
                label(member.device),
            ),
            member.device,
        )
