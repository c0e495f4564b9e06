"""Exactly the named tensors are saved, and nothing outlives its use."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from plugrad.contract.problem import Problem
from plugrad.contract.recording import Recording
from plugrad.contract.report import Failure
from plugrad.contract.run import Run

__all__ = ["check"]

Array = np.ndarray

KEPT = (
    "forward or backward keeps a reference: a global, a cache, a closure, or a cycle through the node; "
    "name what backward needs as its parameters instead"
)


def check(run: Run) -> Iterator[Failure]:
    """On the first sample with elements, and on all of them when not quick."""
    if run.target.library.name != "plugrad":
        return
    able = [p for p in run.differentiable if any(out.size for out in p.outputs)]
    for problem in able[:1] if run.quick else able:
        arrays = [array.copy() for array in problem.arrays]
        if run.target.kind == "operator" and problem.sample.through is None:
            yield from _exactly_named(run, problem)
        yield from _let_go(run, problem, arrays)


def _node(recording: Recording) -> Any:
    return next(
        (t.grad_fn for t in recording.returned if t is not None and t.grad_fn is not None), None
    )


def _exactly_named(run: Run, problem: Problem) -> Iterator[Failure]:
    """The node's saved arrays are the inputs and outputs that backward names."""
    op = run.target.op
    recording = problem.record()
    node = _node(recording)
    if node is None or node.op is not op:
        return
    names = set(op._saved_names)
    schema = run.target.schema
    wanted: list[tuple[str, Array]] = []
    allowed: list[Array] = []
    for i, value in enumerate(problem.args(problem.arrays)):
        name = schema.inputs[min(i, len(schema.inputs) - 1)]
        arrays = value if isinstance(value, list) else [value]
        if name in names:
            wanted += [(name, a) for a in arrays if isinstance(a, np.ndarray)]
    outputs = [run.target.library.array(t) for t in recording.returned]
    for name, out in zip(schema.outputs, outputs):
        if name in names:
            wanted.append((name, out))
    library = run.target.library
    held = [library.host(v) for v in node.saved if library.is_array(v)]
    # A promoted input is saved after its cast, a mutated one as its copy: those are equal, not identical.
    allowed = [a for _, a in wanted]
    for array in held:
        if not any(array is a or _equal(array, a) for a in allowed):
            yield Failure(
                "memory",
                str(problem.sample),
                f"the node saves an array of shape {array.shape} that backward does not name "
                f"(it names {', '.join(sorted(names)) or 'nothing'})",
                hint=KEPT,
            )
            return
    if len(problem.active) < len(schema.inputs):
        return  # `when=` may leave out what only an absent gradient would need
    for name, a in wanted:
        if a.size and not any(array is a or _equal(array, a) for array in held):
            yield Failure(
                "memory",
                str(problem.sample),
                f"backward names {name!r}, but the node does not save it",
            )
            return


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def _let_go(run: Run, problem: Problem, arrays: list[Array]) -> Iterator[Failure]:
    """After backward the node holds nothing; when the tensors go, arrays and node go at once."""
    library = run.target.library
    recording = problem.record(arrays)
    node = _node(recording)
    if node is None:
        return
    watched = [
        (f"the input {name!r}", weakref.ref(tensor.array))
        for name, tensor in zip(problem.names, recording.passed)
    ]
    for i, out in enumerate(recording.returned):
        watched.append((f"output {i}", weakref.ref(out.array)))
    recording.gradient(problem.seeds, keep=False)
    held = [value for value in node.saved if library.is_array(value)]
    if held:
        yield Failure(
            "memory",
            str(problem.sample),
            f"the node still holds {len(held)} arrays after backward, {held[0].dtype}{list(held[0].shape)} first",
            hint=KEPT,
        )
        return
    del held
    out = None
    arrays.clear()
    del recording
    alive = [what for what, reference in watched if reference() is not None]
    if alive:
        gc.collect()
        alive = [what for what, reference in watched if reference() is not None] or [
            f"{alive[0]} (until the garbage collector runs: a reference cycle)"
        ]
        yield Failure(
            "memory",
            str(problem.sample),
            f"something keeps {alive[0]} alive after backward, when all tensors are gone",
            hint=KEPT,
        )
        return
    ghost = weakref.ref(node)
    del node
    if ghost() is not None:
        yield Failure(
            "memory",
            str(problem.sample),
            "something keeps the node alive after backward, when all tensors are gone",
            hint=KEPT,
        )
