"""Derivatives of operators whose outputs depend on many elements: by columns of the Jacobian, and along random directions.

The outputs are compared in two random sums, whose gradients are there already; the whole Jacobian, which takes one backward
per output element, is for what these find.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugrad.contract.checks.diagnosis import GENERIC, likely_cause
from plugrad.contract.checks.findings import both_infinite, failure, note_compared
from plugrad.contract.numeric import (
    SCALE_TOL,
    Function,
    along,
    apart,
    column,
    from_reals,
    jacobian_block,
    part_steps,
    peak,
    random_sizes,
    reals,
    refine,
    worst,
)
from plugrad.contract.problem import Problem
from plugrad.contract.report import Failure
from plugrad.contract.run import Run

__all__ = ["Sums", "agrees", "columns", "directions"]

Array = np.ndarray

ROWS = 24  # elements of the outputs up to which the whole Jacobian is compared
BUCKETS = 4


class Sums:
    """Two random sums of the outputs, each a function of one value, and their gradients.

    Attributes
    ----------
    weights : ndarray of shape (2, rows)
    gradients : list of ndarray of shape (2, columns)
        For each active input.
    """

    def __init__(self, problem: Problem, finite: Array) -> None:
        weights, gradients = [], []
        known = (problem.seeds, problem.gradients), (problem.others, problem.other_gradients)
        for seeds, found in known:
            flat = np.concatenate([reals(seed) for seed in seeds])
            if not finite.all():
                flat = np.where(finite, flat, 0.0)
                ends = np.cumsum([reals(seed).size for seed in seeds])[:-1]
                masked = zip(np.split(flat, ends), seeds)
                found = problem.recording.gradient(
                    [from_reals(part, seed).astype(seed.dtype) for part, seed in masked]
                )
            weights.append(flat)
            gradients.append(found)
        self.weights = np.stack(weights)
        self.gradients = [np.stack([reals(a), reals(b)]) for a, b in zip(*gradients)]


def _of_parts(mask: Array, x: Array) -> Array:
    """A mask of elements as one of ``reals(x)``."""
    flat = mask.reshape(-1)
    return np.repeat(flat, 2) if x.dtype.kind == "c" else flat


def _analytic(problem: Problem, rows: int, position: int) -> Array:
    """The Jacobian row by row: one backward per output element."""
    recording = problem.recording
    found = np.zeros((rows, reals(problem.arrays[problem.active[position]]).size))
    seeds = [np.zeros_like(seed) for seed in problem.seeds]
    row = 0
    for seed, weight in zip(seeds, problem.seeds):
        flat = reals(seed)
        for i, used in enumerate((reals(weight) != 0.0).tolist()):
            if used:
                flat[i] = 1.0
                found[row] = reals(recording.gradient(seeds)[position])
                flat[i] = 0.0
            row += 1
    return found


def columns(
    run: Run,
    problem: Problem,
    model: Function,
    position: int,
    sums: Sums,
    finite: Array,
    floor: float,
) -> Iterator[Failure]:
    """Every element of one input moves on its own; the sums are compared, then each output row."""
    k = problem.active[position]
    x = problem.arrays[k]
    numeric, noise = jacobian_block(model, problem.arrays, k, finite.size)
    by_row = finite.size <= (ROWS if run.quick else 128)
    weights: Array | None = None if by_row and not run.quick else sums.weights

    def reduce(block: Array, signed: bool = True) -> Array:
        if weights is None:
            return block
        return (weights if signed else np.abs(weights)) @ block

    def compare(analytic: Array) -> tuple[Array, Array, float]:
        compared = reduce(numeric)
        scale = max(peak(compared), peak(analytic))
        bad = apart(analytic, compared, reduce(noise, signed=False), scale, floor)
        bad &= ~both_infinite(analytic, compared)
        if position == 0 and problem.columns is not None:
            bad &= _of_parts(problem.columns, x)
        return compared, bad, scale

    def jacobian() -> Array:
        return np.where(finite[:, None], _analytic(problem, finite.size, position), 0.0)

    analytic = sums.gradients[position] if weights is not None else jacobian()
    compared, bad, scale = compare(analytic)
    note_compared(run, problem, k, analytic, compared)
    # A sum hides its other terms behind one that is not finite.
    doubtful = bad.any() or not np.isfinite(compared).all()
    if doubtful and by_row and weights is not None:
        weights = None
        analytic = jacobian()
        compared, bad, scale = compare(analytic)
    if not bad.any():
        return
    with np.errstate(all="ignore"):
        gap = np.where(bad, np.abs(analytic - compared), 0.0).max(axis=0)
    order = np.argsort(-np.where(np.isnan(gap), np.inf, gap))
    for j in order[: 8 if run.quick else None].tolist():
        if not bad[:, j].any():
            break
        slope, error, rounding = refine(model, problem.arrays, k, column(x, j))
        width = part_steps(x)[j]
        exact = reduce((slope / width)[:, None])[:, 0]
        slack = reduce(((8.0 * error + rounding) / width)[:, None], signed=False)[:, 0]
        noise_j = reduce((rounding / width)[:, None], signed=False)[:, 0]
        unsettled = ~(slack <= np.maximum(1e-3 * scale, 64.0 * noise_j))
        wrong = bad[:, j] & (apart(analytic[:, j], exact, slack, scale, floor) | unsettled)
        wrong &= ~both_infinite(analytic[:, j], exact)
        if wrong.any():
            i = worst(analytic[:, j], exact, wrong)
            out = problem.output_name(i) if weights is None else "(weighted sum of out)"
            where = f"d {out} / d {problem.input_name(k, j)}"
            cause = likely_cause(analytic, compared, bad)
            yield failure(
                run,
                problem,
                where,
                float(exact[i]),
                float(analytic[i, j]),
                not bool(unsettled[i]),
                cause,
            )
            return


# -------------------------------------------------------------------------------- random directions


def agrees(
    run: Run, problem: Problem, model: Function, position: int, sums: Sums, floor: float
) -> bool:
    """Whether one signed random direction finds nothing; nothing is known where it does."""
    k = problem.active[position]
    x = problem.arrays[k]
    h = part_steps(x)
    direction = h * random_sizes(run.rng, h.size)
    if position == 0 and problem.columns is not None:
        direction = np.where(_of_parts(problem.columns, x), direction, 0.0)
    gradient = sums.gradients[position]
    terms = np.where(direction == 0.0, 0.0, gradient * direction)
    slope, noise = along(model, problem.arrays, k, from_reals(direction, x))
    gap = np.abs(sums.weights @ slope - terms.sum(axis=1))
    allowed = SCALE_TOL * np.abs(terms).sum(axis=1) + floor * float(h.max())
    if not (gap <= allowed + np.abs(sums.weights) @ noise).all() or not np.isfinite(gap).all():
        return False
    note_compared(run, problem, k, gradient, gradient)
    return True


def directions(
    run: Run, problem: Problem, model: Function, position: int, sums: Sums, floor: float
) -> Iterator[Failure]:
    """Signed random directions; a wrong one is halved until it is an element."""
    k = problem.active[position]
    x = problem.arrays[k]
    gradient = sums.gradients[position]
    h = part_steps(x)
    h = h * run.rng.choice((-1.0, 1.0), h.size)
    movable = np.ones(h.size, dtype=bool)
    if position == 0 and problem.columns is not None:
        movable = _of_parts(problem.columns, x)

    def weighted(arrays: list[Array]) -> Array:
        return sums.weights @ model(arrays)

    def wrong(members: Array) -> tuple[float, float, bool] | None:
        moved = np.zeros(h.size)
        moved[members] = h[members]
        direction = from_reals(moved, x)
        slope, noise = along(model, problem.arrays, k, direction)
        analytic = gradient[:, members] @ h[members]
        scale = np.abs(gradient[:, members] * h[members]).sum(axis=1)
        numeric, slack = sums.weights @ slope, np.abs(sums.weights) @ noise
        if not apart(analytic, numeric, slack, scale, floor).any():
            return None
        exact, error, rounding = refine(weighted, problem.arrays, k, direction)
        rounding = np.maximum(rounding, slack)
        bad = apart(analytic, exact, 8.0 * error + rounding, scale, floor)
        if not bad.any():
            return None
        i = worst(analytic, exact, bad)
        settled = bool(error[i] <= max(1e-3 * scale[i], 64.0 * float(rounding[i])))
        return float(exact[i]), float(analytic[i]), settled

    note_compared(run, problem, k, gradient, gradient)
    order = run.rng.permutation(np.flatnonzero(movable))
    for bucket in np.array_split(order, BUCKETS if run.quick else 4 * BUCKETS):
        found = wrong(bucket) if bucket.size else None
        if found is None:
            continue
        while bucket.size > 1:
            halves = np.array_split(bucket, 2)
            results = [wrong(half) for half in halves]
            gaps = [-1.0 if r is None else abs(r[0] - r[1]) for r in results]
            best = int(np.argmax(gaps))
            narrowed = results[best]
            if narrowed is None:
                break
            bucket, found = halves[best], narrowed
        j = int(bucket[0])
        where = f"d (weighted sum of out) / d {problem.input_name(k, j)}"
        if bucket.size > 1:
            where = f"along {bucket.size} elements of {problem.names[k]!r} together"
            expected, got = found[0], found[1]
        else:
            expected, got = found[0] / h[j], found[1] / h[j]
        cause = GENERIC
        if bucket.size == 1:
            cause = (
                f"one of {x.size} elements: an index, a mask or a boundary, or a kink"
                if got or not expected
                else f"nothing flows to this one of {x.size} elements: an index, a mask or a boundary"
            )
        yield failure(run, problem, where, expected, got, found[2], cause)
        return
