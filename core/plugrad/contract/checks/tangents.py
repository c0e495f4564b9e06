"""A declared `jvp` is the derivative: tangents of the outputs against central differences.

Without one there is nothing to check here: tangents then follow from the backward rule, which the other checks hold.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugrad.contract.numeric import along, apart, peak, refine, steps, worst
from plugrad.contract.problem import Problem, as_list
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, crashed
from plugrad.graph import duals

__all__ = ["check"]

Array = np.ndarray

WRONG = "jvp leaves out a term or an input, or has a factor or a sign wrong; tangents.x is None where x has no tangent"


def check(run: Run) -> Iterator[Failure]:
    """Every sample, one signed random direction per input."""
    if getattr(run.target.op, "jvp_rule", None) is None:
        return
    for problem in run.differentiable:
        for k in problem.active:
            yield from _direction(run, problem, k)


def _direction(run: Run, problem: Problem, k: int) -> Iterator[Failure]:
    array = problem.arrays[k]
    direction = np.asarray(steps(array) * run.rng.choice((-1.0, 1.0), array.shape))
    if k == problem.active[0] and problem.columns is not None:
        direction = np.where(problem.columns, direction, 0.0)
    try:
        analytic = _tangent(problem, k, direction)
    except Exception as error:
        yield crashed("tangents", error, str(problem.sample))
        return
    numeric, noise = along(problem.model, problem.arrays, k, direction)
    size = float(np.abs(direction).max(initial=0.0))
    scale, floor = max(peak(numeric), peak(analytic)), run.floor(problem) * size
    bad = apart(analytic, numeric, noise, scale, floor)
    if bad.any():
        numeric, error_bound, noise = refine(problem.model, problem.arrays, k, direction)
        bad = apart(analytic, numeric, 8.0 * error_bound + noise, scale, floor)
    bad &= np.isfinite(analytic) | np.isfinite(numeric)
    if not bad.any():
        return
    j = worst(analytic, numeric, bad)
    yield Failure(
        "tangents",
        str(problem.sample),
        f"jvp gives something else than the numerical derivative along {problem.names[k]!r}",
        f"tangent of {problem.output_name(j)}",
        float(numeric[j]) / size,
        float(analytic[j]) / size,
        WRONG,
    )


def _tangent(problem: Problem, k: int, direction: Array) -> Array:
    """The tangent of all live outputs where ``arrays[k]`` has the tangent `direction`."""
    library = problem.target.library
    level = duals.enter()
    try:
        tensors = [library.tensor(array.copy()) for array in problem.arrays]
        tangent = library.tensor(direction.astype(problem.arrays[k].dtype))
        duals.attach(tensors[k], level, tangent)
        call = problem.target.call
        outputs = as_list(call(problem.args(tensors), problem.constants(tensors)))
        if problem.sample.through is not None:
            outputs = as_list(problem.sample.through(*outputs))
        found = [duals.tangent_of(out, level) for out in outputs]
    finally:
        duals.leave()
    return problem.join(
        [np.zeros(out.shape) if t is None else t.array for out, t in zip(outputs, found)]
    )
