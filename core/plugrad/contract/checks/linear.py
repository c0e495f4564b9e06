"""Backward is linear in the incoming gradient."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugrad.contract.numeric import EPS, limits, peak, shown
from plugrad.contract.problem import Problem, element
from plugrad.contract.report import Failure
from plugrad.contract.run import Run

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
    """Doubling is exact, sums add up, zero gives zero, a missing gradient counts as zero.

    In the first sample, and in all when not quick. In the others one sum shows whether they must be asked, and so does
    what the rule gives beside a fused kernel.
    """
    able = [p for p in run.differentiable if any(gradient.size for gradient in p.gradients)]
    for i, problem in enumerate(able):
        if "linearity" not in run.target.exempt:
            if not (run.quick and i) or not _adds_up(problem):
                yield from _linear(run, problem, create_graph=False)
            if run.target.fused and not (run.quick and _adds_up(problem, create_graph=True)):
                yield from _linear(run, problem, create_graph=True)
        if len(problem.live) > 1:
            yield from _missing(problem)


def _adds_up(problem: Problem, create_graph: bool = False) -> bool:
    """Whether zeros give zeros, and a sum of known seeds the sum of their gradients."""
    recording = problem.recording
    none = recording.gradient([np.zeros_like(seed) for seed in problem.seeds], create_graph)
    mixed = [2 * a + b for a, b in zip(problem.seeds, problem.others)]
    found = recording.gradient(mixed, create_graph)
    for got, zero, a, b in zip(found, none, problem.gradients, problem.other_gradients):
        wanted = 2 * a + b
        use = np.isfinite(wanted)
        slack = 256 * _eps(problem) * max(problem.natural_scale, peak(wanted))
        if zero[use].any() or not (np.abs(got - wanted)[use] <= slack).all():
            return False
    return True


def _eps(problem: Problem) -> float:
    """A sum of two is rounded in the dtype of the output, which may be narrower than the input's."""
    return max([EPS, *(limits(s.dtype)[0] for s in problem.seeds if s.dtype.kind in "fc")])


def _linear(run: Run, problem: Problem, create_graph: bool) -> Iterator[Failure]:
    recording = problem.recording
    seeds, other = problem.seeds, problem.others
    once, second = problem.gradients, problem.other_gradients
    if create_graph:
        once, second = (recording.gradient(part, create_graph) for part in (seeds, other))
    finite = [np.isfinite(g) for g in once]
    eps = _eps(problem)
    twice = recording.gradient([2 * seed for seed in seeds], create_graph)
    none = recording.gradient([np.zeros_like(seed) for seed in seeds], create_graph)
    joint = recording.gradient([a + b for a, b in zip(seeds, other)], create_graph)
    # Terms that cancel leave rounding of their own size, so all inputs share one scale.
    scale = max([problem.natural_scale, *(peak(a) + peak(b) for a, b in zip(once, second))])
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
    recording = problem.recording
    library = problem.target.library
    alone = [
        recording.arrays(
            library.grad([recording.outputs[live]], recording.inputs, [seed], False, True)
        )
        for live, seed in zip(problem.live, map(library.tensor, problem.seeds))
    ]
    if _complete(problem, alone):
        return
    for i, found in enumerate(alone):
        zeros = [s if j == i else np.zeros_like(s) for j, s in enumerate(problem.seeds)]
        for k, got, want in zip(problem.active, found, recording.gradient(zeros)):
            if not np.allclose(got, want, rtol=1e-12, atol=0.0, equal_nan=True):
                yield Failure(
                    "linearity",
                    str(problem.sample),
                    f"with a gradient for output {problem.live[i]} only, that of {problem.names[k]!r} differs from "
                    "the one with zeros for the other outputs",
                    hint="backward treats a missing incoming gradient as something else than zeros",
                )
                return


def _complete(problem: Problem, alone: list[list[Array]]) -> bool:
    """Whether the gradients for each output alone sum to the one for all, as they do where the others count as zero."""
    for total, *parts in zip(problem.gradients, *alone):
        size = sum(np.abs(part) for part in parts)
        if not (np.abs(sum(parts) - total) <= 64 * _eps(problem) * peak(size)).all():
            return False
    return True
