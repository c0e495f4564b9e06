"""What comparing first derivatives finds, in the words of a report."""

from __future__ import annotations

import numpy as np

from plugrad.contract.checks.diagnosis import GENERIC
from plugrad.contract.problem import Problem
from plugrad.contract.report import Failure
from plugrad.contract.run import Run

__all__ = ["both_infinite", "check_name", "failure", "note_compared"]

Array = np.ndarray

WRONG_SURROGATE = (
    "backward does not follow the declared surrogate: a mask, a scale, or `at` used where "
    "the surrogate differentiates"
)
UNSETTLED = (
    "the sample lies on a kink, a jump or the edge of the domain: move it, or declare kinks="
)


def check_name(run: Run) -> str:
    """What the comparison is called: it is with the surrogate where there is one."""
    return "gradient" if run.target.surrogate is None else "surrogate"


def failure(
    run: Run,
    problem: Problem,
    where: str,
    expected: float,
    got: float,
    settled: bool,
    cause: str = GENERIC,
) -> Failure:
    """A derivative that is not the expected one, or where the expected one cannot be told."""
    surrogate = run.target.surrogate is not None
    against = "its surrogate's" if surrogate else "the numerical"
    message = f"the gradient differs from {against} derivative"
    hint = WRONG_SURROGATE if surrogate else cause
    if not settled:
        message = f"{against} derivative does not settle as the step shrinks"
        hint = UNSETTLED
    return Failure(check_name(run), str(problem.sample), message, where, expected, got, hint)


def note_compared(run: Run, problem: Problem, k: int, analytic: Array, numeric: Array) -> None:
    """Remember the input if some number of it was compared."""
    if (np.isfinite(analytic) & np.isfinite(numeric)).any():
        run.compared.add(problem.names[k])


def both_infinite(a: Array, b: Array) -> Array:
    """Where neither is finite: then there is nothing to compare."""
    return ~np.isfinite(a) & ~np.isfinite(b)
