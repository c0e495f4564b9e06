"""A device against the CPU: the same calls give the same results within rounding, and the same errors.

(a) The CPU has passed its own battery, so its results in float64 are the truth; lower precisions are compared with float64
    on the device itself (`dtypes`), layouts with contiguous arrays there (`layout`).
(b) Tolerance is that of the check of dtypes: a number of roundings relative to the element and to the largest one around,
    and to what a rounding of the inputs does to the result. Libraries for the two devices differ by a few units in the
    last place in exp and its like, sums by their order, products by contraction.
(c) An error that depends on the values of arrays, such as an index out of range, is not asked of a device: telling it would
    mean waiting for the device in every call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plugrad.contract.checks.dtypes import conditioning, distance, too_far, widest
from plugrad.contract.numeric import shown
from plugrad.contract.problem import Problem
from plugrad.contract.recording import Recording
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, crashed

__all__ = ["against_cpu", "check", "check_errors", "check_kernel"]

Array = np.ndarray

INTEGERS = (np.int64, np.int32, np.uint8, np.bool_)
KERNEL = (
    "the kernel computes another formula than the reference function, reads elements it was not given, "
    "or leaves elements of its result unwritten"
)
BACKWARD = "the backward kernel for this device, or an operator that the rule calls, computes another formula"


def check(run: Run) -> Iterator[Failure]:
    """Every sample: outputs, gradients, dtypes, shapes, devices and aliasing; then with integers."""
    assert run.reference is not None
    for problem in run.problems:
        yield from against_cpu(run, problem, Problem(run.reference, problem.sample))
    if run.target.kind == "operator" and not run.target.schema.mutates:
        for problem in run.problems[:2] if run.quick else run.problems:
            yield from _integers(run, problem, Problem(run.reference, problem.sample))


def check_kernel(run: Run) -> Iterator[Failure]:
    """There is a kernel, by whatever `cuda=` names."""
    if run.target.kind != "operator":
        return
    try:
        run.target.op.kernel_on(run.device)
    except NotImplementedError as error:
        yield Failure("kernel", "", str(error))
    except ImportError as error:
        yield Failure(
            "kernel",
            "",
            str(error),
            hint="the file was not installed"
            if isinstance(error.__cause__, FileNotFoundError)
            else "the name in cuda= is misspelt, or its module does not import",
        )


def against_cpu(run: Run, problem: Problem, cpu: Problem) -> Iterator[Failure]:
    """Whether a call, which was prepared on the device, gives what the same one gives on the CPU."""
    recording, wanted = problem.record(), cpu.record()
    yield from _metas(run, problem, recording, wanted)
    if recording.live != wanted.live or len(recording.outputs) != len(wanted.outputs):
        yield Failure(
            "devices",
            str(problem.sample),
            f"differentiable outputs are {recording.live} of {len(recording.outputs)}, "
            f"on the CPU {wanted.live} of {len(wanted.outputs)}",
        )
        return
    yield from _aliases(run, problem, recording, cpu, wanted)
    cpu.live, cpu.seeds = wanted.live, problem.seeds
    cpu.outputs = [np.array(out.array) for out in wanted.outputs]
    cpu.gradients = wanted.gradient(problem.seeds) if problem.seeds and problem.active else []
    names = [f"output {i}" for i in range(len(cpu.outputs))]
    names += [f"the gradient of {problem.names[k]!r}" for k in problem.active]
    found = [*problem.outputs, *problem.gradients]
    high = cpu.outputs, cpu.gradients
    natural = cpu.natural_scale if cpu.gradients else 0.0
    noise: list[Array] | None = None
    for i, (got, want) in enumerate(zip(found, [*cpu.outputs, *cpu.gradients])):
        gradient = i >= len(cpu.outputs)
        bad = _wrong(got, want, natural if gradient else 0.0, 0.0)
        if not bad.any():
            continue
        if noise is None:
            noise = conditioning(run, cpu, cpu.arrays, problem.seeds, high, _dtype_of(cpu.outputs))
        bad &= _wrong(got, want, natural if gradient else 0.0, noise[i])
        if bad.any():
            yield _difference(problem, names[i], got, want, bad, BACKWARD if gradient else KERNEL)
            return


def _dtype_of(outputs: Sequence[Array]) -> np.dtype[Any]:
    floating = [out.dtype for out in outputs if out.dtype.kind in "fc"]
    return np.result_type(*floating) if floating else np.dtype(np.float64)


def _wrong(got: Array, want: Array, around: float, noise: Array | float) -> Array:
    if got.shape != want.shape:
        return np.ones(want.shape, dtype=bool)
    if want.dtype.kind not in "fc" or got.dtype.kind not in "fc":
        return np.asarray(got != want)
    bad = too_far(got, widest(want), got.dtype, around, noise)
    odd = ~np.isfinite(want)  # infinity and NaN have no error to be within
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.asarray(bad | (odd & ~same & ~(np.asarray(noise) > 0.0)))


def _difference(
    problem: Problem, what: str, got: Array, want: Array, bad: Array, hint: str
) -> Failure:
    if got.shape != want.shape:
        message = f"{what} has shape {list(got.shape)}, on the CPU {list(want.shape)}"
        return Failure("devices", str(problem.sample), message, hint=hint)
    j = int(np.argmax(np.where(bad, distance(got, widest(want)), -1.0)))
    count = int(bad.sum())
    which = "" if count == bad.size else f" in {count} of {bad.size} elements"
    return Failure(
        "devices",
        str(problem.sample),
        f"{what} ({got.dtype}) differs from the CPU's by more than rounding{which}",
        f"{what}, element {[int(p) for p in np.unravel_index(j, want.shape)]}",
        shown(want, j),
        shown(got, j),
        _sign(got, want, bad) or hint,
    )


def _sign(got: Array, want: Array, bad: Array) -> str:
    opposite = np.allclose(widest(got[bad]), -widest(want[bad]), rtol=1e-3)
    return "the sign is flipped" if opposite and np.any(want[bad]) else ""


def _metas(run: Run, problem: Problem, got: Recording, want: Recording) -> Iterator[Failure]:
    for i, (ours, theirs) in enumerate(zip(got.outputs, want.outputs)):
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            yield Failure(
                "devices",
                str(problem.sample),
                f"output {i} is {ours.dtype}{list(ours.shape)}, on the CPU {theirs.dtype}{list(theirs.shape)}",
                hint="a dtype or shape that the kernel chooses by itself: out_dtype=, or the dtype of its result array",
            )
        if ours.device != run.device:
            yield Failure(
                "devices",
                str(problem.sample),
                f"output {i} is on {ours.device!r} for inputs on {run.device!r}",
            )


def _aliases(
    run: Run, problem: Problem, got: Recording, cpu: Problem, want: Recording
) -> Iterator[Failure]:
    """An output shares memory with an input exactly if it does on the CPU."""
    library = run.target.library
    if problem.mutated:
        return
    for i, (ours, theirs) in enumerate(zip(got.returned, want.returned)):
        if not theirs.array.size:
            continue
        for k, (a, b) in enumerate(zip(got.passed, want.passed)):
            shares = np.shares_memory(theirs.array, b.array)
            if library.share_memory(ours, a) != bool(shares):
                yield Failure(
                    "devices",
                    str(problem.sample),
                    f"output {i} {'does not share' if shares else 'shares'} memory with the input "
                    f"{problem.names[k]!r}, unlike on the CPU",
                    hint="a kernel that returns its argument: copy it; or a view that was copied",
                )


# ------------------------------------------------------------------------------------------- integers


def _integers(run: Run, problem: Problem, cpu: Problem) -> Iterator[Failure]:
    """Where integers are allowed, the values rounded: what the CPU takes, the device takes with the same result."""
    kinds = run.target.schema.dtypes
    if problem.sample.through is not None or not problem.arrays:
        return
    if not all(kind in ("numeric", "number", "any", "integer") for kind in kinds):
        return
    if any(a.dtype.kind == "c" for a in problem.arrays):
        return
    for dtype in INTEGERS:
        arrays = [
            np.abs(np.rint(4 * a)).astype(dtype) if a.dtype.kind == "f" else a
            for a in problem.arrays
        ]
        try:
            wanted = cpu.run(arrays)
        except Exception:
            continue  # the operator does not take these
        try:
            found = problem.run(arrays)
        except Exception as error:
            yield crashed("devices", error, f"{problem.sample}, {np.dtype(dtype)}")
            return
        for i, (got, want) in enumerate(zip(found, wanted)):
            same_dtype = got.dtype == want.dtype
            bad = _wrong(got, want, 0.0, 0.0)
            if same_dtype and not bad.any():
                continue
            if not same_dtype:
                message = f"output {i} is {got.dtype} for {np.dtype(dtype)} inputs, on the CPU {want.dtype}"
                yield Failure("devices", str(problem.sample), message)
            else:
                what = f"output {i} for {np.dtype(dtype)} inputs"
                yield _difference(problem, what, got, want, bad, KERNEL)
            return


# --------------------------------------------------------------------------------------------- errors


def check_errors(run: Run) -> Iterator[Failure]:
    """What the shapes, dtypes and constants of a call make an error on the CPU is one of the same kind here."""
    assert run.reference is not None
    for sample in run.bad_calls:
        assert sample.raises is not None
        if not _always_raises(run, sample):
            continue
        try:
            problem = Problem(run.target, sample)
            problem.run(problem.arrays)
        except sample.raises:
            continue
        except Exception as error:
            got = f"raises {type(error).__name__}: {error}"
        else:
            got = "does not raise"
        yield Failure(
            "errors",
            str(sample),
            f"a call that raises {sample.raises.__name__} on the CPU {got}",
            hint="check the arguments at the top of the kernel's function, before it is launched",
        )


def _always_raises(run: Run, sample: Any) -> bool:
    """Whether a bad call is bad whatever the values in its arrays are."""
    rng = np.random.default_rng(7)

    def filled(array: Array, how: str) -> Array:
        if how == "random" and array.dtype.kind == "f":
            return rng.uniform(0.1, 0.9, array.shape)
        return np.full_like(array, 1 if how == "ones" else 0)

    for how in ("zeros", "ones", "random"):
        changed = replace(sample, args=tuple(_map(value, how, filled) for value in sample.args))
        assert run.reference is not None
        problem = Problem(run.reference, changed)
        try:
            problem.run(problem.arrays)
        except Exception:
            continue
        return False
    return True


def _map(value: Any, how: str, filled: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return filled(value, how)
    if isinstance(value, list | tuple):
        return type(value)(_map(item, how, filled) for item in value)
    return value
