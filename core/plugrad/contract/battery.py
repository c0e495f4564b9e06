"""The battery: every check an operator must pass, run in order on all its samples.

(a) A check is a generator of failures over a `Run`, which holds the samples with their outputs and
    gradients computed once. Checks are independent but for gates: nothing is differentiated numerically
    while the forward changes its inputs or is not deterministic.
(b) Agreement is cheap and suspicion is thorough: the first comparison of each check costs a few calls, and
    only what looks wrong is looked at again before it is reported.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from time import perf_counter
from types import CodeType
from typing import Any

import numpy as np

from plugrad.contract.checks import (
    declaration,
    devices,
    dtypes,
    errors,
    forward,
    gradient,
    kernels,
    kinks,
    large,
    layout,
    linear,
    memory,
    needs,
    outputs,
    second,
    stability,
    tangents,
)
from plugrad.contract.report import CheckResult, Failure, Report
from plugrad.contract.run import Run, crashed
from plugrad.contract.targets import target_for
from plugrad.registry import hardware

__all__ = ["CHECKS", "check"]

MAX_FAILURES = 3  # per check: the first ones tell the story

# name, check, and the checks that make no sense after its failure (None: none of those below)
CHECKS: list[tuple[str, Callable[[Run], Iterator[Failure]], tuple[str, ...] | None]] = [
    ("declaration", declaration.check, None),
    ("samples", declaration.check_samples, None),
    ("errors", errors.check, ()),
    ("unchanged", stability.check_unchanged, None),
    ("determinism", stability.check_determinism, None),
    ("forward", forward.check, ()),
    ("kernels", kernels.check, ()),
    ("outputs", outputs.check, ()),
    ("gradient", gradient.check, ("tangents", "second order")),
    ("tangents", tangents.check, ()),
    ("kinks", kinks.check, ()),
    ("needs", needs.check, ()),
    ("linearity", linear.check, ()),
    ("second order", second.check, ()),
    ("layout", layout.check, ()),
    ("dtypes", dtypes.check, ()),
    ("memory", memory.check, ()),
]

# On another device than the CPU, where the same operator has passed all of the above: what kernels can get wrong. That the
# gradient is the derivative is known, so it is compared with the CPU's.
DEVICE_CHECKS: list[tuple[str, Callable[[Run], Iterator[Failure]], tuple[str, ...] | None]] = [
    ("kernel", devices.check_kernel, None),
    ("samples", declaration.check_samples, None),
    ("errors", devices.check_errors, ()),
    ("devices", devices.check, ("large",)),
    ("large", large.check, ()),
    ("unchanged", stability.check_unchanged, None),
    ("determinism", stability.check_determinism, None),
    ("kernels", kernels.check_backward, ()),
    ("needs", needs.check, ()),
    ("linearity", linear.check, ()),
    ("layout", layout.check, ()),
    ("dtypes", dtypes.check, ()),
    ("memory", memory.check, ()),
]


def check(
    target: Any,
    samples: Any = None,
    surrogate: Callable[..., Any] | None = None,
    *,
    device: str = "cpu",
    quick: bool = True,
) -> Report:
    """Run the battery on an operator, a composite or an autograd Function.

    Parameters
    ----------
    target : operator, composite, or class
        What ``@plugrad.operator`` or ``@plugrad.composite`` made, a ``plugrad.autograd.Function``
        class, or a ``torch.autograd.Function`` class where PyTorch is installed.
    samples : callable or iterable, optional
        ``samples(make)`` yielding ``make.call(...)`` and ``make.error(...)``, or a list of argument
        tuples; by default the operator's own.
    surrogate : callable, optional
        ``surrogate(*arrays, at=arrays, **constants)``, whose derivative backward must equal, in place
        of the operator's own.
    device : str, default "cpu"
        "cuda", or "cuda-emulated" for the emulated one: the battery for a device, which compares with the CPU. What it
        is about must have passed on the CPU for that to mean anything.
    quick : bool, default True
        Whether to settle for what takes about 20 ms.

    Returns
    -------
    Report
        ``report.passed`` tells whether it may be trusted; ``str(report)`` why not.

    Raises
    ------
    TypeError
        `target` is nothing that can be checked.
    ValueError
        There is no such device.
    RuntimeError
        It is not available here; the message says why.

    Examples
    --------
    >>> report = plugrad.contract.check(plugrad.ops.exp)
    >>> assert report.passed, report
    """
    device = hardware.activate(device)
    if device not in ("cpu", "cuda"):
        raise ValueError(f"the battery runs on 'cpu', 'cuda' and 'cuda-emulated', got {device!r}")
    subject = target_for(target, samples, surrogate, device)
    report = Report(subject.subject, hardware.label(device), source=_source(target))
    reference = target_for(target, samples, surrogate) if device != "cpu" else None
    run = Run(subject, quick, device, reference)
    subject.library.settle()
    start = perf_counter()
    with (
        subject.library.operators_callable(),
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        subject.library.recording(True),
        subject.callable_unverified(),
    ):
        warnings.simplefilter("ignore", RuntimeWarning)
        _run_checks(run, report, CHECKS if device == "cpu" else DEVICE_CHECKS)
        # Before the block ends: operators met for the first time are verified there.
        report.seconds = perf_counter() - start
    report.samples = len(run.problems) + len(run.bad_calls)
    return report


def _run_checks(
    run: Run,
    report: Report,
    checks: list[tuple[str, Callable[[Run], Iterator[Failure]], tuple[str, ...] | None]],
) -> None:
    names = [name for name, _, _ in checks]
    for name, function, spoils in checks:
        if name in report.skipped:
            report.checks.append(CheckResult(name, "skipped", 0.0))
            continue
        start = perf_counter()
        found: list[Failure] = []
        try:
            for failure in function(run):
                found.append(failure)
                if len(found) == MAX_FAILURES:
                    break
        except Exception as error:
            found.append(crashed(name, error))
        if found:
            run.recover()
        report.failures += found
        status = "failed" if found else "passed"
        report.checks.append(CheckResult(name, status, perf_counter() - start))
        if found:
            for other in names[names.index(name) + 1 :] if spoils is None else spoils:
                report.skipped.setdefault(other, f"makes no sense while {name!r} fails")


def _source(target: object) -> str:
    """File and line of what the author would look at: the rule, or the function where there is none."""
    for name in ("rule", "function", "backward"):
        code = getattr(inspect.unwrap(getattr(target, name, None) or len), "__code__", None)
        if isinstance(code, CodeType):
            return f"{_place(PurePath(code.co_filename))}, line {code.co_firstlineno}"
    return ""


def _place(file: PurePath) -> str:
    """A file's name after those of the packages that it is in: ``package/__init__.py``."""
    folders = [folder for folder in file.parents if Path(folder, "__init__.py").is_file()]
    # Packages are nested without gaps; a folder above them that has an __init__.py by accident is none of theirs.
    depth = next((i for i, folder in enumerate(file.parents) if folder not in folders), 0)
    return "/".join(file.parts[-depth - 1 :])
