"""Backward is linear in the incoming gradient."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugrad.contract.numeric import EPS, shown
from plugrad.contract.problem import Problem, element, weights_like
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, natural_scale, peak

__all__ = ["check"]

Array = np.ndarray

DOUBLE = "doubling the incoming gradient does not double"
ZERO = "an incoming gradient of zeros does not give zeros for"
SUM = "for the sum of two is not the sum of its gradients for each"
NOT_LINEAR = (
    "the incoming gradient is clipped, normalised, rounded or offset in backward; "
    'declare exempt="linearity" if that is meant'
)


def check(run: Run) -> Iterator[Failure]:
    """Doubling is exact, sums add up, zero gives zero, a missing gradient counts as zero."""
    for problem in run.differentiable:
        if "linearity" not in run.target.exempt:
            yield from _linear(run, problem, create_graph=False)
            if run.target.fused:
                yield from _linear(run, problem, create_graph=True)
        if len(problem.live) > 1:
            yield from _missing(problem)


def _linear(run: Run, problem: Problem, create_graph: bool) -> Iterator[Failure]:
    recording = problem.record()
    seeds = problem.seeds
    once = problem.gradients
    if create_graph:
        once = recording.gradient(seeds, create_graph)
    finite = [np.isfinite(g) for g in once]
    # A sum of two is rounded in the dtype of the output, which may be narrower than the input's.
    eps = max(
        [EPS, *(float(np.finfo(seed.dtype).eps) for seed in seeds if seed.dtype.kind in "fc")]
    )
    twice = recording.gradient([2 * seed for seed in seeds], create_graph)
    none = recording.gradient([np.zeros_like(seed) for seed in seeds], create_graph)
    other = [weights_like(run.rng, seed, seed != 0.0) for seed in seeds]
    second = recording.gradient(other, create_graph)
    joint = recording.gradient([a + b for a, b in zip(seeds, other)], create_graph)
    # Terms that cancel leave rounding of their own size, so all inputs share one scale.
    scale = max([natural_scale(problem), *(peak(a) + peak(b) for a, b in zip(once, second))])
    for position, k in enumerate(problem.active):
        tiny = 16 * float(np.finfo(once[position].dtype).tiny)
        use = finite[position] & np.isfinite(twice[position])
        name = problem.names[k]
        total = once[position] + second[position]
        checks = [
            (f"{DOUBLE} the gradient of {name!r}", twice[position], 2 * once[position], tiny),
            (f"{ZERO} the gradient of {name!r}", none[position], 0 * once[position], 0.0),
            (f"the gradient of {name!r} {SUM}", joint[position], total, 256 * eps * scale),
        ]
        for what, got, wanted, slack in checks:
            bad = use & ~(np.abs(got - wanted) <= slack)
            if bad.any():
                j = int(np.argmax(np.where(bad, np.abs(got - wanted), -1.0)))
                yield Failure(
                    "linearity",
                    str(problem.sample),
                    f"backward is not linear in its incoming gradient: {what}",
                    element(problem.names[k], j, wanted.shape),
                    shown(wanted, j),
                    shown(got, j),
                    NOT_LINEAR,
                )
                return


def _missing(problem: Problem) -> Iterator[Failure]:
    """A gradient for only one of several outputs is one with zeros for the others."""
    recording = problem.record()
    library = problem.target.library
    for i, live in enumerate(problem.live):
        zeros = [s if j == i else np.zeros_like(s) for j, s in enumerate(problem.seeds)]
        wanted = recording.gradient(zeros)
        found = library.grad(
            [recording.outputs[live]],
            recording.inputs,
            [library.tensor(problem.seeds[i])],
            False,
            True,
        )
        for k, got, want in zip(problem.active, found, wanted):
            got = np.zeros_like(want) if got is None else library.array(got)
            if not np.allclose(got, want, rtol=1e-12, atol=0.0, equal_nan=True):
                yield Failure(
                    "linearity",
                    str(problem.sample),
                    f"with a gradient for output {live} only, that of {problem.names[k]!r} differs from "
                    "the one with zeros for the other outputs",
                    hint="backward treats a missing incoming gradient as something else than zeros",
                )
                return
