"""How the verification of an operator came out."""

from __future__ import annotations

import dataclasses
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plugrad.registry.certificates import Certificate
    from plugrad.registry.table import AnyOperator

__all__ = ["Verification", "crashed", "refused_with"]


@dataclass(frozen=True)
class Verification:
    """How an operator came to be callable, or not.

    Attributes
    ----------
    operator : str
    passed : bool
    how : {"battery", "certificate"}
    report : Report or None
        Of the battery, if one ran in this process.
    certificate : Certificate or None
        What the outcome is kept as.
    reason : str
        Why it is not kept: the operator is then verified once per process.
    device : str
        Where: "cpu", "cuda", or "cuda (emulated)".
    """

    operator: str
    passed: bool
    how: str
    report: Any = None
    certificate: Certificate | None = None
    reason: str = ""
    device: str = "cpu"


def crashed(operator: AnyOperator, device: str, error: Exception, started: float) -> Any:
    """The report for a battery that raised instead of reporting."""
    from plugrad.contract.report import CheckResult, Failure, Report

    seconds = time.perf_counter() - started
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    where = f' ("{frames[0].filename}", line {frames[0].lineno})' if frames else ""
    message = f"the battery stopped with {type(error).__name__}: {error}{where}"
    return Report(
        operator.name,
        device,
        [CheckResult("battery", "failed", seconds)],
        [Failure("battery", "", message)],
        seconds=seconds,
    )


def refused_with(name: str, report: Any, device: str, called: str, theirs: Any) -> Any:
    """The report of an operator that calls a refused one.

    Parameters
    ----------
    name : str
        The operator.
    report : Report or None
        Its own, which found nothing, or None if a certificate stood for it.
    device, called : str
        The operator that was refused.
    theirs : Report or None
        Why.
    """
    from plugrad.contract.report import CheckResult, Failure, Report

    why = f"\n\n{theirs}" if theirs is not None else ""
    failure = Failure("calls", "", f"it calls '{called}', which was refused itself{why}")
    report = report if report is not None else Report(name, device)
    return dataclasses.replace(
        report,
        checks=[*report.checks, CheckResult("calls", "failed", 0.0)],
        failures=[*report.failures, failure],
    )
