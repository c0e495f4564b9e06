"""CUDA launchers of maxima over windows."""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path

import numpy as np

from plugrad.backends.cuda.array import contiguous, empty, from_host
from plugrad.backends.cuda.dtypes import c_type
from plugrad_ops.convolution.cuda import THREADS, counted_in
from plugrad_ops.convolution.maxima import laid_out
from plugrad_ops.cuda_source import Source, cover

SOURCE = Source(Path(__file__).with_name("maxima.cu"), "max_over_windows")


def max_over_windows(input, *, spans):
    """The kernel of ``standard::max_over_windows``."""
    shape = laid_out(input.shape, spans)[3]
    values, indices = empty(shape, input.dtype), empty(shape, np.dtype(np.int64))
    if values.size:
        ends, packed = _on_device(input.shape[len(input.shape) - len(spans) :], spans, False)
        launch = _kernel("maxima", values, input)
        launch(
            cover(values.size, THREADS), THREADS,
            values, indices, contiguous(input), ends, packed, values.size,
        )  # fmt: skip
    return values, indices


def max_over_windows_backward(grad, indices, like, spans):
    """Its gradient, in one pass."""
    shape, (grad, *_) = tuple(like.input.shape), grad
    out = empty(shape, grad.dtype)
    if out.size:
        ends, packed = _on_device(shape[len(shape) - len(spans) :], spans, True)
        launch = _kernel("maxima_backward", out, grad)
        launch(
            cover(out.size, THREADS), THREADS,
            out, contiguous(grad), contiguous(indices), ends, packed, out.size,
        )  # fmt: skip
    return out


def _kernel(function, out, other):
    name = c_type(out.dtype, "max_over_windows")
    return SOURCE.kernel(function, T=name, I=counted_in(out.size, other.size))


@lru_cache(maxsize=256)
def _on_device(sizes, spans, backward):
    """The windows' ends, or for each element the windows that reach it, and the struct of the kernels."""
    ends, steps, size, _ = laid_out(sizes, spans)
    out = [len(pairs) for pairs in ends]
    if backward:
        ends = [
            np.stack(
                [
                    np.searchsorted(pairs[:, 1], np.arange(n), side="right"),
                    np.searchsorted(pairs[:, 0], np.arange(n), side="right"),
                ],
                1,
            )
            for pairs, n in zip(ends, size)
        ]
    begin = np.cumsum([0, *(pairs.size for pairs in ends[:-1])]).tolist()
    packed = struct.pack("12q", *size, *out, *steps, *begin)
    return from_host(np.concatenate([p.ravel() for p in ends]).astype(np.int64)), packed
