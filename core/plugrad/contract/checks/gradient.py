"""First derivatives: backward against central differences of the forward, or of the declared surrogate.

(a) An operator that works element by element has all elements of an input moved at once.
(b) Otherwise every element of an input is moved on its own in one sample. In the others a signed random direction tells
    whether anything is wrong, and only then are they moved one by one to tell what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from plugrad.contract.checks.diagnosis import likely_cause
from plugrad.contract.checks.findings import both_infinite, check_name, failure, note_compared
from plugrad.contract.checks.jacobian import Sums, agrees, columns, directions
from plugrad.contract.numeric import (
    Function,
    apart,
    elementwise_slopes,
    peak,
    refine,
    steps,
    sum_to,
    worst,
)
from plugrad.contract.problem import Problem, element
from plugrad.contract.report import Failure
from plugrad.contract.run import Run

__all__ = ["check"]

Array = np.ndarray

ENOUGH = 6  # elements of an input that are worth moving one by one, where a sample has as many
SMALL = 48  # elements of an input that can all be moved one by one; larger ones go by directions


def check(run: Run) -> Iterator[Failure]:
    """Every sample, every floating input."""
    thorough = _thorough(run)
    for problem in run.differentiable:
        yield from _compare(run, problem, thorough)
    used = {problem.names[k] for problem in run.differentiable for k in problem.active}
    for name in sorted(used - run.compared):
        yield Failure(
            check_name(run),
            "",
            f"no sample lets the derivative with respect to {name!r} be compared: "
            "every element is empty, at a kink, or not finite",
            hint="add a sample with ordinary values",
        )


def _thorough(run: Run) -> dict[str, Problem]:
    """The sample in which each input has its elements moved one by one: the smallest that has enough of them."""
    found: dict[str, Problem] = {}
    costs: dict[str, int] = {}
    for problem in run.differentiable:
        if not all(np.isfinite(problem.outputs[i]).all() for i in problem.live):
            continue
        for k in problem.active:
            name, size = problem.names[k], problem.arrays[k].size
            cost = size if size >= ENOUGH else SMALL + ENOUGH - size
            if size <= SMALL and cost < costs.get(name, SMALL + ENOUGH):
                found[name], costs[name] = problem, cost
    return found


def _compare(run: Run, problem: Problem, thorough: dict[str, Problem]) -> Iterator[Failure]:
    floor = run.floor(problem)
    value = problem.join(problem.outputs)
    finite = np.isfinite(value)
    everywhere = bool(finite.all())
    sums: Sums | None = None

    def model(arrays: Sequence[Array]) -> Array:
        with_nan = problem.model(arrays)
        return with_nan if everywhere else np.where(finite, with_nan, 0.0)

    for position, k in enumerate(problem.active):
        x = problem.arrays[k]
        if not x.size or not value.size or not finite.any():
            continue
        movable = problem.columns if k == problem.active[0] else None
        if movable is not None and not movable.any():
            continue
        if problem.seeds and not any(seed.any() for seed in problem.seeds):
            continue
        parts = any(a.dtype.kind == "c" for a in (x, *problem.seeds))
        alone = problem.sample.through is None and len(problem.live) == 1 and not parts
        if run.target.elementwise and alone:
            yield from _elementwise(run, problem, model, position, finite, floor)
            continue
        sums = sums or Sums(problem, finite)
        if x.size > (SMALL if run.quick else 200):
            yield from directions(run, problem, model, position, sums, floor)
        elif (
            not run.quick
            or thorough.get(problem.names[k]) is problem
            or not agrees(run, problem, model, position, sums, floor)
        ):
            yield from columns(run, problem, model, position, sums, finite, floor)


def _elementwise(
    run: Run, problem: Problem, model: Function, position: int, finite: Array, floor: float
) -> Iterator[Failure]:
    """All elements move at once; every output element depends on one of them."""
    k = problem.active[position]
    x = problem.arrays[k]
    seed = problem.seeds[0]
    gradient = problem.gradients[position]
    movable = problem.columns if position == 0 else None
    h = steps(x)
    usable = finite.reshape(seed.shape)

    def gather(slope: Array, noise: Array) -> tuple[Array, Array]:
        weighted = np.where(usable & (seed != 0.0), seed * slope.reshape(seed.shape), 0.0)
        slack = np.where(usable, np.abs(seed) * noise.reshape(seed.shape), 0.0)
        return sum_to(weighted, x.shape), sum_to(slack, x.shape)

    numeric, slack = gather(*elementwise_slopes(model, problem.arrays, k, seed.shape, h))
    if not usable.all() or movable is not None:
        gradient = _masked_gradient(problem, position, usable)
    note_compared(run, problem, k, gradient, numeric)
    scale = max(peak(numeric), peak(gradient))
    bad = apart(gradient, numeric, slack, scale, floor) & ~both_infinite(gradient, numeric)
    if movable is not None:
        bad &= movable
    if not bad.any():
        return
    slope, error, noise = refine(model, problem.arrays, k, h)
    width = np.broadcast_to(h, seed.shape).reshape(-1)
    numeric, slack = gather(slope / width, (8.0 * error + noise) / width)
    _, rounding = gather(slope / width, noise / width)
    again = apart(gradient, numeric, slack, scale, floor)
    unsettled = ~(slack <= np.maximum(1e-3 * scale, 64.0 * rounding))
    bad &= (again | unsettled) & ~both_infinite(gradient, numeric)
    if bad.any():
        j = worst(gradient, numeric, bad)
        cause = likely_cause(gradient, numeric, bad)
        where = f"d (weighted sum of out) / d {element(problem.names[k], j, x.shape)}"
        if x.shape == seed.shape:
            where = f"d {problem.output_name(j)} / d {element(problem.names[k], j, x.shape)}"
            numeric, gradient = numeric / seed, gradient / seed
        settled = not bool(unsettled.reshape(-1)[j])
        expected, got = float(numeric.reshape(-1)[j]), float(gradient.reshape(-1)[j])
        yield failure(run, problem, where, expected, got, settled, cause)


def _masked_gradient(problem: Problem, position: int, usable: Array) -> Array:
    seeds = [np.where(usable, seed, 0.0).astype(seed.dtype) for seed in problem.seeds]
    gradient = problem.recording.gradient(seeds)[position]
    return np.where(np.isnan(gradient), problem.gradients[position], gradient)
