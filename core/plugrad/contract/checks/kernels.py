"""Kernels agree with what they stand for: the CPU kernel with the reference, the fused backward with the rule."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugrad.contract.numeric import differs, shown
from plugrad.contract.problem import Problem, as_list, element
from plugrad.contract.report import Failure
from plugrad.contract.run import Run

__all__ = ["check", "check_backward"]

Array = np.ndarray


def check(run: Run) -> Iterator[Failure]:
    """Every sample, in the dtypes it comes with (the check of lower dtypes covers the others)."""
    for problem in run.problems:
        yield from _reference(run, problem)
    yield from check_backward(run)


def check_backward(run: Run) -> Iterator[Failure]:
    """The fused backward against the rule."""
    if run.target.once_differentiable:
        return
    for problem in run.differentiable:
        yield from _backward(run, problem)


def _reference(run: Run, problem: Problem) -> Iterator[Failure]:
    """The kernel that served the call against the reference function."""
    function = run.target.function
    if function is None or problem.sample.through is not None:
        return
    args, constants = problem.point(function, [array.copy() for array in problem.arrays])
    for i, (got, found) in enumerate(zip(problem.outputs, as_list(function(*args, **constants)))):
        wanted = np.asarray(found)
        if wanted.shape != got.shape and wanted.ndim <= got.ndim:
            wanted = np.broadcast_to(wanted, got.shape)
        j = differs(got, wanted)
        if j is not None:
            yield Failure(
                "kernels",
                str(problem.sample),
                f"the CPU kernel and the reference function disagree on output {i}",
                f"element {j}",
                shown(wanted, j),
                shown(got, j),
                "a kernel that handles broadcasting, a tail of elements or a constant differently",
            )


def _backward(run: Run, problem: Problem) -> Iterator[Failure]:
    """What is computed under create_graph equals what is computed without."""
    by_rule = problem.recording.arrays(problem.by_rule)
    for k, got, wanted in zip(problem.active, problem.gradients, by_rule):
        j = differs(got, wanted, ulps=1024)
        if j is None or not wanted.size:
            continue
        name = problem.names[k]
        yield Failure(
            "kernels",
            str(problem.sample),
            f"backward_kernel and backward disagree on the gradient of {name!r}"
            if run.target.fused
            else f"the gradient of {name!r} changes when create_graph=True",
            element(name, j, wanted.shape),
            shown(wanted, j),
            shown(got, j),
            "the fused kernel computes another formula"
            if run.target.fused
            else "a rule that asks whether gradients are recorded",
        )
        return
