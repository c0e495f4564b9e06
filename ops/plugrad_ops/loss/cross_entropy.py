"""Cross entropy over classes, from logits, and the negative log likelihood.

The classes lie along dimension 1, or dimension 0 of a single sample without batch: input (C), (N, C) or (N, C, d…) with
class indices of shape (), (N) or (N, d…), or probabilities of the input's shape. The common case, class indices without
class weights, is one fused operator; the others are composed.
"""

import math

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.dtypes import wide
from plugrad.backends.sums import add_reduce
from plugrad_ops.loss import cpu
from plugrad_ops.loss.ops import check_reduction, reduced
from plugrad_ops.reduction.ops import stable_logsumexp


def class_dim(name, input):
    """The dimension of `input` that holds the classes."""
    if not input.ndim:
        raise RuntimeError(f"{name}: input needs a dimension of classes, got a 0-d tensor")
    return 0 if input.ndim == 1 else 1


def _target_shape(name, shape, target):
    """Raise unless class indices of shape `target` belong to logits of shape `shape`."""
    expected = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    if tuple(target) != expected:
        raise RuntimeError(
            f"{name}: input of shape {tuple(shape)} takes class indices of shape {expected}, got {tuple(target)}"
        )
    return expected


def _check_classes(name, target, kept, classes):
    wrong = kept & ((target < 0) | (target >= classes))
    if wrong.any():
        raise IndexError(
            f"{name}: target {target[wrong].flat[0]} is out of bounds for {classes} classes (dimension 1 of input)"
        )


def at_classes(name, scores, target, kept, dim):
    """The scores at class indices along `dim`, and the indices, 0 where they are not `kept`.

    A device is waited for once at most, and not at all if ``plugrad.cuda.check_indices`` is False: then the score of what
    is no class is 0.

    Raises
    ------
    IndexError
        An index that is kept is no class.
    """
    classes = scores.shape[dim]
    at = ops.where(kept, target, 0)
    if target.device == "cpu":
        _check_classes(name, target.array, kept.array, classes)
        return ops.take_along_dim(scores, at, dim=dim), at
    at = ops.cast(at, dtype=np.int64)
    at = ops.where(at < 0, at - classes, at)  # a negative index leads nowhere
    try:
        return ops.take_along_dim(scores, at, dim=dim), at
    except IndexError:
        _check_classes(name, target.to("cpu").array, kept.to("cpu").array, classes)
        raise


def _without_outside(kept, target, classes):
    """`kept` without what is no class, which is there only on devices where classes are not looked at: its loss is 0."""
    if target.device == "cpu":
        return kept
    return ops.logical_and(kept, ops.logical_and(target >= 0, target < classes))


def _with_dim(name, input, target):
    return class_dim(name, input), _target_shape(name, input.shape, target.shape)


# ---- class indices, fused ------------------------------------------------------------------------------------


def _fused_meta(input, target, *, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    _, shape = _with_dim("softmax_cross_entropy", input, target)
    return shape if reduction == "none" else (), input.dtype


def _check_smoothing(name, label_smoothing):
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"{name}: label_smoothing must lie between 0 and 1, got {label_smoothing}"
        )


def softmax_cross_entropy(
    input, target, *, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """-log softmax(input) at the class indices `target`; a target equal to `ignore_index` counts for nothing.

    Label smoothing ε spreads the share ε of each target evenly over all classes. The mean is over what is not ignored.
    See `cross_entropy` for shapes.
    """
    name = "cross_entropy"
    check_reduction(name, reduction)
    _check_smoothing(name, label_smoothing)
    dim, _ = _with_dim(name, input, target)
    classes = input.shape[dim]
    kept = target != ignore_index
    _check_classes(name, target, kept, classes)
    total = stable_logsumexp(input, (dim,), False)
    total = np.where(total == np.inf, input.dtype.type(np.nan), total)  # no probabilities
    at = np.expand_dims(np.where(kept, target, 0), dim)
    loss = total - np.take_along_axis(input, at, dim).squeeze(dim) if classes else total * 0
    if label_smoothing:
        even = total - add_reduce(input, dim) / input.dtype.type(classes)
        loss = (1 - label_smoothing) * loss + label_smoothing * even
    loss = np.where(kept, loss, input.dtype.type(0))
    if reduction == "none":
        return loss.astype(input.dtype, copy=False)
    out = add_reduce(loss)
    if reduction == "mean":
        out = out / input.dtype.type(np.count_nonzero(kept))
    return np.asarray(out).astype(input.dtype, copy=False)


softmax_cross_entropy = operator(
    "standard::softmax_cross_entropy",
    dtypes={"target": "integer"},
    infer=_fused_meta,
    cpu=cpu.CrossEntropy(softmax_cross_entropy),
    cuda=".cross_entropy_cuda:softmax_cross_entropy",
)(softmax_cross_entropy)


@softmax_cross_entropy.backward
def _(grad, input, target, ignore_index, reduction, label_smoothing):
    dim, classes = class_dim("cross_entropy", input), input.shape[0 if input.ndim == 1 else 1]
    kept = target != ignore_index
    if reduction == "mean":
        grad = _over(grad, ops.sum(kept))
    kept = _without_outside(kept, target, classes)
    weight = ops.unsqueeze(ops.where(kept, grad, 0), dim=dim)
    wanted = ops.one_hot(ops.where(kept, target, 0), num_classes=classes)
    if dim != input.ndim - 1:
        wanted = ops.movedim(wanted, -1, dim)
    wanted = ops.cast(wanted, dtype=input.dtype)
    if label_smoothing:
        wanted = (1 - label_smoothing) * wanted + label_smoothing / classes
    return weight * (ops.softmax(input, dim=dim) - wanted), None


def _softmax_cross_entropy_gradient(grad, input, target, ignore_index, reduction, label_smoothing):
    dim = 0 if input.ndim == 1 else 1
    classes = input.shape[dim]
    kept = target != ignore_index
    out = (
        np.exp(input - np.maximum.reduce(input, axis=dim, keepdims=True)) if classes else input * 0
    )
    out /= add_reduce(out, dim, keepdims=True)
    if label_smoothing:
        out -= input.dtype.type(label_smoothing / classes)
    at = np.expand_dims(np.where(kept, target, 0), dim)
    if classes:
        own = np.take_along_axis(out, at, dim) - input.dtype.type(1 - label_smoothing)
        np.put_along_axis(out, at, own, dim)
    if reduction == "mean":
        grad = grad / input.dtype.type(np.count_nonzero(kept))
    out *= np.expand_dims(np.where(kept, grad, input.dtype.type(0)), dim)
    return out.astype(input.dtype, copy=False), None


softmax_cross_entropy.backward_kernel(
    cpu.CrossEntropyGradient(_softmax_cross_entropy_gradient),
    cuda=".cross_entropy_cuda:softmax_cross_entropy_backward",
)


@softmax_cross_entropy.samples
def _(make):
    yield make.call(make.normal(3, 4), make.integers(3, high=4))
    yield make.call(make.normal(4), make.integers(high=4))
    yield make.call(make.normal(2, 3, 2), make.integers(2, 2, high=3), reduction="none")
    yield make.call(make.normal(3, 2), np.array([0, -100, 1]), reduction="sum", label_smoothing=0.1)
    yield make.call(make.normal(3, 2), np.array([0, 1, 0]), ignore_index=1, label_smoothing=0.2)
    yield make.call(make.values([[800.0, -800.0], [0.0, 1.0]]), np.array([0, 1]))
    yield make.call(make.normal(0, 3), make.integers(0, high=3), reduction="sum")
    yield make.error(IndexError, "out of bounds", make.normal(2, 3), np.array([0, 3]))
    yield make.error(RuntimeError, "class indices of shape", make.normal(2, 3), np.array([0]))
    yield make.error(ValueError, "reduction", make.normal(2, 3), np.array([0, 1]), reduction="avg")
    yield make.error(
        RuntimeError, "label_smoothing", make.normal(2, 3), np.array([0, 1]), label_smoothing=2.0
    )


def _over(grad, count):
    """`grad` divided by an integer tensor, which 16-bit floats may not hold."""
    dtype = wide(grad.dtype)
    if dtype == grad.dtype:
        return grad / ops.cast(count, dtype=dtype)
    return ops.cast(ops.cast(grad, dtype=dtype) / ops.cast(count, dtype=dtype), dtype=grad.dtype)


# ---- negative log likelihood ---------------------------------------------------------------------------------


@composite("standard::nll_loss")
def nll_loss(input, target, weight=None, *, ignore_index=-100, reduction="mean"):
    """Minus the log probabilities `input` at the class indices `target`, times the classes' `weight`.

    The mean is weighted: it divides by the sum of the weights of the targets that are not ignored.

    Raises
    ------
    IndexError
        A target is no class.
    RuntimeError
        Shapes do not fit together.
    """
    name = "nll_loss"
    check_reduction(name, reduction)
    dim, _ = _with_dim(name, input, target)
    if weight is None:
        return ops.picked_nll(input, target, ignore_index=ignore_index, reduction=reduction)
    dtype = wide(input.dtype)
    if dtype != input.dtype:  # which cannot count many targets
        loss = ops.nll_loss(
            ops.cast(input, dtype=dtype),
            target,
            ops.cast(weight, dtype=dtype),
            ignore_index=ignore_index,
            reduction=reduction,
        )
        return ops.cast(loss, dtype=input.dtype)
    kept = target != ignore_index
    picked, at = at_classes(
        name, input, ops.unsqueeze(target, dim=dim), ops.unsqueeze(kept, dim=dim), dim
    )
    loss = ops.where(kept, -ops.squeeze(picked, dim=dim), 0)
    weight = _class_weight(name, weight, input.shape[dim])
    factor = ops.where(kept, weight[ops.squeeze(at, dim=dim)], 0)
    loss = factor * loss
    if reduction != "mean":
        return reduced(name, loss, reduction)
    return ops.sum(loss) / ops.sum(factor)


def _class_weight(name, weight, classes):
    if weight.shape != (classes,):
        raise RuntimeError(f"{name}: weight must have shape {(classes,)}, got {weight.shape}")
    return weight


@nll_loss.samples
def _(make):
    yield make.call(make.normal(3, 4), make.integers(3, high=4))
    yield make.call(make.normal(4), make.integers(high=4), make.positive(4))
    yield make.call(
        make.normal(2, 3, 2), make.integers(2, 2, high=3), make.positive(3), reduction="none"
    )
    yield make.call(make.normal(3, 2), np.array([0, -100, 1]), make.positive(2), reduction="sum")
    yield make.call(make.normal(0, 3), make.integers(0, high=3), reduction="sum")
    yield make.error(IndexError, "out of bounds", make.normal(2, 3), np.array([0, 3]))
    yield make.error(RuntimeError, "class indices of shape", make.normal(2, 3), np.array([0]))
    yield make.error(
        RuntimeError,
        "weight must have shape",
        make.normal(2, 3),
        np.array([0, 1]),
        make.positive(2),
    )


# ---- cross entropy -------------------------------------------------------------------------------------------


@composite("standard::cross_entropy")
def cross_entropy(
    input, target, weight=None, *, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """The cross entropy of the softmax of `input` and `target`.

    Parameters
    ----------
    input : (C), (N, C) or (N, C, d…)
        Logits.
    target : integers of shape (), (N) or (N, d…), or floating of the shape of `input`
        Class indices or probabilities.
    weight : (C), optional
        Of each class; with class indices the mean is weighted.
    ignore_index : int, default -100
        Class indices that count for nothing.
    reduction : "mean", "sum" or "none"
    label_smoothing : float between 0 and 1
        The share of each target that is spread evenly over all classes.

    Raises
    ------
    IndexError
        A target is no class.
    RuntimeError
        Shapes do not fit together.
    """
    name = "cross_entropy"
    if target.is_floating_point() or target.dtype.kind == "c":
        return _with_probabilities(name, input, target, weight, reduction, label_smoothing)
    if weight is None:
        return ops.softmax_cross_entropy(
            input, target, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
        )  # fmt: skip
    _check_smoothing(name, label_smoothing)
    dim, _ = _with_dim(name, input, target)
    logs = ops.log_softmax(input, dim=dim)
    loss = ops.nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not label_smoothing:
        return loss
    classes = input.shape[dim]
    shape = (classes,) + (1,) * (input.ndim - 1 - dim)
    kept = _without_outside(target != ignore_index, target, classes)
    even = ops.where(kept, -ops.sum(logs * ops.reshape(weight, shape), dim=dim), 0)
    if reduction == "mean":
        factor = ops.where(kept, weight[ops.where(kept, target, 0)], 0)
        even = ops.sum(even) / ops.sum(factor)
    else:
        even = reduced(name, even, reduction)
    return (1 - label_smoothing) * loss + (label_smoothing / classes) * even


def _with_probabilities(name, input, target, weight, reduction, label_smoothing):
    check_reduction(name, reduction)
    _check_smoothing(name, label_smoothing)
    dim = class_dim(name, input)
    if input.shape != target.shape:
        raise RuntimeError(
            f"{name}: probabilities must have the shape of input, got {target.shape} and {input.shape}; "
            "class indices are integers"
        )
    classes = input.shape[dim]
    if label_smoothing:
        target = (1 - label_smoothing) * target + label_smoothing / classes
    terms = ops.log_softmax(input, dim=dim) * target
    if weight is not None:
        shape = (classes,) + (1,) * (input.ndim - 1 - dim)
        terms = terms * ops.reshape(_class_weight(name, weight, classes), shape)
    loss = -ops.sum(terms, dim=dim)
    if (
        reduction == "mean"
    ):  # over samples, not over their sum of weights: a probability has no single class
        return ops.sum(loss) / (math.prod(loss.shape) or math.nan)
    return reduced(name, loss, reduction)


@cross_entropy.samples
def _(make):
    yield make.call(make.normal(3, 4), make.integers(3, high=4))
    yield make.call(
        make.normal(3, 4), make.integers(3, high=4), make.positive(4), label_smoothing=0.1
    )
    yield make.call(make.normal(3, 4), make.positive(3, 4), make.positive(4))
    yield make.call(
        make.normal(2, 3, 2), make.positive(2, 3, 2), reduction="none", label_smoothing=0.1
    )
    yield make.call(
        make.normal(3, 2),
        np.array([0, -100, 1]),
        make.positive(2),
        reduction="sum",
        label_smoothing=0.3,
    )
    yield make.call(make.normal(4), make.integers(high=4))
    yield make.call(make.normal(0, 3), make.integers(0, high=3), reduction="sum")
    yield make.error(IndexError, "out of bounds", make.normal(2, 3), np.array([0, 3]))
    yield make.error(RuntimeError, "shape of input", make.normal(2, 3), make.positive(2))
