"""Numerical derivatives of functions of arrays, and when two derivatives agree.

(a) Steps. The central difference ``(f(x + h) - f(x - h)) / 2h`` errs by ``h**2 f'''/6 + eps |f| / h``, least
    near ``h = eps**(1/3) |x|``. The step is scaled per element and rounded to a power of two, so that
    ``x + h`` is exact and a linear function is differentiated without error.
(b) Tolerance. A difference counts relative to the element, to the largest derivative of the same block
    (so that an operator scaled by 1e-6 is held as strictly) and to the rounding of ``f`` over the step.
(c) Suspicion costs, agreement does not. Two evaluations settle almost every element. One that seems
    wrong is evaluated again at twelve steps, to which the error terms are fitted; only what disagrees by
    more than the residuals of the fit is wrong.
(d) A complex number is two real ones. Functions are seen as real ones of real numbers, and so are gradients: with respect
    to the real part, and in the imaginary part with respect to the imaginary part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np

__all__ = [
    "EPS",
    "RTOL",
    "SCALE_TOL",
    "along",
    "along_all",
    "apart",
    "column",
    "differs",
    "elementwise_slopes",
    "from_reals",
    "jacobian_block",
    "limits",
    "part_steps",
    "peak",
    "random_sizes",
    "reals",
    "refine",
    "shown",
    "steps",
    "sum_to",
    "worst",
]

EPS = float(np.finfo(np.float64).eps)
CBRT_EPS = EPS ** (1 / 3)
RTOL = 1e-6
SCALE_TOL = 1e-8

Array = np.ndarray
Function = Callable[[list[Array]], Array]
"""Arrays to a vector of float64: every differentiable output, raveled and concatenated."""


def reals(array: Array) -> Array:
    """The real numbers that an array holds, in one dimension: of a complex number first the real part."""
    flat = np.asarray(array).reshape(-1)
    return np.ascontiguousarray(flat).view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def from_reals(numbers: Array, like: Array) -> Array:
    """float64 numbers in the shape of an array, and in pairs where that is complex."""
    if like.dtype.kind != "c":
        return numbers.reshape(like.shape)
    return np.ascontiguousarray(numbers, np.float64).view(np.complex128).reshape(like.shape)


def peak(array: Array) -> float:
    """Largest finite magnitude; 0 for an empty array."""
    if not array.size:
        return 0.0
    largest = float(np.abs(array).max())
    if isfinite(largest):
        return largest
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def shown(array: Array, position: int) -> float | complex | None:
    """The number at a flat position, for a report."""
    if position >= array.size:
        return None
    value = array.reshape(-1)[position]
    return complex(value) if array.dtype.kind == "c" else float(value)


def steps(x: Array) -> Array:
    """A power of two near ``eps**(1/3) * |x|`` per element, for each part of a complex one the same.

    An element much smaller than its neighbours takes its scale from them, but no more than a
    twentieth of it, so that one near the edge of a domain is not pushed across.
    """
    magnitude = np.abs(x)
    largest = float(magnitude.max()) if magnitude.size else 0.0
    if not isfinite(largest):
        finite = np.isfinite(magnitude)
        largest = float(magnitude[finite].max()) if finite.any() else 0.0
        magnitude = np.where(finite, magnitude, 1.0)
    floor = 0.05 * min(largest, 1.0) if largest > 0.0 else 1.0
    wanted = CBRT_EPS * np.maximum(magnitude, floor)
    return np.ldexp(1.0, np.frexp(wanted)[1])


def _shifted(arrays: Sequence[Array], k: int, shift: Array) -> list[Array]:
    moved = list(arrays)
    moved[k] = moved[k] + shift
    return moved


def random_sizes(rng: np.random.Generator, count: int) -> Array:
    """Between 0.5 and 1 of either sign, in units of 1 / 1024.

    Times a step they are exact, and two are seldom equal: errors that are equal and opposite do not cancel along them.
    """
    numbers = rng.uniform(-512.0, 512.0, count)
    return (np.rint(numbers) + np.copysign(512.0, numbers)) / 1024.0


def along(
    f: Function, arrays: Sequence[Array], k: int, direction: Array, t: float = 1.0
) -> tuple[Array, Array]:
    """Derivative of `f` as ``arrays[k]`` moves along `direction`, and its rounding error.

    Returns
    -------
    slope, noise : ndarray
        One entry per entry of ``f(arrays)``; the slope is per unit of `direction`, not of its length.
    """
    shift = direction * t
    plus = f(_shifted(arrays, k, shift))
    minus = f(_shifted(arrays, k, -shift))
    return (plus - minus) / (2.0 * t), (np.abs(plus) + np.abs(minus)) * (4.0 * EPS / t)


def along_all(
    f: Function, arrays: Sequence[Array], directions: dict[int, Array]
) -> tuple[Array, Array]:
    """As `along`, as several arrays move at once, each along its own direction."""
    ahead, back = list(arrays), list(arrays)
    for k, direction in directions.items():
        ahead[k] = arrays[k] + direction
        back[k] = arrays[k] - direction
    plus, minus = f(ahead), f(back)
    return (plus - minus) / 2.0, (np.abs(plus) + np.abs(minus)) * (4.0 * EPS)


def column(x: Array, j: int) -> Array:
    """The direction that moves number `j` of ``reals(x)`` by its own step."""
    step = part_steps(x)
    return from_reals(np.where(np.arange(step.size) == j, step, 0.0), x)


def part_steps(x: Array) -> Array:
    """`steps` for each of ``reals(x)``."""
    h = steps(x).reshape(-1)
    return np.repeat(h, 2) if x.dtype.kind == "c" else h


def jacobian_block(f: Function, arrays: Sequence[Array], k: int, rows: int) -> tuple[Array, Array]:
    """Jacobian of `f` with respect to ``arrays[k]`` by central differences.

    Returns
    -------
    slopes, noise : ndarray of shape (rows, reals(arrays[k]).size)
    """
    x = np.array(arrays[k], order="C")
    moved = list(arrays)
    moved[k] = x
    flat = reals(x)
    h = part_steps(x).tolist()
    plus = np.empty((flat.size, rows))
    minus = np.empty((flat.size, rows))
    for j, value in enumerate(flat.tolist()):
        flat[j] = value + h[j]
        plus[j] = f(moved)
        flat[j] = value - h[j]
        minus[j] = f(moved)
        flat[j] = value
    width = np.array(h)[:, None]
    slopes = (plus - minus) / (2.0 * width)
    noise = (np.abs(plus) + np.abs(minus)) * (4.0 * EPS / width)
    return slopes.T, noise.T


def elementwise_slopes(
    f: Function, arrays: Sequence[Array], k: int, shape: tuple[int, ...], direction: Array
) -> tuple[Array, Array]:
    """Derivative of every output element with respect to the one element of ``arrays[k]`` it depends on.

    For functions that broadcast and work element by element: all elements move at once.
    Every output has the broadcast `shape`.
    """
    slope, noise = along(f, arrays, k, direction)
    width = np.broadcast_to(direction, shape).reshape(-1)
    width = np.tile(width, slope.size // max(width.size, 1)) if slope.size != width.size else width
    return slope / width, noise / width


def refine(
    f: Function, arrays: Sequence[Array], k: int, direction: Array
) -> tuple[Array, Array, Array]:
    """Derivative along `direction` from twelve halving steps, with the error that they show.

    Returns
    -------
    slope, error, noise : ndarray
        The best estimate per entry, its standard error, and what the rounding of `f` alone explains.

    Notes
    -----
    Central differences are ``f' + b t**2 + c t**4 + r / t`` with rounding ``r``. The three coefficients are fitted
    to all steps, then to those up to 16, 4 and 1; the fit with the smallest standard error wins. Coarsely rounded
    values can lie on a line by chance, so no fit may claim less scatter than all but one of the others have.
    """
    pairs = [along(f, arrays, k, direction, t) for t in WIDTHS]
    slopes = np.array([slope for slope, _ in pairs])
    noises = np.array([noise for _, noise in pairs])
    best, error, rounding = slopes[-1], np.full(slopes[-1].shape, np.inf), noises[-1]
    spreads = []
    for first, _, residual in FITS:
        left = residual @ (slopes[first:] * WIDTHS[first:, None])
        spreads.append(np.sqrt(np.sum(left**2, axis=0) / (len(left) - 3)))
    ordinary = np.sort(np.where(np.isnan(spreads), np.inf, spreads), axis=0)[1]
    for (first, row, _), spread in zip(FITS, spreads):
        estimate = np.maximum(np.maximum(spread, ordinary) * np.linalg.norm(row), noises[first])
        better = estimate < error
        best = np.where(better, row @ (slopes[first:] * WIDTHS[first:, None]), best)
        error = np.where(better, estimate, error)
        rounding = np.where(better, noises[first], rounding)
    return best, error, rounding


def _fits() -> list[tuple[int, Array, Array]]:
    """For each choice of steps: the first one, the row that gives f', and the matrix that gives residuals."""
    found = []
    for first in (0, 2, 4, 6):
        t = WIDTHS[first:]
        terms = np.stack([t, t**3, t**5], axis=1) / t[0] ** np.array([1, 3, 5])
        inverse = np.linalg.pinv(terms)
        found.append((first, inverse[0] / t[0], np.eye(len(t)) - terms @ inverse))
    return found


WIDTHS = 64.0 * 0.5 ** np.arange(12)
FITS = _fits()


def apart(
    analytic: Array, numeric: Array, slack: Array | float, scale: Array | float, floor: float = 0.0
) -> Array:
    """Where two derivatives differ by more than rounding explains.

    Parameters
    ----------
    slack : ndarray or float
        Known error of `numeric` per element.
    scale : ndarray or float
        Largest derivative of the block the elements belong to.
    floor : float
        Absolute tolerance, e.g. from the scale of other samples.
    """
    with np.errstate(all="ignore"):
        allowed = RTOL * np.abs(numeric) + (SCALE_TOL * scale + floor) + slack
        return ~(np.abs(analytic - numeric) <= allowed) & (analytic != numeric)


def worst(analytic: Array, numeric: Array, bad: Array) -> int:
    """Flat index of the bad element with the largest difference."""
    with np.errstate(all="ignore"):
        difference = np.abs(analytic - numeric)
    difference = np.where(np.isnan(difference), np.inf, difference)
    return int(np.argmax(np.where(bad, difference, -1.0)))


def sum_to(array: Array, shape: tuple[int, ...]) -> Array:
    """Sum over broadcast axes so that the result has `shape`."""
    extra = array.ndim - len(shape)
    if extra:
        array = array.sum(axis=tuple(range(extra)))
    axes = tuple(
        i for i, (have, want) in enumerate(zip(array.shape, shape)) if want == 1 and have != 1
    )
    return array.sum(axis=axes, keepdims=True) if axes else array


@lru_cache(maxsize=64)
def limits(dtype: np.dtype[Any]) -> tuple[float, float, float]:
    """What is rounded to in a floating dtype near 1, its smallest normal number and its largest one."""
    info = np.finfo(dtype)
    return float(info.eps), float(info.tiny), float(info.max)


def differs(got: Array, wanted: Array, ulps: float = 256.0, around: float = 0.0) -> int | None:
    """Flat position of the worst element that differs by more than `ulps` roundings, or None.

    Rounding is counted relative to the largest element, or to `around` where that is larger (terms of that size
    cancelled): sums in another order are equal.
    """
    if got.shape != wanted.shape:
        return 0
    if got.dtype.kind not in "fc" or wanted.dtype.kind not in "fc":
        bad = got != wanted
        return int(np.argmax(bad)) if bad.any() else None
    if got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes():
        return None
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = max(float(finite.max()) if finite.size else 0.0, around)
    eps = max(limits(got.dtype)[0], limits(wanted.dtype)[0])
    error = np.abs(
        got.astype(np.complex128) - wanted
        if got.dtype.kind == "c"
        else got.astype(np.float64) - wanted
    )
    bad = ~(error <= ulps * eps * scale) & (got != wanted) & ~(np.isnan(got) & np.isnan(wanted))
    if not bad.any():
        return None
    return int(np.argmax(np.where(bad, np.where(np.isnan(error), np.inf, error), -1.0)))
