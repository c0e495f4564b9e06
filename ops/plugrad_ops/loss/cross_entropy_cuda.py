"""CUDA launchers of the fused cross entropy.

A target that is no class is an IndexError, as on the CPU. The look at it is part of the pass over the logits; its answer is
waited for unless ``plugrad.cuda.check_indices`` is False.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plugrad.backends.cuda.array import as_strided, contiguous, empty, to_host
from plugrad.backends.cuda.dtypes import c_type, compute_type
from plugrad.backends.cuda.reduction import Reduction
from plugrad_ops.cuda_source import Source, zeros
from plugrad_ops.indexing.cuda import as_indices, checking
from plugrad_ops.loss.cross_entropy import _check_smoothing, _with_dim, class_dim
from plugrad_ops.loss.ops import check_reduction
from plugrad_ops.rows import rows_of

SOURCE = Source(Path(__file__).with_name("cross_entropy.cu"), "cross_entropy", "rows.cuh")

COUNT = Reduction(map="x == ignored ? 0 : 1", constants=("ignored",), name="cross_entropy")
FIELDS = {
    "acc": {"total": "double", "count": "i64"},
    "map": {"total": "x", "count": "target == ignored ? 0 : 1"},
    "identity": {"total": "0", "count": "0"},
    "combine": {"total": "a.total + b.total", "count": "a.count + b.count"},
    "inputs": ("x", "target"),
    "constants": ("ignored",),
    "name": "cross_entropy",
}
REDUCED = {
    "sum": Reduction(finish="a.total", **FIELDS),
    "mean": Reduction(finish="a.total / a.count", **FIELDS),
}


def softmax_cross_entropy(
    input, target, *, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """The kernel of ``standard::softmax_cross_entropy``."""
    name = "cross_entropy"
    check_reduction(name, reduction)
    _check_smoothing(name, label_smoothing)
    dim, shape = _with_dim(name, input, target)
    (classes,) = as_indices([target])
    stored = input.dtype if reduction == "none" else np.dtype(_wide(input.dtype))
    losses = empty(shape, stored)
    if losses.size:
        rows = rows_of([input], dim)
        outside = zeros((1,), np.uint64)
        launch = SOURCE.kernel("losses", L=c_type(stored), **rows.macros)
        launch(
            rows.grid, rows.block, losses, outside, rows.arrays[0], classes, ignore_index,
            float(label_smoothing), rows.packed,
        )  # fmt: skip
        left = int(to_host(outside)[0]) if checking() or not input.shape[dim] else 0
        if left:
            wrong = to_host(as_strided(classes, (1,), (8,), 8 * (classes.size - left)))[0]
            raise IndexError(
                f"{name}: target {wrong} is out of bounds for {input.shape[dim]} classes (dimension 1 of input)"
            )
    if reduction == "none":
        return losses
    return REDUCED[reduction]((losses, classes), None, False, input.dtype, ignored=ignore_index)


def _wide(dtype):
    return {"float": np.float32, "double": np.float64}[compute_type(dtype, "cross_entropy")]


def softmax_cross_entropy_backward(grad, input, target, ignore_index, reduction, label_smoothing):
    """Its gradient, in one pass; the targets were looked at on the way forward."""
    dim = class_dim("cross_entropy", input)
    out = empty(input.shape, input.dtype)
    if not out.size:
        return out, None
    (classes,) = as_indices([target])
    grad = contiguous(grad)
    mean = reduction == "mean"
    divisor = (
        COUNT(classes, None, False, np.dtype(np.int64), ignored=ignore_index) if mean else classes
    )
    rows = rows_of([input], dim, out)
    launch = SOURCE.kernel("loss_gradients", L=c_type(input.dtype), **rows.macros)
    launch(
        rows.grid, rows.block, out, grad, 1 if reduction == "none" else 0, divisor, mean,
        rows.arrays[0], classes, ignore_index, float(label_smoothing), rows.packed,
    )  # fmt: skip
    return out, None
