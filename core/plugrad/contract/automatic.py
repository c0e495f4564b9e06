"""Samples the battery adds to an operator's own: 0-d, zero-size and broadcast ones; on devices a large one.

Their values are taken from the operator's own samples, so that they stay where it is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from plugrad.contract.samples import Sample

__all__ = ["added_samples", "emptied_samples", "large_sample", "repeated", "repeated_samples"]

Array = np.ndarray

# More than a block of threads has, also where each takes four elements, and not a multiple of what is loaded at once.
LARGE = 1123
# Of stacked matrices and images fewer: each of them keeps many threads busy, which the emulated device runs one by one.
STACKED = 16


def added_samples(samples: list[Sample], works: Callable[[Sample], bool]) -> list[Sample]:
    """0-d, zero-size and (for two arrays or more) broadcast samples.

    Parameters
    ----------
    samples : list of Sample
        The operator's own; the first whose arguments are non-empty arrays and numbers is varied.
    works : callable
        Whether a sample gives finite values: pairing values across positions may leave the domain.
    """
    base = next((s for s in samples if s.raises is None and s.through is None and _plain(s)), None)
    if base is None:
        return []
    arrays = [value for value in base.args if isinstance(value, np.ndarray)]
    values = [array.reshape(-1) for array in np.broadcast_arrays(*arrays)]

    def vary(label: str, shapes: list[tuple[int, ...]], positions: list[int]) -> Sample:
        made = iter(
            np.resize(value[positions], shape).astype(value.dtype)
            for value, shape in zip(values, shapes)
        )
        args: list[Any] = [next(made) if isinstance(v, np.ndarray) else v for v in base.args]
        return Sample(tuple(args), dict(base.constants), label=label)

    count = values[0].size
    spread = [i % count for i in range(3)]
    others = len(values) - 1
    found = [
        vary("0-d", [()] * len(values), [0]),
        vary("zero-size", [(0, 3), *[(3,), (1, 1)][:others], *[()] * (others - 2)], spread),
    ]
    if others:
        shapes = [(3, 1), *([(2,), (1, 1), (2, 1, 1)] * others)[:others]]
        crossed = vary("broadcast", shapes, spread)
        found.append(crossed if works(crossed) else vary("broadcast", shapes, [0]))
    return found


def emptied_samples(samples: list[Sample]) -> Iterator[Sample]:
    """Zero-size variants of samples; whether the operator takes them is not known."""
    for base in samples:
        lengths = {a.shape[0] for a in base.args if isinstance(a, np.ndarray) and a.ndim}
        for length in sorted(lengths - {0, 1}):
            args = tuple(
                a[:0] if isinstance(a, np.ndarray) and a.ndim and a.shape[0] == length else a
                for a in base.args
            )
            yield Sample(args, dict(base.constants), base.through, label="zero-size")


def large_sample(samples: list[Sample]) -> Sample | None:
    """A 1-d sample of an elementwise operator with `LARGE` elements: the values of one of its samples, again and again."""
    base = next((s for s in samples if s.raises is None and s.through is None and _plain(s)), None)
    if base is None:
        return None
    paired = np.broadcast_arrays(*(v for v in base.args if isinstance(v, np.ndarray)))
    made = iter([np.resize(array, LARGE) for array in paired])
    args = tuple(next(made) if isinstance(v, np.ndarray) else v for v in base.args)
    return Sample(args, dict(base.constants), label="large")


def repeated_samples(samples: list[Sample]) -> Iterator[tuple[Sample, Sample, int]]:
    """Samples, what becomes of each as arrays of one length are repeated along their first dimension, and how often they are.

    Whether an operator takes that, and whether it then means what it meant, is not known.
    """
    for base in samples:
        if base.raises is not None or base.through is not None or not _plain(base):
            continue
        arrays = [v for v in base.args if isinstance(v, np.ndarray) and v.ndim]
        for length in dict.fromkeys(array.shape[0] for array in arrays):
            own = [array for array in arrays if array.shape[0] == length]
            times = LARGE // max(array.size for array in own) + 1
            if any(array.ndim > 2 for array in own):
                times = min(times, STACKED)
            args = tuple(
                repeated(v, times)
                if isinstance(v, np.ndarray) and v.ndim and v.shape[0] == length
                else v
                for v in base.args
            )
            yield base, Sample(args, dict(base.constants), label="large"), times


def repeated(array: Array, times: int) -> Array:
    """The array as often after itself."""
    return np.concatenate([array] * times)


def _plain(sample: Sample) -> bool:
    arrays = [value for value in sample.args if isinstance(value, np.ndarray)]
    return (
        bool(arrays)
        and all(array.size for array in arrays)
        and not any(isinstance(value, list | tuple) for value in sample.args)
    )
