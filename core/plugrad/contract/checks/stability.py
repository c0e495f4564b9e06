"""Nothing is changed that was passed in, and the same call gives the same bits.

`check_unchanged` makes the call again, with and without ``create_graph``; it leaves the results to the checks that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from plugrad.contract.problem import Problem
from plugrad.contract.recording import Recording
from plugrad.contract.report import Failure
from plugrad.contract.run import Run

__all__ = ["check_determinism", "check_unchanged"]

IN_PLACE = "an in-place NumPy call (out=, +=, *=, sort()) where a new array is needed"


TWICE = "when the same call is made twice"
RACE = "a missing __syncthreads() or __syncwarp(), or an atomic sum, whose order is left to chance"


def check_unchanged(run: Run) -> Iterator[Failure]:
    """Forward leaves its inputs alone; backward its inputs, outputs and incoming gradients."""
    for problem in run.problems:
        yield from _unchanged(run, problem)


def _unchanged(run: Run, problem: Problem) -> Iterator[Failure]:
    library = run.target.library
    arrays = [array.copy() for array in problem.arrays]
    before = [array.tobytes() for array in arrays]
    library.dirty([*problem.outputs, *problem.gradients])
    recording = problem.record(arrays)
    outputs = [library.array(out) for out in recording.outputs]
    for k, tensor in enumerate(recording.passed):
        if k not in problem.mutated and library.array(tensor).tobytes() != before[k]:
            yield Failure(
                "unchanged",
                str(problem.sample),
                f"forward changes its input {problem.names[k]!r} in place",
                hint=f"{IN_PLACE}; an operator that must do so declares mutates={problem.names[k]!r}",
            )
            return
    if not (recording.live and problem.active):
        problem.again = outputs, []
        return
    # A seed that the engine owns could be lent to the rule; these are the caller's.
    seeds = [library.tensor(seed.copy()) for seed in problem.seeds]
    found: list[Any] = []
    changed = _changes(
        run, problem, recording, seeds, lambda: found.extend(recording.tensors(seeds))
    )
    if not changed:
        problem.again = outputs, recording.arrays(found)
        if not run.target.once_differentiable:
            changed = _changes(
                run, problem, problem.recording, problem.grads, lambda: problem.by_rule
            )
    if changed:
        yield Failure(
            "unchanged",
            str(problem.sample),
            f"backward changes {changed} in place",
            hint=f"{IN_PLACE}; other users of the same array then get a wrong gradient",
        )


def _changes(
    run: Run,
    problem: Problem,
    recording: Recording,
    seeds: list[Any],
    backward: Callable[[], Any],
) -> str:
    """What a run of backward changes: an input, an output, a saved value or an incoming gradient."""
    library = run.target.library
    watched: list[tuple[str, Any]] = [
        (f"its input {name!r}", library.raw(t)) for name, t in zip(problem.names, recording.passed)
    ]
    watched += [(f"its output {i}", library.raw(t)) for i, t in enumerate(recording.outputs)]
    watched += [("its incoming gradient", library.raw(seed)) for seed in seeds]
    watched += [("a saved value", value) for value in _saved(run, recording.returned)]
    before = [library.host(array).tobytes() for _, array in watched]
    backward()
    return next(
        (
            what
            for (what, array), old in zip(watched, before)
            if library.host(array).tobytes() != old
        ),
        "",
    )


def _saved(run: Run, outputs: list[Any]) -> list[Any]:
    node = next((t.grad_fn for t in outputs if getattr(t, "grad_fn", None) is not None), None)
    return [v for v in getattr(node, "saved", ()) if run.target.library.is_array(v)]


def check_determinism(run: Run) -> Iterator[Failure]:
    """The same call gives the same bits twice, forward and backward."""
    why = (
        "the generator passed as a constant is not the only source of random numbers"
        if run.target.random
        else "uninitialised memory (np.empty), hidden state, or random numbers without a generator"
    )
    library = run.target.library
    for problem in run.problems:
        ways: list[tuple[str, AbstractContextManager[Any]]] = [(TWICE, nullcontext())]
        ways += library.orders()
        for when, way in ways:
            again = problem.again
            if when != TWICE or again is None:
                library.dirty([*problem.outputs, *problem.gradients])
                with way:
                    again = _call_again(run, problem)
            changed = _what_changed(problem, *again)
            if changed:
                hint = why if when == TWICE else RACE
                yield Failure(
                    "determinism", str(problem.sample), f"{changed} differs {when}", hint=hint
                )
                return


def _call_again(run: Run, problem: Problem) -> tuple[list[np.ndarray], list[np.ndarray]]:
    recording = problem.record()
    outputs = [run.target.library.array(out) for out in recording.outputs]
    both = problem.live and problem.active
    return outputs, recording.gradient(problem.seeds) if both else []


def _what_changed(problem: Problem, outputs: list[np.ndarray], gradients: list[np.ndarray]) -> str:
    """The output or gradient whose bits are others when the call is made again."""
    for i, (new, old) in enumerate(zip(outputs, problem.outputs)):
        if not same_bits(new, old):
            return f"output {i}"
    for k, new, old in zip(problem.active, gradients, problem.gradients):
        if not same_bits(new, old):
            return f"the gradient of {problem.names[k]!r}"
    return ""


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal shape, dtype and bytes (any NaN equals any NaN)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
