"""What has a gradient and what has none: neither is silent about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from plugrad.contract.numeric import along, reals, steps
from plugrad.contract.problem import Problem, fits
from plugrad.contract.report import Failure
from plugrad.contract.run import Run

__all__ = ["check"]

Array = np.ndarray


def check(run: Run) -> Iterator[Failure]:
    """Declared differentiable outputs require grad; the others do not depend on the inputs smoothly."""
    for problem in run.problems:
        if not problem.active:
            continue
        dead = [
            i
            for i, out in enumerate(problem.outputs)
            if out.dtype.kind in "fc" and i not in problem.live
        ]
        declared = _declared(run, problem)
        if declared is not None:
            for i, without in enumerate(declared):
                if not without and i in dead:
                    yield Failure(
                        "outputs",
                        str(problem.sample),
                        f"output {i} is declared differentiable, but does not require grad: it was detached",
                    )
                if without and i in problem.live:
                    yield Failure(
                        "outputs",
                        str(problem.sample),
                        f"output {i} is declared non-differentiable, but requires grad",
                    )
        if dead:
            yield from _constant(run, problem, dead)


def _declared(run: Run, problem: Problem) -> list[bool] | None:
    schema = run.target.schema
    if schema is None or problem.sample.through is not None:
        return None
    if len(schema.nondifferentiable) == len(problem.outputs):
        return list(schema.nondifferentiable)
    return [bool(schema.nondifferentiable[0])] * len(problem.outputs)


def _constant(run: Run, problem: Problem, dead: list[int]) -> Iterator[Failure]:
    """Outputs without a gradient have a zero numerical Jacobian."""
    usable = [_usable(run, problem, problem.outputs[i].shape) for i in dead]

    def flat(arrays: Sequence[Array]) -> Array:
        found = problem.run(arrays)
        parts = [reals(np.where(keep, found[i], 0.0)) for i, keep in zip(dead, usable)]
        return np.concatenate(parts)

    for k in problem.active:
        x = problem.arrays[k]
        if not x.size:
            continue
        direction = steps(x) * run.rng.choice((-1.0, 1.0), x.shape)
        if x.dtype.kind == "c":
            direction = direction * (1 + 1j)
        if k == 0 and problem.columns is not None:
            direction = np.where(problem.columns, direction, 0.0)
        change, noise = along(flat, problem.arrays, k, direction)
        suspicious = np.isfinite(change) & (np.abs(change) > 16 * noise)
        if not suspicious.any():
            continue
        # A slope shrinks with the step; a jump at the sample itself, which rounding functions have, does not.
        smaller, _ = along(flat, problem.arrays, k, direction, 0.125)
        ratio = np.abs(smaller / np.where(suspicious, change, 1.0))
        sloped = suspicious & (ratio > 0.5) & (ratio < 2.0)
        if sloped.any():
            row = int(np.argmax(np.where(sloped, np.abs(change), -1.0)))
            yield Failure(
                "outputs",
                str(problem.sample),
                f"{_which(problem, dead, row)} has no gradient, but depends on {problem.names[k]!r}",
                hint="a detach() or .array inside forward, a missing requires_grad, or a wrong "
                "nondifferentiable=; what should differ from the true derivative declares surrogate=",
            )
            return


def _usable(run: Run, problem: Problem, shape: tuple[int, ...]) -> Array | bool:
    kinks = run.target.kinks
    if not callable(kinks):
        return True
    mask = problem.near_kink(problem.arrays, 1e-3)
    return ~np.broadcast_to(mask, shape) if fits(mask.shape, shape) else True


def _which(problem: Problem, dead: list[int], row: int) -> str:
    for i in dead:
        if row < reals(problem.outputs[i]).size:
            return f"output {i}"
        row -= reals(problem.outputs[i]).size
    return "an output"
