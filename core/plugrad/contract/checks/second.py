"""Second derivatives: what `create_graph` gives against numerical derivatives of backward itself.

The function checked is ``S(inputs, grads) = sum(w * backward(grads; inputs))`` with random weights ``w``. An operator
with a surrogate may also be right in a second sense: its gradient is the derivative of the surrogate with
`at` held fixed, so that its second derivative is the surrogate's.

Each evaluation of S is a forward and a backward, so all inputs and grads move at once first; when that disagrees, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from plugrad.contract.numeric import (
    EPS,
    RTOL,
    SCALE_TOL,
    along,
    along_all,
    apart,
    from_reals,
    part_steps,
    peak,
    random_sizes,
    reals,
    refine,
    steps,
    worst,
)
from plugrad.contract.problem import Problem, number_of, weights_like
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, crashed

__all__ = ["check"]

Array = np.ndarray

WRONG = (
    "part of backward is hidden from the graph (.array, NumPy, detach, a value computed in forward); "
    "write it with operators, or declare once_differentiable=True"
)


def check(run: Run) -> Iterator[Failure]:
    """Every sample with elements; for once-differentiable operators, that they say so."""
    for problem in run.differentiable:
        if not all(out.size for out in problem.outputs):
            continue
        if not any(problem.arrays[k].size for k in problem.active):
            continue
        if run.target.once_differentiable:
            yield from _must_raise(run, problem)
            if run.quick:
                return
            continue
        yield from _second_order(run, problem)


def _must_raise(run: Run, problem: Problem) -> Iterator[Failure]:
    """With and without incoming gradients that require grad themselves."""
    library = run.target.library
    if library.name != "plugrad":
        return  # PyTorch returns None or numbers there, which is no fault of the Function's
    for requires_grad in (True, False):
        recording = problem.record()
        seeds = [library.tensor(seed, requires_grad) for seed in problem.seeds]
        first = [g for g in recording.tensors(seeds, create_graph=True) if g is not None]
        variables = [*recording.inputs, *(seeds if requires_grad else ())]
        ones = [library.tensor(np.ones_like(library.array(g))) for g in first]
        try:
            if first:
                library.grad(first, variables, ones, False, False)
                yield Failure(
                    "second order",
                    str(problem.sample),
                    "is once_differentiable, but differentiating it twice gives numbers instead of an error",
                )
                return
        except RuntimeError as error:
            if "once_differentiable" not in str(error):
                hint = "the error must name once_differentiable"
                yield crashed("second order", error, str(problem.sample), hint)
                return


class _Second:
    """The analytic second derivative of one problem, and the function it is compared with."""

    def __init__(self, run: Run, problem: Problem) -> None:
        library = run.target.library
        self.problem = problem
        first = problem.by_rule
        self.weights = [weights_like(run.rng, g, np.isfinite(g)) for g in problem.gradients]
        if problem.columns is not None:
            self.weights[0] = np.where(problem.columns, self.weights[0], 0.0)
        live = [(g, w) for g, w in zip(first, self.weights) if g is not None and g.requires_grad]
        variables = [*problem.recording.inputs, *problem.grads]
        found: Sequence[object] = [None] * len(variables)
        if live:
            found = library.grad(
                [g for g, _ in live], variables, [library.tensor(w) for _, w in live], False, True
            )
        points = [*(problem.arrays[k] for k in problem.active), *problem.seeds]
        self.blocks = [
            np.zeros_like(point) if h is None else np.asarray(library.array(h), point.dtype)
            for h, point in zip(found, points)
        ]
        # Where a first derivative is infinite there is no second one to compare.
        self.blind = {k: ~np.isfinite(g) for k, g in zip(problem.active, problem.gradients)}
        self.points = [*problem.arrays, *problem.seeds]
        places = [*problem.active, *range(len(problem.arrays), len(self.points))]
        #: Which of the points have elements, and the derivative with respect to those.
        self.places = [place for place in places if self.points[place].size]
        self.blocks = [b for b, place in zip(self.blocks, places) if self.points[place].size]

    @property
    def size(self) -> float:
        """The sum of the absolute values of the terms of S, which is linear in the grads."""
        n = len(self.problem.arrays)
        by_grads = [(b, self.points[p]) for b, p in zip(self.blocks, self.places) if p >= n]
        return float(sum(np.abs(reals(b) * reals(grad)).sum() for b, grad in by_grads))

    @property
    def finite_everywhere(self) -> Array:
        """Where all first derivatives are finite, for arrays of one shape."""
        return ~np.logical_or.reduce(list(self.blind.values()))

    def gradients(self, points: list[Array]) -> list[Array]:
        """Backward itself, as a function of the inputs and the incoming gradients."""
        n = len(self.problem.arrays)
        recording = self.problem.record(points[:n])
        return recording.gradient(points[n:], keep=False)

    def total(self, points: list[Array]) -> Array:
        """S as a vector of one number."""
        parts = [
            np.sum(np.where(reals(w) == 0.0, 0.0, reals(w) * reals(g)))
            for w, g in zip(self.weights, self.gradients(points))
        ]
        return np.array([sum(parts)])

    def spread(self, points: list[Array]) -> Array:
        """S before its sum, for operators that work element by element on arrays of one shape."""
        parts = [
            np.where(w == 0.0, 0.0, w * g) for w, g in zip(self.weights, self.gradients(points))
        ]
        return sum(parts[1:], parts[0]).reshape(-1)


def _second_order(run: Run, problem: Problem) -> Iterator[Failure]:
    try:
        second = _Second(run, problem)
    except Exception as error:
        yield crashed("second order", error, str(problem.sample), WRONG)
        return
    shapes = {problem.arrays[k].shape for k in problem.active} | {s.shape for s in problem.seeds}
    dtypes = {problem.arrays[k].dtype.kind for k in problem.active} | {
        s.dtype.kind for s in problem.seeds
    }
    one_to_one = (
        run.target.elementwise
        and "c" not in dtypes
        and problem.sample.through is None
        and len(shapes) == 1
        and problem.columns is None
    )
    if (_agrees_element_by_element if one_to_one else _agrees)(run, problem, second):
        return
    for block, place in zip(second.blocks, second.places):
        found = (
            _one_to_one(run, problem, second, block, place)
            if one_to_one
            else _random_directions(run, problem, second, block, place)
        )
        if found is None:
            continue
        where, expected, got = found
        if run.target.surrogate is not None and _follows_surrogate(run, problem, second):
            return
        yield Failure(
            "second order",
            str(problem.sample),
            "differentiating backward gives something else than its numerical derivative",
            where,
            expected,
            got,
            WRONG,
        )
        return


def _label(problem: Problem, place: int, position: int | None) -> str:
    n = len(problem.arrays)
    if place < n:
        name = problem.names[place] if position is None else problem.input_name(place, position)
    else:
        name = f"grad {place - n}" if len(problem.seeds) > 1 else "grad"
        if position is not None:
            name = number_of(name, position, problem.seeds[place - n])
    return f"d (weighted sum of backward) / d {name}"


def _agrees_element_by_element(run: Run, problem: Problem, second: _Second) -> bool:
    """Whether one signed random direction, in which all points move at once, finds nothing."""
    directions, terms, least = {}, [], np.array(np.inf)
    for block, place in zip(second.blocks, second.places):
        h = steps(second.points[place])
        directions[place] = h * random_sizes(run.rng, h.size).reshape(h.shape)
        terms.append(block * directions[place])
        allowed = RTOL * np.abs(terms[-1])
        allowed += (SCALE_TOL * peak(block) + run.floor(problem)) * np.abs(directions[place])
        least = np.minimum(least, allowed)
    numeric, noise = along_all(second.spread, second.points, directions)
    analytic = sum(terms).reshape(-1)
    return bool((np.abs(analytic - numeric) <= least.reshape(-1) + noise).all())


def _agrees(run: Run, problem: Problem, second: _Second) -> bool:
    """Whether one signed random direction, in which all points move at once, finds nothing.

    At kinks, where seeds are zero, the inputs move first and then the grads: off the kink these count otherwise.
    """
    still = {
        place: _still(problem, second, block, place)
        for block, place in zip(second.blocks, second.places)
    }
    if any(infinite.any() for _, infinite in still.values()):
        return False
    n = len(problem.arrays)
    groups = [second.places]
    if not all(seed.all() for seed in problem.seeds):
        groups = [[p for p in second.places if p < n], [p for p in second.places if p >= n]]
    floor = run.floor(problem)
    for group in filter(None, groups):
        directions, analytic, least = {}, 0.0, np.inf
        for place in group:
            point, block = second.points[place], second.blocks[second.places.index(place)]
            h = part_steps(point)
            direction = np.where(still[place][0], 0.0, h * random_sizes(run.rng, h.size))
            directions[place] = from_reals(direction, point)
            terms = reals(block) * direction
            total, size = float(terms.sum()), float(np.abs(terms).sum())
            analytic += total
            # As little as the strictest of them allows on its own.
            allowed = RTOL * abs(total) + SCALE_TOL * size + floor * float(np.abs(direction).max())
            least = min(least, allowed)
        numeric, noise = along_all(second.total, second.points, directions)
        # Where terms of S cancel its rounding is that of the terms, whose sizes its derivatives by the grads tell.
        rounding = max(float(noise[0]), 8.0 * EPS * second.size)
        if not abs(analytic - float(numeric[0])) <= least + rounding:
            return False
    return True


def _still(problem: Problem, second: _Second, block: Array, place: int) -> tuple[Array, Array]:
    """Which of the real numbers of a point must not be moved, and which have an infinite derivative."""
    point = second.points[place]
    still = np.zeros(point.shape, dtype=bool)
    if place == problem.active[0] and problem.columns is not None:
        still = ~problem.columns
    infinite = ~np.isfinite(block)
    if place in second.blind:
        still = still | second.blind[place]
    else:
        out = problem.outputs[problem.live[place - len(problem.arrays)]]
        hidden = any(blind.any() for blind in second.blind.values())
        still = still | (infinite if hidden else ~np.isfinite(out))
    parts = 2 if point.dtype.kind == "c" else 1
    return np.repeat(still, parts), np.repeat(infinite, parts)


def _one_to_one(
    run: Run, problem: Problem, second: _Second, block: Array, place: int
) -> tuple[str, float, float] | None:
    """Element by element: all elements of one block move at once."""
    direction = steps(second.points[place])
    width = direction.reshape(-1)
    analytic = block.reshape(-1)
    slope, noise = along(second.spread, second.points, place, direction)
    numeric, slack = slope / width, noise / width
    scale = max(peak(numeric), peak(analytic))
    bad = apart(analytic, numeric, slack, scale, run.floor(problem))
    bad &= np.isfinite(analytic) | np.isfinite(numeric)
    bad &= second.finite_everywhere.reshape(-1)
    if not bad.any():
        return None
    slope, error, noise = refine(second.spread, second.points, place, direction)
    numeric = slope / width
    bad &= apart(analytic, numeric, (8.0 * error + noise) / width, scale, run.floor(problem))
    if not bad.any():
        return None
    j = worst(analytic, numeric, bad)
    return _label(problem, place, j), float(numeric[j]), float(analytic[j])


def _random_directions(
    run: Run, problem: Problem, second: _Second, block: Array, place: int
) -> tuple[str, float, float] | None:
    """Two signed random directions; when they disagree, the numbers one by one."""
    point = second.points[place]
    h = part_steps(point)
    floor = run.floor(problem)
    fixed, without = _still(problem, second, block, place)
    if without.any():
        # Such an element would hide the others, so it goes alone: it must have no numerical derivative either.
        for j in np.flatnonzero(without & ~fixed)[:4].tolist():
            found = _compare(second, block, place, _one(h, j), floor)
            if found is not None:
                return _label(problem, place, j), found[0] / h[j], found[1]
        fixed = fixed | without
        block = np.where(np.isfinite(block), block, 0.0)
    for _ in range(2 if run.quick else 6):
        direction = np.where(fixed, 0.0, h * random_sizes(run.rng, h.size))
        if _compare(second, block, place, direction, floor) is None:
            continue
        if point.size > 1 and point.size <= 256:
            for j in np.flatnonzero(direction).tolist():
                found = _compare(second, block, place, _one(direction, j), floor)
                if found is not None:
                    return (
                        _label(problem, place, j),
                        found[0] / float(direction[j]),
                        found[1] / float(direction[j]),
                    )
        found = _compare(second, block, place, direction, floor)
        if found is not None:
            size = float(np.abs(direction).max()) if point.size > 1 else float(direction.sum())
            return _label(problem, place, None), found[0] / size, found[1] / size
    return None


def _one(direction: Array, j: int) -> Array:
    alone = np.zeros(direction.shape)
    alone[j] = direction[j]
    return alone


def _compare(
    second: _Second, block: Array, place: int, direction: Array, floor: float
) -> tuple[float, float] | None:
    """`direction` moves the real numbers of a point: two of each complex one."""
    derivative, along_it = reals(block), from_reals(direction, second.points[place])
    analytic = np.array([np.sum(np.where(direction == 0.0, 0.0, derivative * direction))])
    numeric, noise = along(second.total, second.points, place, along_it)
    scale = float(
        np.abs(analytic[0])
        if not np.isfinite(analytic[0])
        else np.sum(np.abs(derivative * direction))
    )
    floor *= float(np.abs(direction).max())
    if not np.isfinite(analytic).any() and not np.isfinite(numeric).any():
        return None
    if not apart(analytic, numeric, noise, scale, floor)[0]:
        return None
    numeric, error, noise = refine(second.total, second.points, place, along_it)
    if not apart(analytic, numeric, 8.0 * error + noise, scale, floor)[0]:
        return None
    return float(numeric[0]), float(analytic[0])


def _follows_surrogate(run: Run, problem: Problem, second: _Second) -> bool:
    """Whether the second derivative is that of the surrogate with `at` held fixed."""
    seeds = np.concatenate([seed.reshape(-1) for seed in problem.seeds])
    n = len(problem.arrays)
    unit = np.finfo(np.float64).eps ** 0.25

    def value(shift: float, moved: int, direction: Array) -> float:
        """The weighted surrogate, all inputs moved along the weights, one block along `direction`."""
        arrays = list(problem.arrays)
        for k, w in zip(problem.active, second.weights):
            arrays[k] = arrays[k] + shift * w
        weighting = seeds
        if moved < n:
            arrays[moved] = arrays[moved] + direction
        else:
            parts = [s.reshape(-1) for s in problem.seeds]
            parts[moved - n] = parts[moved - n] + direction.reshape(-1)
            weighting = np.concatenate(parts)
        return float(weighting @ problem.model(arrays))

    for block, place in zip(second.blocks, second.places):
        point = second.points[place]
        direction = unit * run.rng.choice((-1.0, 1.0), point.shape)
        corners = [
            value(unit, place, direction) - value(-unit, place, direction),
            value(unit, place, -direction) - value(-unit, place, -direction),
        ]
        numeric = (corners[0] - corners[1]) / (4 * unit)
        analytic = float(np.sum(block * direction))
        size = float(np.sum(np.abs(block * direction))) + abs(numeric)
        if abs(numeric - analytic) > 1e-3 * size + 1e-6 * unit:
            return False
    return True
