"""Losses that ask for a margin: between scores, classes or distances. At the margin itself the gradient is 0."""

import math

import numpy as np

from plugrad import composite, ops
from plugrad_ops.loss.cross_entropy import at_classes
from plugrad_ops.loss.ops import check_reduction, reduced

SIGNS = np.array([1, -1, 1])

# ---- scores --------------------------------------------------------------------------------------------------


def _at_margin(input, target, *, margin=1.0, reduction="mean", tol):
    return (np.abs(input - margin) <= tol) & (target != 1)


@composite("standard::hinge_embedding_loss", kinks=_at_margin)
def hinge_embedding_loss(input, target, margin=1.0, reduction="mean"):
    """`input` where `target` is 1, and what `margin` exceeds it by where `target` is -1."""
    check_reduction("hinge_embedding_loss", reduction)
    far = ops.where(target != 1, ops.relu(margin - input), 0.0)
    return reduced("hinge_embedding_loss", far + ops.where(target != -1, input, 0.0), reduction)


@hinge_embedding_loss.samples
def _(make):
    yield make.call(make.normal(3), SIGNS)
    yield make.call(make.normal(2, 3), SIGNS, margin=0.5, reduction="sum")
    yield make.call(make.normal(0, 3), SIGNS, reduction="none")
    yield make.error(ValueError, "reduction", make.normal(3), SIGNS, reduction="avg")


@composite("standard::margin_ranking_loss")
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """What ``target * (input1 - input2)`` lacks to `margin`; `target` 1 asks for a greater `input1`, -1 for a lesser.

    Raises
    ------
    RuntimeError
        The three do not have equally many dimensions.
    """
    check_reduction("margin_ranking_loss", reduction)
    _same_ndim("margin_ranking_loss", input1=input1, input2=input2, target=target)
    loss = ops.relu(margin - target * (input1 - input2))
    return reduced("margin_ranking_loss", loss, reduction)


def _same_ndim(name, **given):
    if len({t.ndim for t in given.values()}) > 1:
        shapes = ", ".join(f"{word} {t.shape}" for word, t in given.items())
        raise RuntimeError(f"{name}: all tensors must have equally many dimensions, got {shapes}")


@margin_ranking_loss.samples
def _(make):
    yield make.call(make.normal(3), make.normal(3), SIGNS, margin=0.5)
    yield make.call(make.normal(2, 3), make.normal(2, 3), SIGNS[None], reduction="sum")
    yield make.call(make.normal(), make.normal(), np.array(-1), 0.1, reduction="none")
    yield make.error(RuntimeError, "equally many", make.normal(3), make.normal(1, 3), SIGNS)


@composite("standard::soft_margin_loss")
def soft_margin_loss(input, target, reduction="mean"):
    """``log(1 + exp(-target * input))`` for targets 1 and -1, without overflow."""
    check_reduction("soft_margin_loss", reduction)
    return -reduced("soft_margin_loss", ops.logsigmoid(target * input), reduction)


@soft_margin_loss.samples
def _(make):
    yield make.call(make.normal(3), SIGNS)
    yield make.call(make.normal(2, 3), SIGNS, "sum")
    yield make.call(make.values([-800.0, 800.0, 800.0]), SIGNS, "none")
    yield make.error(ValueError, "reduction", make.normal(3), SIGNS, "avg")


# ---- classes -------------------------------------------------------------------------------------------------


def _scores(name, input):
    """Scores as rows of classes; whether there was a batch."""
    if input.ndim not in (1, 2) or not input.shape[-1]:
        raise RuntimeError(
            f"{name}: input must hold scores of shape (N, C) or (C) with at least one class, got {input.shape}"
        )
    return input if input.ndim == 2 else ops.unsqueeze(input, dim=0)


@composite("standard::multi_margin_loss")
def multi_margin_loss(input, target, weight=None, p=1, margin=1.0, reduction="mean"):
    """What the score of class `target` lacks to `margin` over each other, to the power `p`, summed over the C classes / C.

    Parameters
    ----------
    input : (N, C) or (C)
    target : integers of shape (N) or ()
    weight : (C), optional
        Of each class, for the samples whose target it is.
    p : 1 or 2

    Raises
    ------
    ValueError
        `p` is neither 1 nor 2.
    IndexError
        A target is no class.
    RuntimeError
        Shapes do not fit together.
    """
    name = "multi_margin_loss"
    check_reduction(name, reduction)
    if p not in (1, 2):
        raise ValueError(f"{name}: p must be 1 or 2, got {p}")
    batched, scores = input.ndim == 2, _scores(name, input)
    classes = scores.shape[1]
    if target.numel() != scores.shape[0] or target.ndim > 1:
        raise RuntimeError(
            f"{name}: input of shape {input.shape} takes one class index per sample, got target of shape {target.shape}"
        )
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f"{name}: weight must have shape {(classes,)}, got {weight.shape}")
    rows = target if batched and target.ndim else ops.reshape(target, (-1,))
    asked = reduction if weight is None else "none"
    loss = ops.class_margins(scores, rows, p=p, margin=margin, reduction=asked)
    if asked != "none":
        return loss
    if weight is not None:
        loss = loss * weight[rows]
    return reduced(name, loss if batched else ops.reshape(loss, target.shape), reduction)


@multi_margin_loss.samples
def _(make):
    yield make.call(make.normal(2, 3), np.array([0, 2]))
    yield make.call(make.normal(2, 3), np.array([1, 1]), make.positive(3), p=2, reduction="sum")
    yield make.call(make.normal(3), np.array(1), margin=0.5, reduction="none")
    yield make.error(IndexError, "out of bounds", make.normal(2, 3), np.array([0, 3]))
    yield make.error(ValueError, "p must be", make.normal(2, 3), np.array([0, 1]), p=3)


@composite("standard::multilabel_margin_loss")
def multilabel_margin_loss(input, target, reduction="mean"):
    """What the scores of the target classes lack to 1 over each that is no target, summed, divided by C.

    Parameters
    ----------
    input : (N, C) or (C)
    target : integers of the same shape
        The target classes, ended by -1; what follows counts for nothing.

    Raises
    ------
    IndexError
        A target is no class.
    RuntimeError
        Shapes do not fit together.
    """
    name = "multilabel_margin_loss"
    check_reduction(name, reduction)
    if target.shape != input.shape:
        raise RuntimeError(
            f"{name}: target must have the shape {input.shape} of input, got {target.shape}"
        )
    batched, scores = input.ndim == 2, _scores(name, input)
    target = target if batched else ops.unsqueeze(target, dim=0)
    classes = scores.shape[1]
    valid = ops.cumsum(target < 0, dim=1) == 0
    picked, at = at_classes(name, scores, target, valid, 1)
    label = ops.where(ops.unsqueeze(valid, dim=2), ops.one_hot(at, num_classes=classes), 0)
    other = ops.unsqueeze(ops.sum(label, dim=1) == 0, dim=1)
    own = ops.unsqueeze(picked, dim=2)
    lack = ops.relu(1.0 - own + ops.unsqueeze(scores, dim=1))  # of each target over each class
    counts = ops.logical_and(ops.unsqueeze(valid, dim=2), other)
    loss = ops.sum(ops.where(counts, lack, 0.0), dim=(1, 2)) / classes
    return reduced(name, loss if batched else ops.squeeze(loss, dim=0), reduction)


@multilabel_margin_loss.samples
def _(make):
    yield make.call(make.normal(2, 4), np.array([[3, 0, -1, 1], [1, -1, 0, 0]]))
    yield make.call(make.normal(3), np.array([1, 0, 2]), "sum")
    yield make.call(make.normal(2, 3), np.array([[-1, 0, 0], [2, 2, -1]]), "none")
    yield make.error(IndexError, "out of bounds", make.normal(2), np.array([2, -1]))
    yield make.error(RuntimeError, "the shape", make.normal(2, 3), np.array([[0, -1]]))


@composite("standard::multilabel_soft_margin_loss")
def multilabel_soft_margin_loss(input, target, weight=None, reduction="mean"):
    """The logistic loss of each class, times `weight` if there is one, averaged over the last dimension.

    Raises
    ------
    RuntimeError
        `input` is 0-d, or the shapes do not broadcast.
    """
    name = "multilabel_soft_margin_loss"
    check_reduction(name, reduction)
    if not input.ndim:
        raise RuntimeError(f"{name}: input needs a dimension of classes, got a 0-d tensor")
    loss = ops.logistic_loss(input, target)
    loss = loss if weight is None else loss * weight
    return reduced(name, ops.sum(loss, dim=-1) / (input.shape[-1] or math.nan), reduction)


@multilabel_soft_margin_loss.samples
def _(make):
    yield make.call(make.normal(2, 3), make.uniform(2, 3, low=0.0, high=1.0))
    yield make.call(make.normal(2, 3), np.array([[0, 1, 1], [1, 0, 0]]), make.positive(3), "sum")
    yield make.call(make.normal(3), np.array([0.0, 1.0, 1.0]), reduction="none")
    yield make.error(RuntimeError, "0-d", make.normal(), make.values(1.0))


# ---- distances -----------------------------------------------------------------------------------------------


@composite("standard::triplet_margin_loss")
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean"
):
    """What the anchor's distance from the negative lacks to its distance from the positive and `margin`.

    Parameters
    ----------
    anchor, positive, negative : (N, D) or (D)
    p, eps : float
        Of the distance: see `pairwise_distance`.
    swap : bool
        Whether the negative's distance from the positive counts where it is smaller (Balntas et al., BMVC 2016).

    Raises
    ------
    ValueError
        `margin` is not positive, or `reduction` is unknown.
    RuntimeError
        The three do not have equally many dimensions.
    """
    name = "triplet_margin_loss"
    check_reduction(name, reduction)
    if margin <= 0:
        raise ValueError(f"{name}: margin must be greater than 0, got {margin}")
    _same_ndim(name, anchor=anchor, positive=positive, negative=negative)

    def distance(a, b):
        return ops.pairwise_distance(a, b, p, eps)

    to_negative = distance(anchor, negative)
    if swap:
        to_negative = ops.minimum(to_negative, distance(positive, negative))
    return reduced(name, ops.relu(margin + distance(anchor, positive) - to_negative), reduction)


@triplet_margin_loss.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(2, 3), make.normal(2, 3))
    yield make.call(make.normal(2, 3), make.normal(2, 3), make.normal(2, 3), swap=True, p=1.0)
    yield make.call(make.normal(3), make.normal(3), make.normal(3), 2.0, reduction="sum")
    yield make.error(ValueError, "margin", make.normal(3), make.normal(3), make.normal(3), 0.0)


COSINE_EPS = 1e-12


@composite("standard::cosine_embedding_loss")
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """What the cosine lacks to 1 where `target` is 1, and what it exceeds `margin` by where `target` is -1.

    Parameters
    ----------
    input1, input2 : (N, D) or (D)
    target : (N) or ()

    Raises
    ------
    RuntimeError
        Shapes do not fit together.
    """
    name = "cosine_embedding_loss"
    check_reduction(name, reduction)
    if target.ndim > 1 or not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(
            f"{name}: inputs must have shape (N, D) with target (N), or (D) with a 0-d target, got {input1.shape}, "
            f"{input2.shape} and {target.shape}"
        )
    square1 = ops.sum(ops.square(input1), dim=-1) + COSINE_EPS
    square2 = ops.sum(ops.square(input2), dim=-1) + COSINE_EPS
    cosine = ops.sum(input1 * input2, dim=-1) / ops.sqrt(square1 * square2)
    near = ops.where(target == 1, 1.0 - cosine, 0.0)
    loss = near + ops.where(target == -1, ops.relu(cosine - margin), 0.0)
    return reduced(name, loss, reduction)


@cosine_embedding_loss.samples
def _(make):
    yield make.call(make.normal(3, 4), make.normal(3, 4), SIGNS)
    yield make.call(make.normal(4), make.normal(4), np.array(-1), margin=-0.9, reduction="none")
    yield make.call(make.normal(1, 4), make.normal(3, 4), SIGNS, 0.1, "sum")
    yield make.error(RuntimeError, "target", make.normal(4), make.normal(4), SIGNS)
