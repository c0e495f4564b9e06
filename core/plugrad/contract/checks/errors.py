"""Bad calls raise, and the error names the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from plugrad.contract.problem import Problem
from plugrad.contract.report import Failure
from plugrad.contract.run import Run

__all__ = ["check"]

REFUSALS = (TypeError, ValueError, RuntimeError)


def check(run: Run) -> Iterator[Failure]:
    """The author's make.error(...) calls, then calls that the schema itself forbids."""
    for sample in run.bad_calls:
        assert sample.raises is not None
        problem = Problem(run.target, sample)
        error = _raised(problem.run, problem.arrays)
        if error is None:
            message = "does not raise"
        elif not isinstance(error, sample.raises):
            message = f"raises {type(error).__name__}: {error}"
        elif sample.words.lower() not in str(error).lower():
            message = f"raises {type(error).__name__} without {sample.words!r} in it: {error}"
        else:
            continue
        yield Failure(
            "errors",
            str(sample),
            f"a call that must raise {sample.raises.__name__} with {sample.words!r} in its message {message}",
            hint="check the arguments at the top of forward, before anything is computed",
        )
    if run.target.kind == "operator" and run.problems:
        yield from _forbidden(run)


def _raised(call: Callable[..., Any], *args: Any, **constants: Any) -> BaseException | None:
    try:
        call(*args, **constants)
    except Exception as error:
        return error
    return None


def _forbidden(run: Run) -> Iterator[Failure]:
    """Arrays of no known dtype, too few and too many tensors, an unknown keyword."""
    op, schema = run.target.op, run.target.schema
    problem = run.problems[0]
    good = problem.args(problem.arrays)
    constants = problem.constants(problem.arrays)
    calls: list[tuple[str, list[Any], dict[str, Any]]] = []
    for i, kind in enumerate(schema.dtypes[: len(good)]):
        if isinstance(good[i], list) or kind == "any":
            continue
        for bad in (np.array(["a", "b"]), np.array([None, {}], dtype=object)):
            args = [*good[:i], bad, *good[i + 1 :]]
            what = f"an array of dtype {bad.dtype} for {schema.inputs[i]!r}"
            calls.append((what, args, constants))
    if not all(schema.optional) and not schema.variadic:
        calls.append(("no tensors at all", [], constants))
    if not schema.variadic and not schema.constants:
        missing = len(schema.inputs) + 1 - len(good)
        calls.append(("one tensor too many", [*good, *good[:1] * missing], constants))
    calls.append(("an unknown keyword", good, {**constants, "no_such_argument": 1}))
    for what, args, keywords in calls:
        error = _raised(op, *args, **keywords)
        if isinstance(error, REFUSALS) and run.target.short_name in str(error):
            continue
        got = "did not raise" if error is None else f"raised {type(error).__name__}: {error}"
        yield Failure(
            "errors",
            "",
            f"called with {what}: expected a TypeError, ValueError or RuntimeError that names "
            f"{run.target.short_name!r}, but it {got}",
        )
