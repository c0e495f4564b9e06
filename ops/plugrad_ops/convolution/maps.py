"""Sparse linear maps along one dimension: averages over windows, and interpolation.

A map says of each output which elements of its input it is a sum of, with which weights, and by what the sum is
divided. It is told by a tuple, ``(kind, size, …)``, that names the rule; `map_of` works the numbers out, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

__all__ = ["Map", "adaptive_ends", "lengths", "map_of", "pooled_length", "transposed_map"]


@dataclass(frozen=True, eq=False)
class Map:
    """A sparse matrix, by its rows.

    Attributes
    ----------
    size, out : int
        Lengths of the input and the output.
    offsets, taps : ndarray of int64
        Output i adds up the elements ``taps[offsets[i] : offsets[i + 1]]``.
    weights, divisors : ndarray of float64
        Of each tap, and of each output.
    """

    size: int
    out: int
    offsets: np.ndarray
    taps: np.ndarray
    weights: np.ndarray
    divisors: np.ndarray

    @cached_property
    def dense(self) -> np.ndarray:
        """The matrix, (out, size)."""
        found = np.zeros((self.out, self.size))
        np.add.at(found, (self._rows, self.taps), self.weights)
        return found / self.divisors[:, None]

    @cached_property
    def uneven_weights(self) -> np.ndarray | None:
        """The weights, or None if all are 1."""
        return None if np.all(self.weights == 1) else self.weights

    @property
    def _rows(self) -> np.ndarray:
        return np.repeat(np.arange(self.out), np.diff(self.offsets))

    def transposed(self) -> Map:
        """The adjoint."""
        rows = self._rows
        order = np.argsort(self.taps, kind="stable")
        counts = np.bincount(self.taps, minlength=self.size)
        weights = self.weights / self.divisors[rows]
        return Map(
            self.out,
            self.size,
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            rows[order].astype(np.int64),
            weights[order],
            np.ones(self.size),
        )


@lru_cache(maxsize=1024)
def map_of(told) -> Map:
    """The map that a tuple tells."""
    kind, size, *rest = told
    return RULES[kind](size, *rest)


@lru_cache(maxsize=1024)
def transposed_map(told) -> Map:
    """Its adjoint."""
    return map_of(told).transposed()


# ---- averages ----------------------------------------------------------------------------------------------------


def pooled_length(size, kernel, stride, padding, dilation, ceil_mode) -> int:
    """The number of windows along a dimension; with `ceil_mode` the last one may reach beyond the padding."""
    reach = dilation * (kernel - 1) + 1
    out = (size + 2 * padding - reach + (stride - 1 if ceil_mode else 0)) // stride + 1
    return out - 1 if ceil_mode and (out - 1) * stride >= size + padding else out


def _sums(size, first, last, divisors):
    """Sums over the elements from `first` up to `last`."""
    counts = np.maximum(last - first, 0)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    taps = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - first, counts)
    return Map(
        size, len(first), offsets, taps.astype(np.int64), np.ones(len(taps)), np.asarray(divisors, np.float64)
    )  # fmt: skip


def _average(size, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
    """Averages over windows; `divisor` (or None) replaces the length of a window."""
    out = pooled_length(size, kernel, stride, padding, 1, ceil_mode)
    begin = np.arange(out) * stride - padding
    end = np.minimum(begin + kernel, size + padding)
    first, last = np.maximum(begin, 0), np.minimum(end, size)
    lengths = end - begin if count_include_pad else np.maximum(last - first, 1)
    return _sums(size, first, last, lengths if divisor is None else np.full(out, divisor))


def adaptive_ends(size, out):
    """The first element of each of `out` windows that cover a dimension, and the one behind its last."""
    i = np.arange(out, dtype=np.int64)
    return i * size // max(out, 1), -(-(i + 1) * size // max(out, 1))


def _adaptive(size, out):
    first, last = adaptive_ends(size, out)
    return _sums(size, first, last, last - first)


# ---- interpolation -----------------------------------------------------------------------------------------------


def _scale(size, out, align_corners, factor):
    """The distance of neighbouring outputs, in elements of the input."""
    if align_corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1.0 / factor if factor else size / out


def _picked(size, index):
    out = len(index)
    index = np.minimum(index.astype(np.int64), size - 1)
    return Map(size, out, np.arange(out + 1, dtype=np.int64), index, np.ones(out), np.ones(out))


def _nearest(size, out, factor):
    # In float32, as PyTorch: on the edge between two elements the rounding decides.
    scale = np.float32(1.0 / factor) if factor else np.float32(size) / np.float32(out)
    return _picked(size, np.floor(np.arange(out, dtype=np.float32) * scale))


def _nearest_exact(size, out, factor):
    scale = np.float32(1.0 / factor) if factor else np.float32(size) / np.float32(out)
    return _picked(size, np.floor((np.arange(out, dtype=np.float32) + np.float32(0.5)) * scale))


def _several(size, index, weights):
    """Each output from several elements (out, taps); those with weight 0 are left out, so that 0 · inf is no NaN."""
    used = weights != 0
    counts = used.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    taps = np.clip(index, 0, size - 1).astype(np.int64)
    return Map(size, len(index), offsets, taps[used], weights[used], np.ones(len(index)))


def _linear(size, out, align_corners, factor):
    scale = _scale(size, out, align_corners, factor)
    i = np.arange(out)
    place = i * scale if align_corners else np.maximum((i + 0.5) * scale - 0.5, 0.0)
    if size == out:
        place = i * 1.0
    first = np.minimum(np.floor(place), size - 1)
    part = np.clip(place - first, 0.0, 1.0)
    part[first >= size - 1] = 0.0
    return _several(size, np.stack([first, first + 1], 1), np.stack([1.0 - part, part], 1))


SHARPNESS = -0.75  # of the cubic convolution kernel (Keys, IEEE ASSP 29 (1981), 1153-1160)


def _cubic(size, out, align_corners, factor):
    scale = _scale(size, out, align_corners, factor)
    i = np.arange(out)
    place = i * scale if align_corners else (i + 0.5) * scale - 0.5
    first = np.floor(place)
    t = place - first

    def near(x):
        return ((SHARPNESS + 2) * x - (SHARPNESS + 3)) * x * x + 1

    def far(x):
        return ((SHARPNESS * x - 5 * SHARPNESS) * x + 8 * SHARPNESS) * x - 4 * SHARPNESS

    weights = np.stack([far(t + 1), near(t), near(1 - t), far(2 - t)], 1)
    return _several(size, first[:, None] + np.arange(-1, 3), weights)


RULES: dict[str, Callable[..., Map]] = {
    "average": _average,
    "adaptive": _adaptive,
    "nearest": _nearest,
    "nearest-exact": _nearest_exact,
    "linear": _linear,
    "cubic": _cubic,
}


def lengths(maps) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Lengths of the inputs and of the outputs of maps."""
    found = [map_of(told) for told in maps]
    return tuple(m.size for m in found), tuple(m.out for m in found)
