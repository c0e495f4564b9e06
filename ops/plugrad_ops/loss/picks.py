"""Fused forms of losses that pick one class of each sample; see `nll_loss` and `multi_margin_loss`."""

import numpy as np

from plugrad import on_tensors, operator, ops
from plugrad.backends.sums import add_reduce
from plugrad_ops.loss import picks_cpu
from plugrad_ops.loss.cross_entropy import (
    _check_classes,
    _over,
    _with_dim,
    _without_outside,
    at_classes,
)
from plugrad_ops.loss.ops import check_reduction, reduced


def _reduced_array(loss, reduction, dtype, count):
    """Losses in an array, reduced."""
    if reduction == "none":
        return loss.astype(dtype, copy=False)
    total = add_reduce(loss)
    if reduction == "mean":
        total = total / np.dtype(dtype).type(count)
    return np.asarray(total).astype(dtype, copy=False)


# ---- negative log likelihood ---------------------------------------------------------------------------------


def _nll_meta(input, target, *, ignore_index=-100, reduction="mean"):
    _, shape = _with_dim("nll_loss", input, target)
    return shape if reduction == "none" else (), input.dtype


def picked_nll(input, target, *, ignore_index=-100, reduction="mean"):
    """Minus `input` at the class indices `target`; a target equal to `ignore_index` counts for nothing.

    The mean is over what is not ignored. See `cross_entropy` for shapes.
    """
    check_reduction("nll_loss", reduction)
    dim, shape = _with_dim("nll_loss", input, target)
    kept = target != ignore_index
    _check_classes("nll_loss", target, kept, input.shape[dim])
    loss = np.zeros(shape, input.dtype)
    if input.shape[dim]:
        at = np.expand_dims(np.where(kept, target, 0), dim)
        loss = np.where(kept, -np.take_along_axis(input, at, dim).squeeze(dim), loss)
    return _reduced_array(loss, reduction, input.dtype, np.count_nonzero(kept))


def _nll_of_tensors(input, target, *, ignore_index, reduction):
    check_reduction("nll_loss", reduction)
    dim, _ = _with_dim("nll_loss", input, target)
    kept = target != ignore_index
    picked, _ = at_classes(
        "nll_loss", input, ops.unsqueeze(target, dim=dim), ops.unsqueeze(kept, dim=dim), dim
    )
    loss = ops.where(kept, -ops.squeeze(picked, dim=dim), 0)
    if reduction != "mean":
        return reduced("nll_loss", loss, reduction)
    return ops.sum(loss) / ops.cast(ops.sum(kept), dtype=input.dtype)


picked_nll = operator(
    "standard::picked_nll",
    dtypes={"target": "integer"},
    infer=_nll_meta,
    cpu=picks_cpu.Nll(picked_nll),
    cuda=on_tensors(_nll_of_tensors),
)(picked_nll)


@picked_nll.backward
def _(grad, target, like, ignore_index, reduction):
    shape = like.input.shape
    dim = 0 if len(shape) == 1 else 1
    kept = target != ignore_index
    if reduction == "mean":
        grad = _over(grad, ops.sum(kept))
    kept = _without_outside(kept, target, shape[dim])
    wanted = ops.one_hot(ops.where(kept, target, 0), num_classes=shape[dim])
    if dim != len(shape) - 1:
        wanted = ops.movedim(wanted, -1, dim)
    wanted = ops.cast(wanted, dtype=grad.dtype)
    return -ops.unsqueeze(ops.where(kept, grad, 0), dim=dim) * wanted, None


def _picked_nll_gradient(grad, target, like, ignore_index, reduction):
    shape = like.input.shape
    dim = 0 if len(shape) == 1 else 1
    kept = target != ignore_index
    out = np.zeros(shape, grad.dtype)
    if shape[dim]:
        if reduction == "mean":
            grad = grad / grad.dtype.type(np.count_nonzero(kept))
        at = np.expand_dims(np.where(kept, target, 0), dim)
        np.put_along_axis(out, at, np.expand_dims(np.where(kept, -grad, 0), dim), dim)
    return out, None


picked_nll.backward_kernel(picks_cpu.NllGradient(_picked_nll_gradient))


@picked_nll.samples
def _(make):
    yield make.call(make.normal(3, 4), make.integers(3, high=4))
    yield make.call(make.normal(4), make.integers(high=4))
    yield make.call(make.normal(2, 3, 2), make.integers(2, 2, high=3), reduction="none")
    yield make.call(make.normal(3, 2), np.array([0, -100, 1]), reduction="sum")
    yield make.call(make.normal(3, 2), np.array([0, 1, 0]), ignore_index=1)
    yield make.call(make.normal(0, 3), make.integers(0, high=3), reduction="sum")
    yield make.error(IndexError, "out of bounds", make.normal(2, 3), np.array([0, 3]))
    yield make.error(RuntimeError, "class indices of shape", make.normal(2, 3), np.array([0]))
    yield make.error(ValueError, "reduction", make.normal(2, 3), np.array([0, 1]), reduction="avg")


# ---- margins between scores ----------------------------------------------------------------------------------


def _margins_meta(input, target, *, p=1, margin=1.0, reduction="mean"):
    return target.shape if reduction == "none" else (), input.dtype


def _check_rows(input, target, p):
    if p not in (1, 2):
        raise ValueError(f"class_margins: p must be 1 or 2, got {p}")
    if input.ndim != 2 or not input.shape[1] or target.shape != input.shape[:1]:
        raise RuntimeError(
            f"class_margins: expected scores (N, C) and classes (N), got {tuple(input.shape)} and {tuple(target.shape)}"
        )


def _near_margin(input, target, *, tol, p=1, margin=1.0, reduction="mean"):
    own = np.take_along_axis(input, np.expand_dims(target, 1), 1)
    return (np.abs(margin - own + input) <= tol) & (
        np.arange(input.shape[1]) != np.expand_dims(target, 1)
    )


def class_margins(input, target, *, p=1, margin=1.0, reduction="mean"):
    """What the score of class `target` lacks to `margin` over each other, to the power `p`, summed over the C classes / C.

    `input` is (N, C), `target` (N).
    """
    check_reduction("multi_margin_loss", reduction)
    _check_rows(input, target, p)
    rows, classes = input.shape
    _check_classes("multi_margin_loss", target, target == target, classes)
    at = np.expand_dims(target, 1)
    lack = np.maximum(input - (np.take_along_axis(input, at, 1) - input.dtype.type(margin)), 0)
    np.put_along_axis(lack, at, 0, 1)
    loss = add_reduce(lack * lack if p == 2 else lack, 1) / input.dtype.type(classes)
    return _reduced_array(loss, reduction, input.dtype, rows)


def _others(target, classes):
    """False at the class of each row."""
    return ops.one_hot(target, num_classes=classes) == 0


def _margins_of_tensors(input, target, *, p, margin, reduction):
    _check_rows(input, target, p)
    at = ops.unsqueeze(target, dim=1)
    picked, at = at_classes("multi_margin_loss", input, at, at == at, 1)
    lack = ops.relu(input - (picked - margin))
    lack = ops.where(_others(ops.squeeze(at, dim=1), input.shape[1]), lack, 0.0)
    loss = ops.sum(lack * lack if p == 2 else lack, dim=1) / input.shape[1]
    return reduced("multi_margin_loss", loss, reduction)


class_margins = operator(
    "standard::class_margins",
    dtypes={"target": "integer"},
    infer=_margins_meta,
    kinks=_near_margin,
    cpu=picks_cpu.Margins(class_margins),
    cuda=on_tensors(_margins_of_tensors),
)(class_margins)


@class_margins.backward
def _(grad, input, target, p, margin, reduction):
    rows, classes = input.shape
    if reduction == "mean":
        grad = grad / max(rows, 1)
    kept = _without_outside(target == target, target, classes)
    target = ops.where(kept, target, 0)
    own = ops.take_along_dim(input, ops.unsqueeze(target, dim=1), dim=1)
    lack = ops.where(_others(target, classes), ops.relu(input - (own - margin)), 0.0)
    slope = 2 * lack if p == 2 else ops.sign(lack)
    grad = ops.expand(grad, size=(rows,))
    slope = slope * ops.unsqueeze(ops.where(kept, grad / classes, 0.0), dim=1)
    return ops.where(_others(target, classes), slope, -ops.sum(slope, dim=1, keepdim=True)), None


def _class_margins_gradient(grad, input, target, p, margin, reduction):
    rows, classes = input.shape
    if reduction == "mean":
        grad = grad / grad.dtype.type(max(rows, 1))
    at = np.expand_dims(target, 1)
    lack = np.maximum(input - (np.take_along_axis(input, at, 1) - input.dtype.type(margin)), 0)
    np.put_along_axis(lack, at, 0, 1)
    slope = 2 * lack if p == 2 else np.sign(lack)
    slope = slope * np.expand_dims(np.broadcast_to(grad / grad.dtype.type(classes), rows), 1)
    np.put_along_axis(slope, at, -add_reduce(slope, 1, keepdims=True), 1)
    return slope, None


class_margins.backward_kernel(picks_cpu.MarginsGradient(_class_margins_gradient))


@class_margins.samples
def _(make):
    yield make.call(make.normal(2, 3), np.array([0, 2]))
    yield make.call(make.normal(3, 4), np.array([1, 1, 3]), p=2, reduction="sum")
    yield make.call(make.normal(2, 3), np.array([2, 0]), margin=0.5, reduction="none")
    yield make.call(make.normal(0, 3), make.integers(0, high=3), reduction="sum")
    yield make.error(IndexError, "out of bounds", make.normal(2, 3), np.array([0, 3]))
    yield make.error(ValueError, "p must be", make.normal(2, 3), np.array([0, 1]), p=3)
    yield make.error(RuntimeError, "expected scores", make.normal(3), np.array([0, 1]))
