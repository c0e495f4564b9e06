"""The declaration makes sense, and there are samples that run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from plugrad.contract.automatic import added_samples, emptied_samples
from plugrad.contract.checks.causes import cause_of
from plugrad.contract.problem import Problem
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, crashed
from plugrad.contract.samples import Sample, collect

__all__ = ["check", "check_samples"]

MINIMUM = 3


def check(run: Run) -> Iterator[Failure]:
    """Name, rule, kinks and surrogate fit together."""
    target, op = run.target, run.target.op

    def fail(message: str, hint: str = "") -> Failure:
        return Failure("declaration", "", message, hint=hint)

    if target.kind == "function":
        return
    if not re.fullmatch(r"[A-Za-z_]\w*::[A-Za-z_]\w*", target.subject):
        yield fail(f"the name must read namespace::name, got {target.subject!r}")
    kinks = target.kinks
    if kinks is not None and not callable(kinks):
        if not isinstance(kinks, dict) or not all(
            isinstance(v, int | float) and (isinstance(d, int | float) or callable(d))
            for v, d in kinks.items()
        ):
            yield fail(
                "kinks must be {value: derivative taken there} or a function of the arrays, "
                f"got {kinks!r:.80}"
            )
        elif not target.elementwise:
            yield fail(
                "kinks as a dict of values are for elementwise operators; "
                "others give a function kinks(*arrays, tol, **constants) of the arrays"
            )
    if target.kind != "operator":
        return
    if op.rule is None and not target.nondifferentiable:
        yield fail(
            "has no backward",
            "write @operator.backward, or declare nondifferentiable=True if its derivative is zero",
        )
    if op.rule is not None and target.nondifferentiable:
        yield fail("is declared nondifferentiable=True and has a backward: only one can hold")
    if op.rule_kernel is not None and op.rule is None:
        yield fail("has a backward_kernel but no backward to compare it with")


def check_samples(run: Run) -> Iterator[Failure]:
    """At least three samples, each of which runs forward and backward; they become ``run.problems``."""
    target = run.target
    if target.sampler is None:
        yield Failure(
            "samples",
            "",
            "has no samples, so nothing can be checked",
            hint="none was given: contract.check(function, samples=...) takes samples(make), a generator of make.call(...), "
            "or a list of tuples of arrays"
            if target.kind == "function"
            else "write @operator.samples: a generator of make.call(...)",
        )
        return
    try:
        samples = collect(target.sampler, target.subject)
    except Exception as error:
        yield crashed("samples", error, hint="the samples function itself fails")
        return
    calls = [sample for sample in samples if sample.raises is None]
    run.bad_calls = [sample for sample in samples if sample.raises is not None]
    if target.elementwise:
        calls += added_samples(calls, lambda sample: _finite(run, sample))
    if len(calls) < MINIMUM:
        yield Failure(
            "samples",
            "",
            f"{len(calls)} samples are too few, at least {MINIMUM} calls are needed",
            hint="add ones with other shapes: 0-d, zero-size, several dimensions, other constants",
        )
    for sample in calls:
        yield from _prepare(run, sample)
    if target.kind == "operator" and not target.elementwise:
        varied = calls[:1] if run.quick else calls
        for sample in emptied_samples(varied):
            if _runs(run, sample):
                yield from _prepare(run, sample)
    if target.kind == "operator" and not target.nondifferentiable:
        yield from _unreached(run)


def _runs(run: Run, sample: Sample) -> bool:
    try:
        problem = Problem(run.reference or run.target, sample)
        problem.run(problem.arrays)
    except Exception:
        return False
    return True


def _finite(run: Run, sample: Sample) -> bool:
    try:
        problem = Problem(run.reference or run.target, sample)
        return all(np.isfinite(out).all() for out in problem.run(problem.arrays))
    except Exception:
        return False


def _prepare(run: Run, sample: Sample) -> Iterator[Failure]:
    """Run the sample; what raises is reported, as the forward's or the backward's fault."""
    try:
        problem = Problem(run.target, sample)
    except Exception as error:
        yield crashed("samples", error, str(sample))
        return
    try:
        problem.prepare(run.rng)
    except Exception as error:
        run.recover()
        yield replace(
            crashed("samples", error, str(sample)),
            hint=cause_of(error)
            or "a make.call(...) must work; a call that must not is make.error(...)",
        )
        return
    try:
        problem.differentiate()
    except Exception as error:
        run.recover()
        yield crashed("backward", error, str(sample), cause_of(error) or "backward itself raises")
        return
    run.problems.append(problem)
    for k, gradient in zip(problem.active, problem.gradients):
        if gradient.shape != problem.arrays[k].shape:
            yield Failure(
                "backward",
                str(sample),
                f"the gradient of {problem.names[k]!r} has shape {gradient.shape}, "
                f"expected {problem.arrays[k].shape}",
                hint="a reduced or broadcast axis is not undone in backward",
            )


def _unreached(run: Run) -> Iterator[Failure]:
    """Every floating input is given as an array somewhere."""
    schema = run.target.schema
    given = {problem.names[k].partition("[")[0] for problem in run.problems for k in problem.active}
    of_complex = {
        problem.names[k].partition("[")[0]
        for problem in run.problems
        for k in problem.active
        if problem.arrays[k].dtype.kind == "c"
    }
    for name, kind in zip(schema.inputs, schema.dtypes):
        if kind in ("complex", "number") and name not in of_complex and run.problems:
            yield Failure(
                "samples",
                "",
                f"declares that {name!r} may be complex, but no sample passes complex numbers",
                hint=f'add make.call(make.complex(...)), or declare "floating" or "numeric" for {name!r}',
            )
        if (
            kind in ("floating", "complex", "numeric", "number")
            and name not in given
            and run.problems
        ):
            yield Failure(
                "samples",
                "",
                f"no sample passes {name!r} as an array, so its gradient cannot be checked",
                hint=f"add make.call(...) with a floating array for {name!r}",
            )
