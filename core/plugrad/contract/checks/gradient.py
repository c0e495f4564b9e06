"""First derivatives: backward against central differences of the forward, or of the declared surrogate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from plugrad.contract.checks.diagnosis import GENERIC, likely_cause
from plugrad.contract.numeric import (
    Function,
    along,
    apart,
    column,
    elementwise_slopes,
    from_reals,
    jacobian_block,
    part_steps,
    reals,
    refine,
    steps,
    sum_to,
    worst,
)
from plugrad.contract.problem import Problem, element
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, peak

__all__ = ["check"]

Array = np.ndarray

SMALL = 48  # elements of an input whose every column is perturbed; larger ones go by directions
ROWS = 24  # elements of the outputs up to which the whole Jacobian is compared
BUCKETS = 4

WRONG_SURROGATE = (
    "backward does not follow the declared surrogate: a mask, a scale, or `at` used where "
    "the surrogate differentiates"
)
UNSETTLED = (
    "the sample lies on a kink, a jump or the edge of the domain: move it, or declare kinks="
)


def check(run: Run) -> Iterator[Failure]:
    """Every sample, every floating input."""
    for problem in run.differentiable:
        yield from _compare(run, problem)
    used = {problem.names[k] for problem in run.differentiable for k in problem.active}
    for name in sorted(used - run.compared):
        yield Failure(
            _name(run),
            "",
            f"no sample lets the derivative with respect to {name!r} be compared: "
            "every element is empty, at a kink, or not finite",
            hint="add a sample with ordinary values",
        )


def _name(run: Run) -> str:
    return "gradient" if run.target.surrogate is None else "surrogate"


def _failure(
    run: Run,
    problem: Problem,
    where: str,
    expected: float,
    got: float,
    settled: bool,
    cause: str = GENERIC,
) -> Failure:
    surrogate = run.target.surrogate is not None
    against = "its surrogate's" if surrogate else "the numerical"
    message = f"the gradient differs from {against} derivative"
    hint = WRONG_SURROGATE if surrogate else cause
    if not settled:
        message = f"{against} derivative does not settle as the step shrinks"
        hint = UNSETTLED
    return Failure(_name(run), str(problem.sample), message, where, expected, got, hint)


def _compare(run: Run, problem: Problem) -> Iterator[Failure]:
    floor = run.floor(problem)
    value = problem.join(problem.outputs)
    finite = np.isfinite(value)
    jacobian: list[Array] | None = None
    largest = 200 if not run.quick else SMALL

    def model(arrays: Sequence[Array]) -> Array:
        with_nan = problem.model(arrays)
        return with_nan if finite.all() else np.where(finite, with_nan, 0.0)

    for position, k in enumerate(problem.active):
        x = problem.arrays[k]
        if not x.size or not value.size or not finite.any():
            continue
        movable = problem.columns if k == problem.active[0] else None
        if movable is not None and not movable.any():
            continue
        if problem.seeds and not any(seed.any() for seed in problem.seeds):
            continue
        parts = any(a.dtype.kind == "c" for a in (x, *problem.seeds))
        alone = problem.sample.through is None and len(problem.live) == 1 and not parts
        if run.target.elementwise and alone:
            yield from _elementwise(run, problem, model, position, finite, floor)
        elif x.size <= largest:
            if jacobian is None and value.size <= (ROWS if run.quick else 128):
                jacobian = _analytic(problem, value.size)
            yield from _columns(run, problem, model, position, jacobian, finite, floor)
        else:
            yield from _directions(run, problem, model, position, finite, floor)


# ----------------------------------------------------------------------------- elementwise operators


def _elementwise(
    run: Run, problem: Problem, model: Function, position: int, finite: Array, floor: float
) -> Iterator[Failure]:
    """All elements move at once; every output element depends on one of them."""
    k = problem.active[position]
    x = problem.arrays[k]
    seed = problem.seeds[0]
    gradient = problem.gradients[position]
    movable = problem.columns if position == 0 else None
    h = steps(x)
    usable = finite.reshape(seed.shape)

    def gather(slope: Array, noise: Array) -> tuple[Array, Array]:
        weighted = np.where(usable & (seed != 0.0), seed * slope.reshape(seed.shape), 0.0)
        slack = np.where(usable, np.abs(seed) * noise.reshape(seed.shape), 0.0)
        return sum_to(weighted, x.shape), sum_to(slack, x.shape)

    numeric, slack = gather(*elementwise_slopes(model, problem.arrays, k, seed.shape, h))
    if not usable.all() or movable is not None:
        gradient = _masked_gradient(problem, position, usable)
    _note_compared(run, problem, k, gradient, numeric)
    scale = max(peak(numeric), peak(gradient))
    bad = apart(gradient, numeric, slack, scale, floor) & ~_both_infinite(gradient, numeric)
    if movable is not None:
        bad &= movable
    if not bad.any():
        return
    slope, error, noise = refine(model, problem.arrays, k, h)
    width = np.broadcast_to(h, seed.shape).reshape(-1)
    numeric, slack = gather(slope / width, (8.0 * error + noise) / width)
    _, rounding = gather(slope / width, noise / width)
    again = apart(gradient, numeric, slack, scale, floor)
    unsettled = ~(slack <= np.maximum(1e-3 * scale, 64.0 * rounding))
    bad &= (again | unsettled) & ~_both_infinite(gradient, numeric)
    if bad.any():
        j = worst(gradient, numeric, bad)
        cause = likely_cause(gradient, numeric, bad)
        where = f"d (weighted sum of out) / d {element(problem.names[k], j, x.shape)}"
        if x.shape == seed.shape:
            where = f"d {problem.output_name(j)} / d {element(problem.names[k], j, x.shape)}"
            numeric, gradient = numeric / seed, gradient / seed
        settled = not bool(unsettled.reshape(-1)[j])
        pair = _pair(numeric.reshape(-1)[j], gradient.reshape(-1)[j])
        yield _failure(run, problem, where, *pair, settled, cause)


def _masked_gradient(problem: Problem, position: int, usable: Array) -> Array:
    seeds = [np.where(usable, seed, 0.0).astype(seed.dtype) for seed in problem.seeds]
    gradient = problem.record().gradient(seeds)[position]
    return np.where(np.isnan(gradient), problem.gradients[position], gradient)


def _note_compared(run: Run, problem: Problem, k: int, analytic: Array, numeric: Array) -> None:
    if (np.isfinite(analytic) & np.isfinite(numeric)).any():
        run.compared.add(problem.names[k])


def _of_parts(mask: Array, x: Array) -> Array:
    """A mask of elements as one of ``reals(x)``."""
    flat = mask.reshape(-1)
    return np.repeat(flat, 2) if x.dtype.kind == "c" else flat


def _both_infinite(a: Array, b: Array) -> Array:
    return ~np.isfinite(a) & ~np.isfinite(b)


def _pair(expected: float, got: float) -> tuple[float, float]:
    return float(expected), float(got)


# --------------------------------------------------------------------------------- small Jacobians


def _analytic(problem: Problem, rows: int) -> list[Array]:
    """The Jacobian row by row: one backward per output element."""
    recording = problem.record()
    found = [np.zeros((rows, reals(problem.arrays[k]).size)) for k in problem.active]
    seeds = [np.zeros_like(seed) for seed in problem.seeds]
    row = 0
    for seed, weight in zip(seeds, problem.seeds):
        flat = reals(seed)
        for i, used in enumerate((reals(weight) != 0.0).tolist()):
            if used:
                flat[i] = 1.0
                for block, gradient in zip(found, recording.gradient(seeds)):
                    block[row] = reals(gradient)
                flat[i] = 0.0
            row += 1
    return found


def _columns(
    run: Run,
    problem: Problem,
    model: Function,
    position: int,
    jacobian: list[Array] | None,
    finite: Array,
    floor: float,
) -> Iterator[Failure]:
    """Every element of one input moves on its own; every output row is compared, or their weighted sum."""
    k = problem.active[position]
    x = problem.arrays[k]
    numeric, noise = jacobian_block(model, problem.arrays, k, finite.size)
    seeds = np.concatenate([reals(seed) for seed in problem.seeds])

    def reduce(block: Array, weights: Array) -> Array:
        return block if jacobian is not None else (weights @ block)[None, :]

    if jacobian is not None:
        analytic = np.where(finite[:, None], jacobian[position], 0.0)
    else:
        seeds = np.where(finite, seeds, 0.0)
        analytic = reals(problem.gradients[position])[None, :]
        if not finite.all():
            parts = np.split(seeds, np.cumsum([reals(s).size for s in problem.seeds])[:-1])
            masked = [from_reals(p, s).astype(s.dtype) for p, s in zip(parts, problem.seeds)]
            analytic = reals(problem.record().gradient(masked)[position])[None, :]
    compared = reduce(numeric, seeds)
    _note_compared(run, problem, k, analytic, compared)
    scale = max(peak(compared), peak(analytic))
    bad = apart(analytic, compared, reduce(noise, np.abs(seeds)), scale, floor)
    bad &= ~_both_infinite(analytic, compared)
    if position == 0 and problem.columns is not None:
        bad &= _of_parts(problem.columns, x)
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
        exact = reduce((slope / width)[:, None], seeds)[:, 0]
        slack = reduce(((8.0 * error + rounding) / width)[:, None], np.abs(seeds))[:, 0]
        noise_j = reduce((rounding / width)[:, None], np.abs(seeds))[:, 0]
        unsettled = ~(slack <= np.maximum(1e-3 * scale, 64.0 * noise_j))
        wrong = bad[:, j] & (apart(analytic[:, j], exact, slack, scale, floor) | unsettled)
        wrong &= ~_both_infinite(analytic[:, j], exact)
        if wrong.any():
            i = worst(analytic[:, j], exact, wrong)
            out = problem.output_name(i) if jacobian is not None else "(weighted sum of out)"
            where = f"d {out} / d {problem.input_name(k, j)}"
            cause = likely_cause(analytic, compared, bad)
            pair = _pair(exact[i], analytic[i, j])
            yield _failure(run, problem, where, *pair, not bool(unsettled[i]), cause)
            return


# --------------------------------------------------------------------------------- large Jacobians


def _directions(
    run: Run, problem: Problem, model: Function, position: int, finite: Array, floor: float
) -> Iterator[Failure]:
    """Signed random directions; a wrong one is halved until it is an element."""
    k = problem.active[position]
    x = problem.arrays[k]
    seeds = np.concatenate([reals(seed) for seed in problem.seeds])
    seeds = np.where(finite, seeds, 0.0)
    gradient = reals(problem.gradients[position])
    h = part_steps(x)
    h = h * run.rng.choice((-1.0, 1.0), h.size)
    movable = np.ones(h.size, dtype=bool)
    if position == 0 and problem.columns is not None:
        movable = _of_parts(problem.columns, x)

    def weighted(arrays: list[Array]) -> Array:
        return np.array([seeds @ model(arrays)])

    def wrong(members: Array) -> tuple[float, float, bool] | None:
        moved = np.zeros(h.size)
        moved[members] = h[members]
        direction = from_reals(moved, x)
        slope, noise = along(model, problem.arrays, k, direction)
        analytic = np.array([gradient[members] @ h[members]])
        scale = float(np.abs(gradient[members] * h[members]).sum())
        numeric, slack = np.array([seeds @ slope]), np.array([np.abs(seeds) @ noise])
        if not apart(analytic, numeric, slack, scale, floor)[0]:
            return None
        exact, error, rounding = refine(weighted, problem.arrays, k, direction)
        rounding = np.maximum(rounding, slack)
        if not apart(analytic, exact, 8.0 * error + rounding, scale, floor)[0]:
            return None
        settled = bool(error[0] <= max(1e-3 * scale, 64.0 * float(rounding[0])))
        return float(exact[0]), float(analytic[0]), settled

    _note_compared(run, problem, k, gradient, gradient)
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
        yield _failure(run, problem, where, expected, got, found[2], cause)
        return
