"""CUDA launchers of normalisation.

Statistics of rows are found where the row is held; those of channels, which lie across the batch, and all gradients of
weights are reductions in a fixed order.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np

from plugrad.backends.cuda.array import as_strided, contiguous, empty
from plugrad.backends.cuda.layout import dense_strides
from plugrad.backends.cuda.reduction import Reduction
from plugrad.backends.dtypes import wide
from plugrad_ops.cuda_source import Source, zeros
from plugrad_ops.expressions import kernel
from plugrad_ops.normalization.batch import channel_shape
from plugrad_ops.normalization.rows import _blocks, _meta, _weight_shape
from plugrad_ops.rows import rows_of

SOURCE = Source(Path(__file__).with_name("rows.cu"), "normalisation", "rows.cuh")
NOTHING = np.uint64(0)  # a null pointer

# ---- rows ----------------------------------------------------------------------------------------------------

WEIGHTS = Reduction(
    acc={"weight": "wide", "bias": "wide"},
    map={"weight": "g * ((x - high - low) * rstd)", "bias": "g"},
    identity={"weight": "0", "bias": "0"},
    combine={"weight": "a.weight + b.weight", "bias": "a.bias + b.bias"},
    finish={"weight": "a.weight", "bias": "a.bias"},
    inputs=("g", "x", "high", "low", "rstd"),
    name="normalize_rows",
)


def normalize_rows(input, weight=None, bias=None, *, length, groups=1, eps=1e-5, centered=True):
    """The kernel of ``standard::normalize_rows``."""
    _meta(input, weight, bias, length=length, groups=groups, eps=eps, centered=centered)
    out = empty(input.shape, input.dtype)
    if not out.size:
        return out
    either = bias if weight is None else weight
    affine = _affine(None if either is None else either.shape, length, groups)
    weight, bias = (x if x is None else contiguous(x) for x in (weight, bias))
    rows = rows_of([_flat(input, length)], 1, _flat(out, length))
    launch = SOURCE.kernel("normalize", **rows.macros)
    launch(
        rows.grid, rows.block, rows.arrays[1], rows.arrays[0], _pointer(weight), _pointer(bias), affine,
        float(eps), bool(centered), rows.packed,
    )  # fmt: skip
    return out


def normalize_rows_gradients(grad, input, weight, like, needs, length, groups, eps, centered):
    """The gradients: of the rows in one pass; of the weights by a reduction over rows."""
    shape = _weight_shape(like)
    if not input.size:
        dx = empty(input.shape, input.dtype) if needs.input else None
        return dx, *(zeros(shape, input.dtype) if wanted else None for wanted in needs[1:])
    grad, input = contiguous(grad), contiguous(input)
    out = empty(input.shape, input.dtype) if needs.input else None
    count = input.size // length
    wanted = needs.weight or needs.bias
    kept = empty((3, count), wide(input.dtype)) if wanted else None
    flat = [_flat(grad, length), _flat(input, length)]
    rows = rows_of(flat, 1, flat[1] if out is None else _flat(out, length))
    launch = SOURCE.kernel("gradients", **rows.macros)
    launch(
        rows.grid, rows.block, NOTHING if out is None else rows.arrays[2], *rows.arrays[:2],
        _pointer(None if weight is None else contiguous(weight)), _pointer(kept),
        _affine(shape, length, groups), float(eps), bool(centered), rows.packed,
    )  # fmt: skip
    if not wanted:
        return out, None, None
    blocks = _blocks(input, math.prod(shape), length, groups)
    arrays = [_viewed(x, blocks) for x in (grad, input)]
    step = kept.dtype.itemsize
    for k in range(3):
        strides = (groups * step, step, 0, 0)
        arrays.append(as_strided(kept, (*blocks[:2], 1, 1), strides, k * count * step))
    found = WEIGHTS(tuple(arrays), (0, 3), False, input.dtype)
    both = (_viewed(x, shape) if need else None for x, need in zip(found, needs[1:]))
    return out, *both


def _flat(array, length):
    """An array as rows."""
    return _viewed(contiguous(array), (array.size // length, length))


def _viewed(array, shape):
    """An array in C order in another shape."""
    return as_strided(array, tuple(shape), dense_strides(tuple(shape), array.dtype.itemsize))


def _affine(shape, length, groups):
    channels = 1 if shape is None else math.prod(shape) // groups
    return struct.pack("3q", groups, channels, length // channels)


def _pointer(array):
    return NOTHING if array is None else array


# ---- channels ------------------------------------------------------------------------------------------------

MOMENTS = Reduction(
    acc={"sum": "double", "squares": "double"},
    map={"sum": "x - shift", "squares": "square(x - shift)"},
    identity={"sum": "0", "squares": "0"},
    combine={"sum": "a.sum + b.sum", "squares": "a.squares + b.squares"},
    finish={"mean": "a.sum / n", "var": "max(a.squares / n - square(a.sum / n), 0.0)"},
    inputs=("x", "shift"),
    name="normalize_batch",
)
DOTS = Reduction(
    acc={"sum": "wide", "product": "wide"},
    map={"sum": "g", "product": "g * ((x - mean) * rsqrt(var + eps))"},
    identity={"sum": "0", "product": "0"},
    combine={"sum": "a.sum + b.sum", "product": "a.product + b.product"},
    finish={"sum": "a.sum", "product": "a.product"},
    inputs=("g", "x", "mean", "var"),
    constants=("eps",),
    name="normalize_batch",
)
APPLIED = "(x - mean) * (weight * rsqrt(var + eps)) + bias"
SLOPES = (
    "weight * rsqrt(var + eps) * (g - sum / n - (x - mean) * rsqrt(var + eps) * (product / n))"
    " + (of_mean + 2 * of_var * (x - mean)) / n"
)


def normalize_batch(input, weight=None, bias=None, *, eps=1e-5):
    """The kernel of ``standard::normalize_batch``."""
    shape = channel_shape(input, weight, bias)
    dtype = wide(input.dtype)
    axes = _others(input)
    if not input.size:
        empty_stats = (zeros(shape[1:2], dtype) for _ in range(2))
        return empty(input.shape, input.dtype), *empty_stats
    strides = [s if d == 1 else 0 for d, s in enumerate(input.strides)]
    shift = as_strided(input, shape, tuple(strides))
    offset, var = MOMENTS((input, shift), axes, True, dtype)
    mean = kernel("a + b", "a", "b")(offset, shift)
    apply = kernel(APPLIED, "x", "mean", "var", "weight", "bias", constants=("eps",))
    out = apply(
        input, mean, var, _along(weight, shape, 1.0), _along(bias, shape, 0.0),
        eps=float(eps), dtype=input.dtype,
    )  # fmt: skip
    return out, *(_viewed(x, shape[1:2]) for x in (mean, var))


def normalize_batch_gradients(grads, input, weight, mean, var, needs, eps):
    """The gradients, in two passes."""
    grad, of_mean, of_var = grads
    shape = channel_shape(input, weight, None)
    if not input.size:
        dx = empty(input.shape, input.dtype) if needs.input else None
        return dx, *(zeros(shape[1:2], input.dtype) if wanted else None for wanted in needs[1:])
    mean, var = _along(mean, shape, 0), _along(var, shape, 0)
    total, product = DOTS(
        (grad, input, mean, var), _others(input), True, mean.dtype, eps=float(eps)
    )
    out = None
    if needs.input:
        inputs = ("g", "x", "mean", "var", "sum", "product", "weight", "of_mean", "of_var")
        slopes = kernel(SLOPES, *inputs, constants=("n", "eps"))
        n = float(input.size // math.prod(shape))
        out = slopes(
            grad, input, mean, var, total, product, _along(weight, shape, 1.0),
            _along(of_mean, shape, 0), _along(of_var, shape, 0), n=n, eps=float(eps), dtype=input.dtype,
        )  # fmt: skip
    cast = kernel("x", "x")
    sums = (
        cast(x, dtype=input.dtype) if need else None for x, need in zip((product, total), needs[1:])
    )
    return out, *(None if x is None else _viewed(x, shape[1:2]) for x in sums)


def _others(input):
    return tuple(d for d in range(input.ndim) if d != 1)


def _along(array, shape, otherwise):
    """A number per channel, so that it broadcasts; without an array, one number."""
    return otherwise if array is None else _viewed(contiguous(array), shape)
