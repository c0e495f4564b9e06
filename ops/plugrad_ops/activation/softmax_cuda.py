"""CUDA launchers of softmax and its logarithm."""

from __future__ import annotations

from pathlib import Path

from plugrad.backends.cuda.array import as_strided, empty
from plugrad_ops.activation.softmax import _axis
from plugrad_ops.cuda_source import Source
from plugrad_ops.rows import rows_of

SOURCE = Source(Path(__file__).with_name("softmax.cu"), "softmax", "rows.cuh")


def softmax(input, *, dim):
    """The kernel of ``standard::softmax``."""
    return _launched("softmax", "softmax_forward", 0, [input], dim)


def softmax_backward(grad, out, dim):
    """Its gradient, in one pass."""
    return _launched("softmax", "softmax_backward", 0, [grad, out], dim)


def log_softmax(input, *, dim):
    """The kernel of ``standard::log_softmax``."""
    return _launched("log_softmax", "softmax_forward", 1, [input], dim)


def log_softmax_backward(grad, out, dim):
    """Its gradient, in one pass."""
    return _launched("log_softmax", "softmax_backward", 1, [grad, out], dim)


def _launched(name, function, log, arrays, dim):
    axis = _axis(name, arrays[0], dim)
    out = empty(arrays[0].shape, arrays[0].dtype)
    if not out.size:
        return out
    result = out
    if axis is None:  # 0-d: a row of one element
        axis = 0
        *arrays, result = (as_strided(x, (1,), (x.dtype.itemsize,)) for x in (*arrays, out))
    rows = rows_of(arrays, axis % result.ndim, result)
    kernel = SOURCE.kernel(function, LOG=log, **rows.macros)
    *arrays, result = rows.arrays
    kernel(rows.grid, rows.block, result, *arrays, rows.packed)
    return out
