"""CUDA launchers that find: elements that are not zero, and places in sorted rows."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from plugrad.backends.cuda import layout
from plugrad.backends.cuda.array import as_strided, contiguous, empty, to_host
from plugrad.backends.cuda.dtypes import c_type
from plugrad.backends.cuda.scan import CUMSUM
from plugrad_ops.cuda_source import Source, cover
from plugrad_ops.expressions import kernel
from plugrad_ops.indexing.searching import _search_meta

SOURCE = Source(Path(__file__).with_name("selecting.cu"), "selecting")
THREADS = 256


def nonzero_positions(input):
    """The kernel of ``standard::nonzero_positions``; waits for how many there are."""
    if input.ndim > layout.MAX_DIMS:
        raise RuntimeError(
            f"nonzero_positions: at most {layout.MAX_DIMS} dimensions on a CUDA device, got shape {input.shape}"
        )
    count = input.size
    if not count:
        return empty((0, input.ndim), np.dtype(np.int64))
    chosen = contiguous(kernel("x != 0", "x", out_dtype=np.dtype(bool), name="nonzero")(input))
    rank = CUMSUM(as_strided(chosen, (count,), (1,)), 0, out_dtype=np.int64)
    total = int(to_host(as_strided(rank, (1,), (8,), 8 * (count - 1)))[0])
    out = empty((total, input.ndim), np.dtype(np.int64))
    if out.size:
        steps = list(layout.dense_strides(tuple(input.shape), 1))
        steps += [1] * (layout.MAX_DIMS - len(steps))
        shape = struct.pack(f"{2 + layout.MAX_DIMS}q", input.ndim, count, *steps)
        found = SOURCE.kernel("coordinates", T="float")
        found(cover(count, THREADS), THREADS, out, chosen, rank, shape)
    return out


def search_rows(boundaries, values, *, right=False):
    """The kernel of ``standard::search_rows``."""
    shape, dtype = _search_meta(boundaries, values, right=right)
    out = empty(tuple(shape), dtype)
    if out.size:
        rows, values = contiguous(boundaries), contiguous(values)
        width = out.size if boundaries.ndim == 1 else values.shape[-1]
        found = SOURCE.kernel("search", T=c_type(values.dtype, "search_rows"))
        found(
            cover(out.size, THREADS), THREADS,
            out, rows, values, out.size, boundaries.shape[-1], width, bool(right),
        )  # fmt: skip
    return out
