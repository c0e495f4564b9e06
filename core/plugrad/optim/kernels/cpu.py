"""Passes over NumPy arrays; what they mean is told by `Kernels`.

(a) Updates run in compiled loops (steps.pyx); what these do not take is left to NumPy, with the same results.
(b) An update of 16-bit arrays is computed in float32 and rounded once, as on CUDA.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from plugrad.backends.dtypes import wide
from plugrad.optim.kernels import steps

__all__ = ["adam", "clamp", "multiply", "norms", "sgd", "unscale", "zeros_like"]

BLOCK = 16384


def zeros_like(array: np.ndarray) -> np.ndarray:
    return np.zeros_like(array)


# ---- updates -----------------------------------------------------------------------------------


def adam(
    ps: list[np.ndarray],
    grads: list[np.ndarray],
    means: list[np.ndarray],
    squares: list[np.ndarray],
    greatest: list[np.ndarray] | None,
    *,
    rate: float,
    root: float,
    eps: float,
    betas: tuple[float, float],
    decay: float,
    shrink: float,
    maximize: bool,
) -> None:
    lists = (ps, grads, means, squares)
    for arrays in steps.adam(
        lists if greatest is None else (*lists, greatest), rate, root, eps, betas, decay, shrink, maximize
    ):  # fmt: skip
        adam_of(
            *arrays, rate=rate, root=root, eps=eps, betas=betas, decay=decay, shrink=shrink, maximize=maximize
        )  # fmt: skip


def sgd(
    ps: list[np.ndarray],
    grads: list[np.ndarray],
    buffers: list[np.ndarray] | None,
    *,
    rate: float,
    momentum: float,
    fresh: float,
    decay: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    lists = (ps, grads) if buffers is None else (ps, grads, buffers)
    for arrays in steps.sgd(lists, rate, momentum, fresh, decay, nesterov, maximize):
        sgd_of(
            *arrays, rate=rate, momentum=momentum, fresh=fresh, decay=decay, nesterov=nesterov, maximize=maximize
        )  # fmt: skip


# The same in NumPy, for one parameter of whatever dtype and layout.


@np.errstate(all="ignore")
def adam_of(
    p: np.ndarray,
    grad: np.ndarray,
    mean: np.ndarray,
    square: np.ndarray,
    *greatest: np.ndarray,
    rate: float,
    root: float,
    eps: float,
    betas: tuple[float, float],
    decay: float,
    shrink: float,
    maximize: bool,
) -> None:
    beta1, beta2 = betas
    written = (p, mean, square, *greatest)
    for g, p, mean, square, *greatest_so_far in pieces(grad, *written):
        if maximize:
            g = -g
        if shrink != 1.0:
            p *= shrink
        if decay:
            g = g + decay * p
        work = np.subtract(g, mean)
        work *= 1.0 - beta1
        mean += work
        square *= beta2
        np.multiply(g, g, out=work)
        work *= 1.0 - beta2
        square += work
        for most in greatest_so_far:
            square = np.maximum(most, square, out=most)
        np.sqrt(square, out=work)
        work /= root
        work += eps
        np.divide(mean, work, out=work)
        work *= rate
        p -= work


@np.errstate(all="ignore")
def sgd_of(
    p: np.ndarray,
    grad: np.ndarray,
    *buffer: np.ndarray,
    rate: float,
    momentum: float,
    fresh: float,
    decay: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    written = (p, *buffer)
    for g, p, *buffers in pieces(grad, *written):
        if maximize:
            g = -g
        if decay:
            g = g + decay * p
        for remembered in buffers:
            remembered *= momentum
            remembered += g if fresh == 1.0 else fresh * g
            g = g + momentum * remembered if nesterov else remembered
        p -= rate * g


def pieces(grad: np.ndarray, *written: np.ndarray) -> Iterator[list[np.ndarray]]:
    """`blocks`; those of 16-bit arrays come as float32, and what was written to them is rounded back."""
    for block in blocks(grad, *written):
        work = [a.astype(wide(a.dtype), copy=False) for a in block]
        yield work
        for array, used in zip(block[1:], work[1:]):
            if used is not array:
                array[...] = used


def blocks(*arrays: np.ndarray) -> Iterator[list[np.ndarray]]:
    """The same pieces of arrays of one shape, small enough for several passes to stay in the cache."""
    if all(a.flags.c_contiguous for a in arrays):
        flat = [a.reshape(-1) for a in arrays]
    elif all(a.flags.f_contiguous for a in arrays):
        flat = [a.T.reshape(-1) for a in arrays]
    else:
        yield list(arrays)
        return
    if flat[0].size <= BLOCK:
        yield flat
        return
    for start in range(0, flat[0].size, BLOCK):
        yield [a[start : start + BLOCK] for a in flat]


# ---- gradients ---------------------------------------------------------------------------------


def unscale(arrays: Sequence[np.ndarray], factor: float) -> bool:
    finite = True
    with np.errstate(all="ignore"):
        for array in arrays:
            array *= factor
            finite = bool(np.isfinite(array).all()) and finite
    return finite


def norms(arrays: Sequence[np.ndarray], p: float) -> list[float]:
    return [norm(array, p) for array in arrays]


def norm(array: np.ndarray, p: float) -> float:
    """The p-norm of an array; float64 holds it even where the array's dtype does not."""
    with np.errstate(all="ignore"):
        if p == 2 and array.dtype in (np.float64, np.float32):
            found = float(np.linalg.norm(array.ravel(), p))
            # Squares that neither overflowed nor vanished: that was it.
            if 1e-15 < found < 1e15:
                return found
        size = np.abs(array)
        top = float(size.max(initial=0.0))
        if p == math.inf or not math.isfinite(top) or top == 0:
            return top
        return top * float(np.linalg.norm((size / top).ravel().astype(np.float64), p))


def multiply(array: np.ndarray, factor: float) -> None:
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f" and 0 < factor < 1e-30:  # the dtype may hold no such number
            np.multiply(array, factor, out=array, dtype=np.float64, casting="same_kind")
        else:
            array *= factor


def clamp(array: np.ndarray, bound: float) -> None:
    np.clip(array, -bound, bound, out=array)
