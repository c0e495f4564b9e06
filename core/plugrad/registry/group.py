"""Operators that are verified together because their batteries call each other."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from plugrad.graph.engine import running
from plugrad.graph.op import READY, REFUSED, UNVERIFIED, VERIFYING, observe
from plugrad.registry.conditions import Progress, neutral
from plugrad.registry.errors import RegistryError
from plugrad.registry.operator import Operator
from plugrad.registry.outcome import Verification, crashed, refused_with

if TYPE_CHECKING:
    from plugrad.registry.certificates import Certificate
    from plugrad.registry.table import AnyOperator
    from plugrad.registry.verify import Verifier

__all__ = ["Group", "Member"]


class Member:
    """One operator of a group: what it called, and how it came out."""

    __slots__ = ("anew", "before", "calls", "certificate", "operator", "reason", "report")

    def __init__(self, operator: AnyOperator, anew: bool) -> None:
        self.operator = operator
        self.before = operator.state
        self.anew = anew
        self.calls: dict[str, AnyOperator] = {}
        self.certificate: Certificate | None = None
        self.report: Any = None
        self.reason = ""

    @property
    def passed(self) -> bool:
        """Whether it has a certificate that holds or a battery that found nothing."""
        return self.certificate is not None if self.report is None else bool(self.report.passed)


class Group:
    """The members of one verification, in the order in which they were met.

    Attributes
    ----------
    warnings : list of str
        What the user must be told once it is over.
    """

    def __init__(self, verifier: Verifier, *, device: str = "cpu", fresh: bool = False) -> None:
        self.warnings: list[str] = []
        self._verifier = verifier
        self._device = device
        self._fresh = fresh
        self._thread = threading.get_ident()
        self._in_backward = running()
        self._members: dict[str, Member] = {}
        self._queue: deque[Member] = deque()
        self._current: Member | None = None
        self._done = 0

    def is_mine(self) -> bool:
        """Whether it is the calling thread that verifies this group."""
        return threading.get_ident() == self._thread

    def include(self, operator: AnyOperator, *, anew: bool = False) -> None:
        """Make an operator a member; it can be called from now on, by this thread alone.

        Parameters
        ----------
        operator : Operator or Composite
        anew : bool, default False
            Whether its certificate does not count.
        """
        if operator.name not in self._members:
            member = Member(operator, anew)
            self._members[operator.name] = member
            self._queue.append(member)
            operator.state = VERIFYING
        self.note(operator)

    def run(self) -> None:
        """Verify all members, those met on the way included, and settle their states."""
        progress = Progress()
        try:
            while self._queue:
                member = self._queue.popleft()
                progress.update(self._done, 1 + len(self._queue), member.operator.name)
                self._verify(member)
                self._done += 1
        finally:
            progress.close()
        self._settle()

    def close(self) -> None:
        """Give members that were not settled, because something was raised, their old states."""
        for member in self._members.values():
            if member.operator.state == VERIFYING:
                member.operator.state = member.before if member.before != READY else UNVERIFIED

    # ---- one member --------------------------------------------------------------------------

    def _verify(self, member: Member) -> None:
        operator, verifier = member.operator, self._verifier
        entry = verifier.kernels.place(operator, self._device)
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
            member.report = None
            if not self._by_certificate(member):
                member.report = self._battery(member)

    def _by_certificate(self, member: Member) -> bool:
        if not member.anew:
            member.certificate = self._verifier.certificates.find(member.operator, self._device)
        if member.certificate is None:
            return False
        for name in member.certificate.calls:
            called = self._verifier.loader.get(name)
            member.calls[name] = called
            if called.state == UNVERIFIED:
                self.include(called)
        return True

    def _battery(self, member: Member) -> Any:
        operator = member.operator
        if self._in_backward:
            raise RegistryError(
                f"the operator '{operator.name}' was never verified, and its battery cannot run "
                "inside the backward that calls it now. Call the operator once before, or run "
                f"'plugrad check --warm {operator.name}'"
            )
        started = time.perf_counter()
        self._current = member
        try:
            with neutral(), observe(self.note):
                return self._verifier.battery(operator, self._device)
        except Exception as error:
            return crashed(operator, self._device, error, started)
        finally:
            self._current = None

    def note(self, operator: Any) -> None:
        """Write down that the current member's battery calls an operator."""
        current = self._current
        if current is not None and operator is not current.operator and self.is_mine():
            current.calls[operator.name] = operator

    # ---- the outcome -------------------------------------------------------------------------

    def _settle(self) -> None:
        self._spread_refusals()
        verifier = self._verifier
        for member in self._members.values():
            operator = member.operator
            if not member.passed:
                operator.state = REFUSED
            elif verifier.kernels.is_current(operator, self._device):
                operator.state = READY
            else:
                # A kernel was offered meanwhile; the next call verifies the operator with it.
                operator.state = UNVERIFIED
        for member in self._members.values():
            if member.passed and member.report is not None:
                self._certify(member)
            self._record(member)

    def _spread_refusals(self) -> None:
        """Refuse members that call a refused operator, and those that call them."""
        refused = {m.operator.name: m.report for m in self._members.values() if not m.passed}
        waiting = [m for m in self._members.values() if m.passed]
        found = True
        while found:
            found = False
            for member in list(waiting):
                for name, called in member.calls.items():
                    if name in refused or called.state == REFUSED:
                        known = self._verifier.verification(called)
                        theirs = refused.get(name) or (known.report if known else None)
                        own = member.operator.name
                        refused[own] = member.report = refused_with(
                            own, member.report, self._device, name, theirs
                        )
                        waiting.remove(member)
                        found = True
                        break

    def _certify(self, member: Member) -> None:
        kept = self._verifier.certificates.keep(
            member.operator, self._device, list(member.calls.values()), member.report.seconds
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
            ),
        )
