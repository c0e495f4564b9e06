"""CUDA launchers of sparse maps along the last dimensions."""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path

import numpy as np

from plugrad.backends.cuda.array import contiguous, empty, from_host
from plugrad.backends.cuda.dtypes import c_type
from plugrad_ops.convolution.cuda import THREADS, counted_in
from plugrad_ops.convolution.maps import map_of, transposed_map
from plugrad_ops.convolution.resampling import checked
from plugrad_ops.cuda_source import Source, cover

SOURCE = Source(Path(__file__).with_name("resampling.cu"), "resampling")
NOTHING = ("adaptive", 1, 1)  # along a dimension that is not there


def resample(input, *, maps):
    """The kernel of ``standard::resample``."""
    return _mapped("resample", input, maps, False)


def resample_adjoint(input, *, maps):
    """The kernel of ``standard::resample_adjoint``."""
    return _mapped("resample_adjoint", input, maps, True)


def _mapped(name, input, maps, adjoint):
    out = empty(checked(name, input.shape, maps, adjoint), input.dtype)
    if not out.size:
        return out
    places, factors, packed = _on_device(maps, adjoint)
    launch = SOURCE.kernel(
        "resample", T=c_type(input.dtype, name), I=counted_in(out.size, input.size)
    )
    launch(
        cover(out.size, THREADS), THREADS, out, contiguous(input), places, factors, packed, out.size
    )
    return out


@lru_cache(maxsize=256)
def _on_device(maps, adjoint):
    """The numbers of the maps, on the device, and where each begins."""
    told = (NOTHING,) * (3 - len(maps)) + maps
    found = [transposed_map(each) if adjoint else map_of(each) for each in told]
    whole, whole_at = _joined([m.offsets for m in found] + [m.taps for m in found], np.int64)
    real, real_at = _joined([m.weights for m in found] + [m.divisors for m in found], np.float64)
    packed = struct.pack(
        "18q", *(m.size for m in found), *(m.out for m in found), *whole_at, *real_at
    )
    return whole, real, packed


def _joined(arrays, dtype):
    """Arrays one after the other, and where each begins."""
    starts = np.cumsum([0, *(x.size for x in arrays[:-1])]).tolist()
    return from_host(np.concatenate(arrays).astype(dtype)), starts
