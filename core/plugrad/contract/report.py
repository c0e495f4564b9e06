"""What a battery found, as an object, as text and as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import NamedTuple

__all__ = ["CheckResult", "Failure", "Report"]


@dataclass(frozen=True)
class Failure:
    """One thing that is wrong with an operator.

    Attributes
    ----------
    check : str
        The check that found it, e.g. ``"gradient"``.
    sample : str
        The sample it was found on; empty when it holds for the operator as a whole.
    message : str
        What is wrong, with the worst element and both numbers where numbers were compared.
    where : str
        The worst element, e.g. ``"d out[1, 2] / d x[0]"``.
    expected, got : float, complex or None
        The two numbers there.
    hint : str
        What usually causes it.
    """

    check: str
    sample: str
    message: str
    where: str = ""
    expected: float | complex | None = None
    got: float | complex | None = None
    hint: str = ""

    def __str__(self) -> str:
        lines = [f"[{self.check}] {self.message}"]
        if self.where:
            worst = f"    worst element: {self.where}"
            if self.expected is not None and self.got is not None:
                worst += f" - expected {self.expected:.10g}, got {self.got:.10g}"
            lines.append(worst)
        if self.sample:
            lines.append(f"    {self.sample}")
        if self.hint:
            lines.append(f"    usual cause: {self.hint}")
        return "\n".join(lines)


def _plain(failure: Failure) -> dict[str, object]:
    """As `dataclasses.asdict`, complex numbers as text."""
    return {
        name: str(value) if isinstance(value, complex) else value
        for name, value in asdict(failure).items()
    }


class CheckResult(NamedTuple):
    """Outcome of one check: its status is ``"passed"``, ``"failed"`` or ``"skipped"``."""

    name: str
    status: str
    seconds: float


@dataclass
class Report:
    """Outcome of a battery.

    Attributes
    ----------
    subject : str
        The operator's name.
    device : str
        Where it ran.
    checks : list of CheckResult
        In the order they ran.
    failures : list of Failure
        Empty when the operator passed.
    skipped : dict of str to str
        Why a check was not run, by its name.
    seconds : float
        Time the battery took.
    samples : int
        Number of calls checked, those that the battery added included.
    source : str
        File and line of the rule, or of the function where there is no rule; empty if unknown.
    """

    subject: str
    device: str = "cpu"
    checks: list[CheckResult] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    samples: int = 0
    source: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong and something was checked."""
        return not self.failures and bool(self.checks)

    def failed(self, check: str) -> bool:
        """Whether `check` found something wrong."""
        return any(failure.check == check for failure in self.failures)

    def __str__(self) -> str:
        ran = sum(result.status != "skipped" for result in self.checks)
        if self.passed:
            return (
                f"{self.subject} on {self.device}: passed {ran} checks on {self.samples} samples "
                f"({1e3 * self.seconds:.1f} ms)"
            )
        wrong = list(dict.fromkeys(failure.check for failure in self.failures))
        head = f"{self.subject} on {self.device}: refused, {len(wrong)} of {ran} checks failed ({', '.join(wrong)})"
        if self.source:
            head += f"\n    declared in {self.source}"
        return "\n\n".join([head, *self._grouped()])

    def _grouped(self) -> list[str]:
        """The first failure of each kind in full, the samples that show it too in one line each."""
        groups: dict[tuple[str, str], list[Failure]] = {}
        for failure in self.failures:
            groups.setdefault((failure.check, failure.message), []).append(failure)
        texts = []
        for first, *others in groups.values():
            lines = [str(first)]
            for other in others:
                numbers = ""
                if other.expected is not None and other.got is not None:
                    numbers = (
                        f" - {other.where}: expected {other.expected:.10g}, got {other.got:.10g}"
                    )
                lines.append(f"    also on {other.sample or 'the operator itself'}{numbers}")
            texts.append("\n".join(lines))
        return texts

    def to_dict(self) -> dict[str, object]:
        """Plain data, ready for JSON."""
        return {
            "subject": self.subject,
            "device": self.device,
            "passed": self.passed,
            "seconds": self.seconds,
            "samples": self.samples,
            "checks": [result._asdict() for result in self.checks],
            "skipped": dict(self.skipped),
            "failures": [_plain(failure) for failure in self.failures],
        }
