"""Memory layout is invisible: strided inputs and incoming gradients give what contiguous copies give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from plugrad.contract.numeric import differs, shown
from plugrad.contract.problem import Problem
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, crashed

__all__ = ["check", "negative", "sliced", "stretched", "transposed"]

Array = np.ndarray

INPUTS = "a kernel that walks the buffer as if it were contiguous: use the strides, or np.ascontiguousarray"
SEEDS = "backward walks the incoming gradient as if it were contiguous; after .T, a slice or sum() it is not"


def transposed(array: Array) -> Array:
    """The same values with the axes of memory reversed (sliced, where there is one axis only)."""
    return array.T.copy().T if array.ndim > 1 else sliced(array)


def sliced(array: Array) -> Array:
    """The same values, two elements apart along the last axis."""
    if not array.ndim:
        return array.copy()
    wide = np.empty((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[...] = array.dtype.type(77)
    view = wide[..., ::2]
    view[...] = array
    return view


def negative(array: Array) -> Array:
    """The same values with every stride negative."""
    backwards = tuple(slice(None, None, -1) for _ in range(array.ndim))
    return array[backwards].copy()[backwards]


def stretched(array: Array) -> Array:
    """The first entry along every axis, repeated with stride 0."""
    first = array[tuple(slice(0, 1) for _ in range(array.ndim))].copy()
    return np.lib.stride_tricks.as_strided(first, array.shape, (0,) * array.ndim)


LAYOUTS: list[tuple[str, Callable[[Array], Array]]] = [
    ("transposed", transposed),
    ("sliced", sliced),
    ("negative-stride", negative),
]


def check(run: Run) -> Iterator[Failure]:
    """On the samples with most elements (all of them when not quick)."""
    able = [p for p in run.problems if any(a.ndim and a.size > 1 for a in [*p.arrays, *p.outputs])]
    able.sort(
        key=lambda p: (max(a.ndim for a in [*p.arrays, *p.outputs]), sum(a.size for a in p.arrays))
    )
    for problem in reversed(able[-2:] if run.quick else able):
        for label, change in LAYOUTS:
            yield from _same(run, problem, label, change)
        yield from _stride_0(run, problem)


def _evaluate(
    problem: Problem, arrays: Sequence[Array], seeds: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    recording = problem.record(arrays)
    library = problem.target.library
    outputs = [library.array(out) for out in recording.outputs]
    return outputs, recording.gradient(seeds) if seeds and problem.active else []


def _mismatch(
    problem: Problem,
    got: tuple[list[Array], list[Array]],
    wanted: tuple[list[Array], list[Array]],
    around: float = 0.0,
) -> tuple[str, str, float | complex | None, float | complex | None] | None:
    """What differs first: an output or a gradient, where, and both numbers."""
    names = [(f"output {i}", "out") for i in range(len(wanted[0]))]
    names += [(f"the gradient of {problem.names[k]!r}", problem.names[k]) for k in problem.active]
    for (what, _), a, b in zip(names, [*got[0], *got[1]], [*wanted[0], *wanted[1]]):
        position = differs(a, b, 1024, around)
        if position is not None and b.size:
            place = np.unravel_index(position, b.shape)
            where = f"{what}, element {[int(i) for i in place]}" if b.ndim else what
            return what, where, shown(b, position), shown(a, position)
    return None


def _same(
    run: Run, problem: Problem, label: str, change: Callable[[Array], Array]
) -> Iterator[Failure]:
    wanted = (problem.outputs, problem.gradients)
    arrays = [change(array) for array in problem.arrays]
    seeds = [change(seed) for seed in problem.seeds]
    may_refuse = run.target.schema is not None and run.target.schema.view_of >= 0
    try:
        found = _mismatch(problem, _evaluate(problem, arrays, seeds), wanted)
    except Exception as error:
        # A view that this layout has no strides for is refused with an error, which is right.
        if not may_refuse or not _refused(problem, arrays):
            yield crashed("layout", error, f"{problem.sample}, {label}", INPUTS)
        return
    if found is None:
        return
    # Both changed at once for speed; now tell which of them matters.
    alone = _mismatch(problem, _evaluate(problem, arrays, problem.seeds), wanted)
    whose, hint = ("inputs", INPUTS) if alone is not None else ("incoming gradients", SEEDS)
    what, where, expected, got = alone or found
    yield Failure(
        "layout",
        str(problem.sample),
        f"{what} changes when the {whose} are {label}",
        where,
        expected,
        got,
        hint,
    )


def _refused(problem: Problem, arrays: Sequence[Array]) -> bool:
    try:
        problem.run(arrays)
    except (RuntimeError, ValueError):
        return True
    return False


def _stride_0(run: Run, problem: Problem) -> Iterator[Failure]:
    """Stride-0 arrays hold equal values, so they have a baseline of their own."""
    if problem.seeds and problem.active:
        # Outputs at kinks have zero weight, which stretching would undo for those elements.
        masked = any((seed == 0.0).any() for seed in problem.seeds)
        seeds = [stretched(np.ones_like(seed) if masked else seed) for seed in problem.seeds]
        recording = problem.recording
        plain = recording.gradient([seed.copy() for seed in seeds])
        # Equal seeds cancel in a gradient that sums to zero (softmax): what is left is rounding of its terms.
        scale = problem.natural_scale
        found = _mismatch(problem, ([], recording.gradient(seeds)), ([], plain), scale)
        if found is not None:
            what, where, expected, got = found
            yield Failure(
                "layout",
                str(problem.sample),
                f"{what} changes when the incoming gradients have stride 0",
                where,
                expected,
                got,
                SEEDS,
            )
            return
    places = [
        k
        for k, array in enumerate(problem.arrays)
        if array.ndim and array.size > 1 and k not in problem.mutated
    ]
    # All at once for speed; where that leaves the domain or something differs, one by one.
    if len(places) > 1 and _same_stretched(problem, places):
        return
    for k in places:
        yield from _stretched(run, problem, k)


def _pair(problem: Problem, places: Sequence[int]) -> tuple[list[Array], list[Array]]:
    """The inputs with stride 0 in some places, and contiguous copies of those."""
    arrays, contiguous = list(problem.arrays), list(problem.arrays)
    for k in places:
        arrays[k] = stretched(problem.arrays[k])
        contiguous[k] = arrays[k].copy()
    return arrays, contiguous


def _same_stretched(problem: Problem, places: Sequence[int]) -> bool:
    arrays, contiguous = _pair(problem, places)
    try:
        wanted = _evaluate(problem, contiguous, problem.seeds)
        if not all(np.isfinite(array).all() for part in wanted for array in part):
            return False
        return _mismatch(problem, _evaluate(problem, arrays, problem.seeds), wanted) is None
    except Exception:
        return False


def _stretched(run: Run, problem: Problem, k: int) -> Iterator[Failure]:
    """One input with stride 0 against a contiguous copy."""
    arrays, contiguous = _pair(problem, [k])
    try:
        wanted = _evaluate(problem, contiguous, problem.seeds)
    except Exception:
        return  # equal values are outside the domain
    try:
        found = _mismatch(problem, _evaluate(problem, arrays, problem.seeds), wanted)
    except Exception as error:
        may_refuse = run.target.schema is not None and run.target.schema.view_of >= 0
        if not may_refuse or not _refused(problem, arrays):
            yield crashed("layout", error, f"{problem.sample}, stride 0", INPUTS)
        return
    if found is not None:
        what, where, expected, got = found
        yield Failure(
            "layout",
            str(problem.sample),
            f"{what} changes when the input {problem.names[k]!r} has stride 0",
            where,
            expected,
            got,
            INPUTS,
        )
