"""Exactly at a declared kink the derivative is the declared one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugrad.contract.problem import Problem
from plugrad.contract.report import Failure
from plugrad.contract.run import Run
from plugrad.contract.samples import Sample

__all__ = ["check"]


def check(run: Run) -> Iterator[Failure]:
    """One call per set of constants, with every kink value in the first input."""
    kinks = run.target.kinks
    if not isinstance(kinks, dict) or not kinks or run.target.nondifferentiable:
        return
    seen: set[str] = set()
    for problem in run.differentiable:
        key = repr((problem.sample.constants, [p for p in problem.places if isinstance(p, tuple)]))
        if problem.active[0] != 0 or not problem.outputs[0].size or key in seen:
            continue
        if isinstance(problem.places[0], int):
            seen.add(key)
            yield from _at_kinks(run, problem)


def _at_kinks(run: Run, problem: Problem) -> Iterator[Failure]:
    declared = problem.point(run.target.op, problem.arrays)[1]
    values = np.array([float(v) for v in run.target.kinks])
    wanted = np.array(
        [float(d(**declared) if callable(d) else d) for d in run.target.kinks.values()]
    )
    firsts = [array.reshape(-1)[:1].reshape(()) for array in problem.arrays]
    items = [values, *firsts[1:]]
    sample = Sample(tuple(problem.args(items)), problem.constants(items), label="kinks")
    at = Problem(run.target, sample)
    at.arrays[0] = values  # Problem moved them away
    recording = at.record()
    seed = np.array([1.5, -0.75, 1.25])[np.arange(values.size) % 3]
    seeds = [
        seed.astype(run.target.library.array(recording.outputs[i]).dtype) for i in recording.live
    ]
    got = recording.gradient(seeds)[0] / (seed * len(seeds))
    bad = ~(np.abs(got - wanted) <= 1e-9 * np.maximum(np.abs(wanted), 1.0))
    if bad.any():
        i = int(np.argmax(bad))
        yield Failure(
            "kinks",
            str(sample),
            f"the derivative at the kink {values[i]:g} is not the declared one",
            f"d out / d {problem.names[0]} at {values[i]:g}",
            float(wanted[i]),
            float(got[i]),
            "a comparison with >= where > was meant, or the other way round",
        )
