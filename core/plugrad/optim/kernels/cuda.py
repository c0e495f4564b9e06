"""Passes over arrays on a CUDA device; what they mean is told by `Kernels`.

(a) An update is one kernel that reads and writes each element once: formulas are those of the CPU, in its order, so that
    results differ by roundings only. Options choose the formula, numbers are arguments: nothing is compiled again when
    a learning rate changes.
(b) What Python asks (is everything finite, what is the norm) is gathered on the device and fetched once for all arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from plugrad.backends.cuda import storage
from plugrad.backends.cuda.array import to_host
from plugrad.backends.cuda.elementwise import COPY, Elementwise
from plugrad.backends.cuda.inspection import reals
from plugrad.backends.cuda.reduction import Reduction

__all__ = ["adam", "clamp", "multiply", "norms", "sgd", "unscale", "zeros_like"]

ZEROS = Elementwise("0", name="zeros_like")
MULTIPLY = Elementwise("x * factor", constants=("factor",), name="multiply")
CLAMP = Elementwise(
    "x < -bound ? -bound : x > bound ? bound : x", constants=("bound",), name="clamp"
)


def zeros_like(array: Any) -> Any:
    return ZEROS(array)


# ---- updates -----------------------------------------------------------------------------------


def adam(
    ps: list[Any],
    grads: list[Any],
    means: list[Any],
    squares: list[Any],
    greatest: list[Any] | None,
    *,
    rate: float,
    root: float,
    eps: float,
    betas: tuple[float, float],
    decay: float,
    shrink: float,
    maximize: bool,
) -> None:
    kernel = adam_kernel(maximize, bool(decay), shrink != 1.0, greatest is not None)
    first, second = betas
    lists = (ps, means, squares) if greatest is None else (ps, means, squares, greatest)
    for grad, *written in zip(grads, *lists):
        kernel(
            grad,
            *written,
            out=tuple(written),
            rate=rate,
            root=root,
            eps=float(eps),
            gain1=1.0 - first,
            beta2=float(second),
            gain2=1.0 - second,
            decay=float(decay),
            shrink=float(shrink),
        )


@cache
def adam_kernel(maximize: bool, decays: bool, shrinks: bool, amsgrad: bool) -> Elementwise:
    """The kernel for a choice of options; its inputs are the gradient and what is written."""
    p = "(p * shrink)" if shrinks else "p"
    g = gradient(maximize, decays, p)
    results = {
        "mean": f"mean + ({g} - mean) * gain1",
        "square": f"square * beta2 + {g} * {g} * gain2",
    }
    divisor = results["square"]
    if amsgrad:
        divisor = results["greatest"] = f"max(greatest, {divisor})"
    step = f"({results['mean']}) / (sqrt({divisor}) / root + eps)"
    return Elementwise(
        {"p": f"{p} - {step} * rate", **results},
        inputs=("grad", "p", *results),
        constants=("rate", "root", "eps", "gain1", "beta2", "gain2", "decay", "shrink"),
        name="Adam",
    )


def sgd(
    ps: list[Any],
    grads: list[Any],
    buffers: list[Any] | None,
    *,
    rate: float,
    momentum: float,
    fresh: float,
    decay: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    kernel = sgd_kernel(maximize, bool(decay), buffers is not None, nesterov)
    for grad, *written in zip(grads, *((ps,) if buffers is None else (ps, buffers))):
        kernel(
            grad,
            *written,
            out=tuple(written),
            rate=rate,
            momentum=float(momentum),
            fresh=float(fresh),
            decay=float(decay),
        )


@cache
def sgd_kernel(maximize: bool, decays: bool, remembers: bool, nesterov: bool) -> Elementwise:
    """The kernel for a choice of options; its inputs are the gradient and what is written."""
    step = g = gradient(maximize, decays, "p")
    results = {}
    if remembers:
        step = results["buffer"] = f"(buffer * momentum + {g} * fresh)"
        if nesterov:
            step = f"({g} + {step} * momentum)"
    return Elementwise(
        {"p": f"p - {step} * rate", **results},
        inputs=("grad", "p", *results),
        constants=("rate", "momentum", "fresh", "decay"),
        name="SGD",
    )


def gradient(maximize: bool, decays: bool, p: str) -> str:
    """The expression of the gradient that is followed."""
    g = "(-grad)" if maximize else "grad"
    return f"({g} + {p} * decay)" if decays else g


# ---- gradients ---------------------------------------------------------------------------------


def unscale(arrays: Sequence[Any], factor: float) -> bool:
    for array in arrays:
        MULTIPLY(array, out=array, factor=float(factor))
    return not any(fetched([INFINITE(reals(array)) for array in arrays]))


def norms(arrays: Sequence[Any], p: float) -> list[float]:
    found = [0.0] * len(arrays)
    filled = [i for i, array in enumerate(arrays) if array.size]
    if p == 2:
        squares = fetched([SQUARES(reals(arrays[i])) for i in filled])
        for i, total in zip(filled, squares):
            found[i] = math.sqrt(total)
        # float64 alone has squares that float64 does not hold.
        filled = [i for i in filled if not 1e-150 < found[i] < 1e150]
    sized = {i: sizes(arrays[i]) for i in filled}
    for i, top in zip(filled, fetched([GREATEST(sized[i]) for i in filled])):
        found[i] = top
    if p != math.inf:
        filled = [i for i in filled if math.isfinite(found[i]) and found[i] > 0]
        powers = [POWERS(sized[i], top=found[i], p=p) for i in filled]
        for i, total in zip(filled, fetched(powers)):
            found[i] *= total ** (1 / p)
    return found


def multiply(array: Any, factor: float) -> None:
    # What is computed in may hold no such number, but it holds the root.
    times = 2 if 0 < factor < 1e-30 else 1
    for _ in range(times):
        MULTIPLY(array, out=array, factor=float(factor) ** (1 / times))


def clamp(array: Any, bound: float) -> None:
    CLAMP(array, out=array, bound=float(bound))


INFINITE = Reduction(
    map="isfinite(x) ? 0 : 1",
    combine="a | b",
    acc="int",
    out_dtype=np.float64,
    name="isfinite",
)
SQUARES = Reduction(map="double(x) * double(x)", acc="double", out_dtype=np.float64, name="norm")


GREATEST = Reduction(
    map="double(abs(x))", combine="nan_max(a, b)", acc="double", out_dtype=np.float64, name="norm"
)
POWERS = Reduction(
    map="pow(double(abs(x)) / double(top), double(p))",
    constants=("top", "p"),
    acc="double",
    out_dtype=np.float64,
    name="norm",
)
SIZES = Elementwise("hypot(double(real(x)), double(imag(x)))", out_dtype=np.float64, name="abs")


def sizes(array: Any) -> Any:
    """What has the absolute values of an array's elements."""
    return SIZES(array) if array.dtype.kind == "c" else array


def fetched(numbers: Sequence[Any]) -> list[float]:
    """0-d float64 arrays as Python numbers, in one transfer."""
    if not numbers:
        return []
    together = storage.empty((len(numbers),), np.float64)
    for i, number in enumerate(numbers):
        place = storage.view((), together.dtype, (), storage.pointer(together) + 8 * i, together)
        COPY(number, out=place)
    return [float(x) for x in to_host(together)]
