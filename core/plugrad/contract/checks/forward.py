"""The forward keeps its declaration: inferred shape and dtype, aliasing, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from plugrad.contract.problem import Problem
from plugrad.contract.recording import Recording
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, crashed

__all__ = ["check", "expected_metas"]

Array = np.ndarray


def check(run: Run) -> Iterator[Failure]:
    """Everything that one recorded call can tell."""
    target = run.target
    if target.kind != "operator":
        return
    whole = None
    for problem in run.problems:
        recording = problem.recording
        outputs = [target.library.array(out) for out in recording.returned]
        yield from _aliasing(run, problem, recording, outputs)
        yield from _count(run, problem, outputs)
        yield from _infer(run, problem, outputs)
        if whole is None or max(out.size for out in outputs) > whole.outputs[0].size:
            whole = problem
    if target.elementwise and whole is not None:
        yield from _element_by_element(run, whole)


def _count(run: Run, problem: Problem, outputs: list[Array]) -> Iterator[Failure]:
    names = run.target.schema.outputs
    if len(names) > 1 and len(outputs) != len(names):
        yield Failure(
            "forward",
            str(problem.sample),
            f"gives {len(outputs)} outputs, but declares {len(names)}: {', '.join(names)}",
        )


def _aliasing(
    run: Run, problem: Problem, recording: Recording, outputs: list[Array]
) -> Iterator[Failure]:
    """An output shares memory with an input exactly if that is declared."""
    schema = run.target.schema
    viewed = problem.places[schema.view_of] if schema is not None and schema.view_of >= 0 else None
    # Mutated inputs were copied before the call; what is shared with those copies is meant to be.
    given = [run.target.library.array(tensor) for tensor in recording.passed]
    for i, out in enumerate(outputs):
        for k, array in enumerate(given):
            shared = np.may_share_memory(out, array) and np.shares_memory(out, array)
            if shared and k != viewed and k not in problem.mutated:
                yield Failure(
                    "forward",
                    str(problem.sample),
                    f"output {i} shares memory with the input {problem.names[k]!r}, which is not declared",
                    hint="forward returns its input or a view of it: copy it, or declare "
                    f"view_of={problem.names[k]!r}",
                )
            if k == viewed and out.size and not shared:
                yield Failure(
                    "forward",
                    str(problem.sample),
                    f"declares that it returns a view of {problem.names[k]!r}, but output {i} is a copy",
                    hint="np.reshape and fancy indexing copy when they cannot make a view",
                )


def expected_metas(
    problem: Problem, arrays: list[Array]
) -> list[tuple[tuple[int, ...], Any]] | None:
    """(shape, dtype) per output at `arrays` by the declaration, or None if it does not tell."""
    schema = problem.target.schema
    if schema is None:
        return None
    given, constants = problem.point(schema.infer, arrays)
    if schema.elementwise:
        shape = np.broadcast_shapes(*(v.shape for v in given if isinstance(v, np.ndarray)))
        floating = [
            v.dtype
            for v, kind in zip(given, schema.dtypes)
            if isinstance(v, np.ndarray)
            and v.dtype.kind in "fc"
            and kind not in ("integer", "bool")
        ]
        if schema.out_dtype == "real" and floating:
            return [(shape, np.result_type(*floating).type(0).real.dtype)] * len(schema.outputs)
        if schema.out_dtype is not None:
            return [(shape, np.dtype(schema.out_dtype))] * len(schema.outputs)
        return [(shape, np.result_type(*floating))] * len(schema.outputs) if floating else None
    if schema.infer is None:
        return None
    metas = [ArrayMeta(v.shape, v.dtype) if isinstance(v, np.ndarray) else v for v in given]
    found = schema.infer(*metas, **constants)
    several = isinstance(found, list)
    return [(tuple(shape), np.dtype(dtype)) for shape, dtype in (found if several else [found])]


@dataclass(frozen=True)
class ArrayMeta:
    """Shape, dtype and device as `infer` sees them: what the graph's Meta offers, for an array without a tensor."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: str = "cpu"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating one."""
        return self.dtype.kind == "f"

    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def _infer(run: Run, problem: Problem, outputs: list[Array]) -> Iterator[Failure]:
    try:
        expected = expected_metas(problem, problem.arrays)
    except Exception as error:
        yield crashed("forward", error, str(problem.sample), "infer= itself fails")
        return
    if expected is None:
        return
    got = [(out.shape, out.dtype) for out in outputs]
    if got != expected:
        says = "elementwise=True implies" if run.target.elementwise else "infer= gives"
        yield Failure(
            "forward",
            str(problem.sample),
            f"gives {_metas(got)}, but {says} {_metas(expected)}",
            hint="a keepdims, an axis or a dtype that forward and declaration treat differently",
        )


def _metas(metas: list[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{np.dtype(dtype)}{list(shape)}" for shape, dtype in metas)


def _element_by_element(run: Run, problem: Problem) -> Iterator[Failure]:
    """Moving half of the elements leaves the other half of the outputs alone, bit by bit."""
    if not problem.active or problem.outputs[0].size < 2:
        return
    k = problem.active[0]
    x = problem.arrays[k]
    chosen = np.arange(x.size).reshape(x.shape) % 2 == 0
    if x.size < 2:
        return
    moved = list(problem.arrays)
    moved[k] = np.where(chosen, x * 1.0009765625, x)
    for old, new in zip(problem.outputs, problem.run(moved)):
        untouched = ~np.broadcast_to(chosen, new.shape)
        changed = untouched & (old != new) & ~(np.isnan(old) & np.isnan(new))
        if changed.any():
            yield Failure(
                "forward",
                str(problem.sample),
                f"declares elementwise=True, but an output element depends on other elements of {problem.names[k]!r}",
                hint="a reduction, sort or normalisation inside forward: elementwise=True does not hold",
            )
            return
