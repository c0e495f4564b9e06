"""Lower precisions: forward and gradient against float64 on the rounded inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from plugrad.contract.checks.forward import expected_metas
from plugrad.contract.numeric import differs, limits, peak, shown
from plugrad.contract.problem import Problem, as_list, fits
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, crashed

__all__ = ["check", "conditioning", "distance", "too_far", "widest"]

Array = np.ndarray

ULPS = 32.0
TRIES = (
    8  # of moved inputs: two that must move apart to show anything move together in every other one
)
PRECISION = (
    "a constant or an intermediate in the wrong dtype, a formula that cancels or overflows, "
    "or a kernel for this dtype that differs from the others"
)


def check(run: Run) -> Iterator[Failure]:
    """Every sample in every lower dtype."""
    for dtype in run.target.lower_dtypes:
        for problem in run.problems:
            if problem.active and (dtype != np.float16 or not _is_complex(problem)):
                yield from _lower(run, problem, np.dtype(dtype))
    if run.target.kind == "operator" and not run.target.schema.mutates:
        for problem in run.problems:
            yield from _integers(run, problem)


def _cast(problem: Problem, arrays: list[Array], dtype: Any) -> list[Array]:
    """Complex arrays become those of two numbers of this dtype."""
    pairs = np.result_type(dtype, np.complex64)
    return [a.astype({"f": dtype, "c": pairs}.get(a.dtype.kind, a.dtype)) for a in arrays]


def _is_complex(problem: Problem) -> bool:
    return any(a.dtype.kind == "c" for a in (*problem.arrays, *problem.outputs))


def _run(
    problem: Problem, arrays: list[Array], seeds: list[Array], rule_too: bool = False
) -> tuple[list[Array], list[Array]]:
    """Outputs and gradients; after these, if asked for, the gradients by the rule that a backward kernel hides."""
    recording = problem.record(arrays)
    library = problem.target.library
    outputs = [library.array(out) for out in recording.outputs]
    wanted = [seed.astype(outputs[i].dtype) for i, seed in zip(recording.live, seeds)]
    if not wanted:
        return outputs, []
    found = recording.gradient(wanted)
    return outputs, found + recording.gradient(wanted, create_graph=True) if rule_too else found


def _lower(run: Run, problem: Problem, dtype: np.dtype[Any]) -> Iterator[Failure]:
    # A kernel gets half precision as float32; a rule rounds each intermediate, which may add up there.
    rule_too = run.target.fused and not run.target.once_differentiable and dtype == np.float32
    arrays = _cast(problem, problem.arrays, dtype)
    rounded = _cast(problem, arrays, np.float64)
    seeds = _cast(problem, problem.seeds, dtype)
    keep = _away_from_kinks(run, problem, rounded, dtype)
    if keep is not None:
        seeds = [
            np.where(keep, s, 0).astype(s.dtype) if fits(keep.shape, s.shape) else s for s in seeds
        ]
    try:
        low = _run(problem, arrays, seeds, rule_too)
    except Exception as error:
        if run.target.kind == "function" and isinstance(error, TypeError | NotImplementedError):
            return  # a Function does not say which dtypes it is for
        yield crashed("dtypes", error, f"{problem.sample}, {dtype}")
        return
    yield from _result_dtypes(problem, arrays, low, dtype)
    if keep is None and _near(run, problem, low, dtype):
        return
    wide = _cast(problem, seeds, np.float64)
    high = _run(problem, rounded, wide)
    names = [f"output {i}" for i in range(len(high[0]))]
    names += [f"the gradient of {problem.names[k]!r}" for k in problem.active]
    expected = [*high[0], *high[1]]
    noise: list[Array] | None = None
    scales = _scales(run, problem)
    for at, got in enumerate([*low[0], *low[1]]):
        by_rule = at >= len(expected)
        i = at - len(high[1]) if by_rule else at
        wanted = expected[i]
        # Terms that cancel leave rounding of their own size, not of the little that is left.
        bad = too_far(got, wanted, dtype, scales[i], 0.0)
        if keep is not None and got.shape == keep.shape:
            bad &= keep
        if not bad.any():
            continue
        if noise is None:
            noise = conditioning(run, problem, rounded, wide, high, dtype)
        bad &= too_far(got, wanted, dtype, scales[i], noise[i])
        if bad.any():
            j = int(np.argmax(np.where(bad, distance(got, wanted), -1.0)))
            yield Failure(
                "dtypes",
                str(problem.sample),
                f"{names[i]}{' by the rule' if by_rule else ''} in {dtype} differs from float64 on the same inputs by "
                "more than rounding",
                f"{names[i]}, element {[int(p) for p in np.unravel_index(j, wanted.shape)]}",
                shown(wanted, j),
                shown(got, j),
                PRECISION,
            )
            return


def _scales(run: Run, problem: Problem) -> list[float]:
    """What rounding of each output and gradient is relative to beside its own size."""
    own = [max(problem.natural_scale, run.slope(problem, k)) for k in problem.active]
    return [0.0] * len(problem.outputs) + own


def _near(
    run: Run, problem: Problem, low: tuple[list[Array], list[Array]], dtype: np.dtype[Any]
) -> bool:
    """Whether all is within rounding of what the inputs gave before they were rounded: then nothing else need be run."""
    scales, gradients = _scales(run, problem), len(problem.gradients)
    wanted = [*problem.outputs, *problem.gradients]
    if len(low[1]) > gradients:
        wanted += problem.gradients
        scales += scales[-gradients:]
    return not any(
        too_far(got, want, dtype, scale, 0.0).any()
        for got, want, scale in zip([*low[0], *low[1]], wanted, scales)
    )


def _integers(run: Run, problem: Problem) -> Iterator[Failure]:
    """Where integers are allowed, the kernel against the reference on the values rounded."""
    schema, function = run.target.schema, run.target.function
    if function is None or problem.sample.through is not None:
        return
    allowed = [kind in ("numeric", "number", "any") for kind in schema.dtypes]
    if not all(allowed) or not problem.active or _is_complex(problem):
        return
    arrays = [np.rint(4 * a).astype(np.int64) if a.dtype.kind == "f" else a for a in problem.arrays]
    args, constants = problem.point(function, arrays)
    try:
        wanted = as_list(function(*args, **constants))
        got = problem.run(arrays)
    except (TypeError, ValueError, RuntimeError, ArithmeticError):
        return  # integers of this kind are refused: a negative power, say
    for i, (a, b) in enumerate(zip(got, map(np.asarray, wanted))):
        b = np.broadcast_to(b, a.shape) if b.ndim <= a.ndim else b
        j = differs(a, b)
        if j is not None and b.size:
            yield Failure(
                "dtypes",
                str(problem.sample),
                f"on int64 inputs the {run.where} kernel and the reference function disagree on output {i}",
                f"element {j}",
                float(b.reshape(-1)[j]),
                float(a.reshape(-1)[j]),
                "a kernel for integers that divides, rounds or overflows differently",
            )
            return


def widest(array: Array) -> Array:
    """The array in float64, or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def distance(got: Array, wanted: Array) -> Array:
    with np.errstate(all="ignore"):
        distance = np.abs(widest(got) - wanted)
    return np.where(np.isnan(distance), np.inf, distance)


def too_far(
    got: Array, wanted: Array, dtype: np.dtype[Any], around: float, noise: Array | float
) -> Array:
    """Where `got` is further from `wanted` than rounding, overflow and underflow explain."""
    if got.shape != wanted.shape:
        return np.ones(wanted.shape, dtype=bool)
    if got.dtype.kind not in "fc" or wanted.dtype.kind not in "fc":
        bad = got != wanted
        return bad & ~(np.asarray(noise) > 0.0)
    eps, tiny, maximum = limits(dtype)
    size = np.abs(wanted)
    # An overflow elsewhere must not widen the tolerance of ordinary elements.
    scale = min(max(peak(size), around), maximum)
    allowed = ULPS * eps / 2.0 * (size + scale) + (4.0 * tiny + noise)
    bad = ~(np.abs(widest(got) - wanted) <= allowed)
    if not bad.any():
        return bad
    bad &= np.isfinite(wanted)
    overflow = (size > maximum / 16.0) & ~np.isfinite(got)
    return bad & ~overflow


def conditioning(
    run: Run,
    problem: Problem,
    arrays: list[Array],
    seeds: list[Array],
    high: tuple[list[Array], list[Array]],
    dtype: np.dtype[Any],
) -> list[Array]:
    """How much the float64 results move when the inputs move by a rounding of `dtype`."""
    base = [*high[0], *high[1]]
    moved = [np.zeros(a.shape) for a in base]
    eps = 2.0 * float(np.finfo(dtype).eps)
    for bit in (None, 0, 1, 2, None, 3, 4, 5):
        if bit is None:
            chosen = signs = [run.rng.choice((-1.0, 1.0), a.shape) for a in arrays]
        else:
            # Only a difference may matter: elements whose positions differ in this bit and moved together move apart.
            flips = [1.0 - 2.0 * (np.arange(a.size) >> bit & 1) for a in arrays]
            signs = [s * flip.reshape(s.shape) for s, flip in zip(chosen, flips)]
        shifted = [
            a * (1.0 + eps * s) if a.dtype.kind in "fc" else a for a, s in zip(arrays, signs)
        ]
        try:
            outputs, gradients = _run(problem, shifted, seeds)
        except Exception:
            continue
        for i, result in enumerate([*outputs, *gradients]):
            change = distance(result, base[i])
            moved[i] = np.maximum(moved[i], change)
    return [16.0 * m for m in moved]


def _result_dtypes(
    problem: Problem,
    arrays: list[Array],
    low: tuple[list[Array], list[Array]],
    dtype: np.dtype[Any],
) -> Iterator[Failure]:
    expected = None
    if problem.sample.through is None:
        expected = expected_metas(problem, arrays)
    chosen = any(isinstance(v, np.dtype | type) for v in problem.sample.constants.values())
    chosen |= any(isinstance(v, np.dtype | type) for v in problem.sample.args)
    for i, out in enumerate(low[0]):
        own = problem.outputs[i].dtype
        follows = np.result_type(dtype, np.complex64) if own.kind == "c" else dtype
        wanted = expected[i][1] if expected is not None and i < len(expected) else follows
        if expected is None and (chosen or own not in (np.float64, np.complex128)):
            continue  # its dtype does not follow the inputs'
        if out.dtype != wanted:
            yield Failure(
                "dtypes",
                str(problem.sample),
                f"output {i} is {out.dtype} for {dtype} inputs, expected {wanted}",
                hint="a Python float or float64 constant wrapped in np.array promotes the result",
            )
            return
    for k, gradient in zip(problem.active, low[1]):
        if gradient.dtype != arrays[k].dtype:
            yield Failure(
                "dtypes",
                str(problem.sample),
                f"the gradient of {problem.names[k]!r} is {gradient.dtype}, the input {arrays[k].dtype}",
            )
            return


def _away_from_kinks(
    run: Run, problem: Problem, rounded: list[Array], dtype: np.dtype[Any]
) -> Array | None:
    """Mask of elements that stay clear of predicate kinks by more than this dtype's rounding."""
    if not callable(run.target.kinks):
        return None
    size = max(
        (float(np.abs(a).max()) for a in rounded if a.size and a.dtype.kind in "fc"), default=1.0
    )
    tol = max(1e-3, 16.0 * float(np.finfo(dtype).eps) * max(size, 1.0))
    mask = problem.near_kink(rounded, tol)
    shapes = [out.shape for out in problem.outputs] + [a.shape for a in problem.arrays[:1]]
    if not mask.any():
        return None
    for shape in shapes:
        if fits(mask.shape, shape):
            return ~np.broadcast_to(mask, shape)
    return None
