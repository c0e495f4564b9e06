"""The state of one battery: its target and its samples, evaluated once for all checks."""

from __future__ import annotations

import sys
import zlib
from functools import cached_property

import numpy as np

from plugrad.contract.problem import Problem
from plugrad.contract.report import Failure
from plugrad.contract.samples import Sample
from plugrad.contract.targets import Target

__all__ = ["Run", "crashed", "is_no_fault"]


class Run:
    """One battery in progress.

    Attributes
    ----------
    target : Target
    quick : bool
        Fewer directions and layouts; False does all of them on every sample.
    problems : list of Problem
        The samples that run, forward and backward.
    bad_calls : list of Sample
        The ones that must raise.
    rng : numpy.random.Generator
        Seeded from the operator's name.
    compared : set of str
        Names of the inputs whose derivative was compared somewhere.
    device : str
        Where the target runs.
    reference : Target or None
        The same on the CPU, where `target` runs on another device.
    """

    def __init__(
        self, target: Target, quick: bool, device: str = "cpu", reference: Target | None = None
    ) -> None:
        self.target = target
        self.device = device
        self.reference = reference
        self.quick = quick
        self.problems: list[Problem] = []
        self.bad_calls: list[Sample] = []
        self.rng = np.random.default_rng(zlib.crc32(target.subject.encode()) ^ 0x5EED)
        self.compared: set[str] = set()

    def recover(self) -> None:
        """Go on after a failure, which may have stopped the device: what was recorded there is gone."""
        self.target.library.recover()
        for problem in self.problems:
            problem.forget()

    @property
    def where(self) -> str:
        """The device as people write it."""
        return self.device.upper()

    @property
    def differentiable(self) -> list[Problem]:
        """The problems that have a derivative."""
        return [p for p in self.problems if p.live and p.active]

    @cached_property
    def slopes(self) -> dict[tuple[str, str, str], float]:
        """Largest derivative by an input on all samples with the same constants, real or complex: of one function."""
        found: dict[tuple[str, str, str], float] = {}
        for problem in self.problems:
            for k, largest in zip(problem.active, problem.peaks):
                key = _function_of(problem, k)
                found[key] = max(largest, found.get(key, 0.0))
        return found

    @cached_property
    def steepest(self) -> float:
        """The largest of all derivatives."""
        return max((largest for p in self.problems for largest in p.peaks), default=0.0)

    def slope(self, problem: Problem, k: int) -> float:
        """Largest derivative by the same input of the same function."""
        return self.slopes.get(_function_of(problem, k), 0.0)

    def floor(self, problem: Problem) -> float:
        """Absolute tolerance for a derivative: rounding, seen from the largest ones around."""
        own = max(problem.peaks, default=0.0)
        return 1e-13 * max(own, problem.natural_scale) + 1e-16 * min(self.steepest, 1.0)


def _function_of(problem: Problem, k: int) -> tuple[str, str, str]:
    return problem.constants_text, problem.names[k], problem.arrays[k].dtype.kind


def is_no_fault(error: BaseException) -> bool:
    """Whether an exception says nothing about the operator: no memory, no device, one that failed before, no compiler.

    Such a one ends the battery; what was checked can be checked again later.
    """
    if isinstance(error, MemoryError):
        return True
    errors = sys.modules.get("plugrad.backends.cuda.errors")
    if errors is None:
        return False
    uncompiled = isinstance(error, errors.CompileError) and not error.log
    return uncompiled or isinstance(error, (errors.NotAvailableError, errors.EarlierFailure))


def crashed(check: str, error: BaseException, sample: str = "", hint: str = "") -> Failure:
    """The failure for an exception that nothing expected, with the place in the operator's own code.

    Raises
    ------
    Exception
        `error` itself, where it is not the operator's fault.
    """
    if is_no_fault(error):
        raise error
    place = ""
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if "plugrad/contract/" not in code.co_filename.replace("\\", "/"):
            place = f" ({code.co_filename}:{traceback.tb_lineno}, in {code.co_name})"
        traceback = traceback.tb_next
    return Failure(check, sample, f"raised {type(error).__name__}: {error}{place}", hint=hint)
