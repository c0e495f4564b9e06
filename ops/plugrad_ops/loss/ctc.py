"""Connectionist temporal classification (Graves et al., ICML 2006): labels without their alignment with a sequence.

What `ctc_losses` differentiates are the logarithms as they are given, whether they are normalised or not. PyTorch adds
``exp(log_probs)`` to the gradient; behind a log_softmax, which takes away just that, both are the same.
"""

from __future__ import annotations

import math

import numpy as np

from plugrad import Tensor, composite, operator, ops
from plugrad.backends.copies import in_c_order
from plugrad.backends.dtypes import wide
from plugrad_ops.loss import ctc_cpu
from plugrad_ops.loss.ops import check_reduction

NAME = "ctc_loss"


# ---- arguments -----------------------------------------------------------------------------------------------


def loss_shape(log_probs, targets, input_lengths, target_lengths, *, blank=0):
    """The shape of the losses and their dtype.

    Raises
    ------
    RuntimeError
        Shapes do not fit together.
    """
    if len(log_probs.shape) != 3 or len(targets.shape) != 2:
        raise RuntimeError(
            f"{NAME}: expected log_probs (T, N, C) and targets (N, S), got {tuple(log_probs.shape)} and "
            f"{tuple(targets.shape)}"
        )
    count = log_probs.shape[1]
    for word, given in (
        ("targets", targets.shape[:1]),
        ("input_lengths", input_lengths.shape),
        ("target_lengths", target_lengths.shape),
    ):
        if tuple(given) != (count,):
            raise RuntimeError(
                f"{NAME}: {word} must belong to the {count} sequences of log_probs {tuple(log_probs.shape)}, got "
                f"{tuple(given)}"
            )
    return (count,), log_probs.dtype


def check_values(shape, targets, input_lengths, target_lengths, blank):
    """Raise unless lengths and labels, arrays on the host, are within bounds."""
    times, _, classes = shape
    for word, lengths, most in (
        ("input_lengths", input_lengths, times),
        ("target_lengths", target_lengths, targets.shape[1]),
    ):
        if lengths.size and not (lengths.min() >= 0 and lengths.max() <= most):
            raise RuntimeError(f"{NAME}: {word} must be from 0 to {most}, got {lengths.tolist()}")
    if not 0 <= blank < classes:
        raise RuntimeError(f"{NAME}: blank must be one of the {classes} classes, got {blank}")
    used = targets[np.arange(targets.shape[1]) < target_lengths[:, None]]
    wrong = (used < 0) | (used >= classes) | (used == blank)
    if wrong.any():
        raise RuntimeError(
            f"{NAME}: targets must be from 0 to {classes - 1} without the blank {blank}, got {used[wrong][0]}"
        )


# ---- the losses ----------------------------------------------------------------------------------------------


def _plain(array, dtype):
    return in_c_order(array, dtype)


def _indices(*arrays):
    return (_plain(x, np.int64) for x in arrays)


def _compiled(log_probs, targets, input_lengths, target_lengths, *, blank=0):
    """The kernel for the CPU."""
    loss_shape(log_probs, targets, input_lengths, target_lengths, blank=blank)
    indices = tuple(_indices(targets, input_lengths, target_lengths))
    check_values(log_probs.shape, *indices, blank)
    dtype = log_probs.dtype
    out = ctc_cpu.ctc_losses(_plain(log_probs, wide(dtype)), *indices, blank)
    return out.astype(dtype, copy=False)


@operator(
    "standard::ctc_losses",
    dtypes=dict.fromkeys(("targets", "input_lengths", "target_lengths"), "integer"),
    infer=loss_shape,
    cpu=_compiled,
    cuda=".ctc_cuda:ctc_losses",
)
def ctc_losses(log_probs, targets, input_lengths, target_lengths, *, blank=0):
    """Minus the logarithm of the sum over all alignments of each sequence; infinite where there is none.

    Parameters
    ----------
    log_probs : (T, N, C)
    targets : integers (N, S)
        Of each row the first of its `target_lengths` count.
    input_lengths, target_lengths : integers (N)
    blank : int, default 0

    Raises
    ------
    RuntimeError
        Shapes do not fit together, or a length or label is out of bounds.
    """
    shape, dtype = loss_shape(log_probs, targets, input_lengths, target_lengths, blank=blank)
    check_values(log_probs.shape, targets, input_lengths, target_lengths, blank)
    out = np.zeros(shape, wide(dtype))
    for n, (times, length) in enumerate(zip(input_lengths, target_lengths)):
        labels = np.full(2 * length + 1, blank)
        labels[1::2] = targets[n, :length]
        skip = np.zeros(labels.size, bool)
        skip[3::2] = labels[3::2] != labels[1:-2:2]
        alpha = np.where(np.arange(labels.size) == 0, 0.0, -np.inf)  # before the first time
        for t in range(times):
            one = np.concatenate(([-np.inf], alpha[:-1]))
            two = np.concatenate(([-np.inf], one[:-1]))
            alpha = np.logaddexp(np.logaddexp(alpha, one), np.where(skip, two, -np.inf))
            alpha = alpha + log_probs[t, n, labels].astype(np.float64)
        out[n] = -np.logaddexp.reduce(alpha[-2:])
    return out.astype(dtype, copy=False)


def _shifted(states, by):
    """Along the last dimension, what lay `by` states before; -inf where that is none."""
    width = states.shape[1]
    if abs(by) >= width:
        return ops.zeros_like(states) - math.inf
    part = ops.narrow(states, 1, max(-by, 0), width - abs(by))
    nothing = ops.zeros_like(ops.narrow(states, 1, 0, abs(by))) - math.inf
    return ops.cat(*((nothing, part) if by > 0 else (part, nothing)), dim=1)


def _joined(states, skip, by):
    """What reaches each state from itself, its neighbour and, where there is a skip, the one beyond."""
    if by > 0:
        beyond = ops.where(skip, _shifted(states, 2), -math.inf)
    else:
        beyond = _shifted(ops.where(skip, states, -math.inf), -2)
    return ops.logsumexp(ops.stack(states, _shifted(states, by), beyond, dim=0), dim=0)


@ctc_losses.backward
def _(grad, log_probs, targets, input_lengths, target_lengths, blank):
    times, _, classes = log_probs.shape
    if not log_probs.numel():
        return ops.zeros_like(log_probs), None, None, None
    width = 2 * targets.shape[1] + 1
    device = log_probs.device
    numbers = Tensor(np.arange(width)).to(device)
    # Labels of states; those behind a target's end are never on the way to its last states.
    odd = Tensor(np.arange(width) % 2 == 1).to(device)
    real = ops.logical_and(odd, numbers // 2 < ops.unsqueeze(target_lengths, dim=1))
    at = Tensor(np.minimum(np.arange(width) // 2, max(targets.shape[1] - 1, 0))).to(device)
    labels = ops.where(real, ops.index_select(targets, 1, at) if width > 1 else blank, blank)
    before = ops.cat(labels[:, :2], labels[:, :-2], dim=1) if width > 2 else labels
    skip = ops.logical_and(ops.logical_and(real, labels != before), numbers > 1)
    ends = ops.unsqueeze(2 * target_lengths, dim=1)
    last = ops.logical_or(numbers == ends, numbers == ends - 1)
    classes_of = ops.cast(ops.one_hot(labels, num_classes=classes), dtype=log_probs.dtype)
    length = ops.unsqueeze(input_lengths, dim=1)

    emitted = [ops.take_along_dim(log_probs[t], labels, dim=1) for t in range(times)]
    start = ops.where(numbers < 2, 0.0, -math.inf)
    alphas = [start + emitted[0]]
    for t in range(1, times):
        alphas.append(_joined(alphas[-1], skip, 1) + emitted[t])
    beta = ops.where(last, 0.0, -math.inf) + ops.zeros_like(emitted[0])
    final, betas = beta, []
    for t in range(times - 1, -1, -1):
        if t < times - 1:
            beta = _joined(beta + emitted[t + 1], skip, -1)
        beta = ops.where(length - 1 == t, final, beta)
        betas.insert(0, beta)
    total = ops.logsumexp(alphas[0] + betas[0], dim=1, keepdim=True)
    none = total == -math.inf
    total = ops.where(none, 0.0, total)
    unknown = ops.logical_and(none, ops.unsqueeze(grad != 0, dim=1))
    slopes = []
    for t in range(times):
        share = ops.where(t < length, ops.exp(alphas[t] + betas[t] - total), 0.0)
        share = ops.where(ops.logical_and(unknown, t < length), math.nan, share)
        slope = ops.squeeze(ops.matmul(ops.unsqueeze(share, dim=1), classes_of), dim=1)
        slopes.append(slope * ops.unsqueeze(-grad, dim=1))
    return ops.stack(*slopes, dim=0), None, None, None


@ctc_losses.backward_kernel(cuda=".ctc_cuda:ctc_gradient")
def _(grad, log_probs, targets, input_lengths, target_lengths, blank):
    dtype = log_probs.dtype
    indices = _indices(targets, input_lengths, target_lengths)
    x, grad = _plain(log_probs, wide(dtype)), _plain(grad, wide(dtype))
    return ctc_cpu.ctc_losses(x, *indices, blank, grad).astype(dtype, copy=False), None, None, None


@ctc_losses.samples
def _(make):
    lengths = np.array([4, 3]), np.array([2, 1])
    yield make.call(make.normal(4, 2, 3) - 2.0, np.array([[1, 2], [2, 0]]), *lengths)
    yield make.call(make.normal(4, 2, 3) - 2.0, np.array([[0, 0], [1, 0]]), *lengths, blank=2)
    yield make.call(make.normal(3, 1, 3) - 2.0, np.array([[1]]), np.array([3]), np.array([0]))
    yield make.call(make.normal(2, 0, 3), *(np.zeros(s, np.int64) for s in ((0, 2), 0, 0)))
    yield make.error(
        RuntimeError,
        "input_lengths",
        make.normal(2, 1, 3),
        np.array([[1]]),
        np.array([3]),
        np.array([1]),
    )
    yield make.error(
        RuntimeError,
        "without the blank",
        make.normal(2, 1, 3),
        np.array([[3]]),
        np.array([2]),
        np.array([1]),
    )


# ---- as PyTorch has it ---------------------------------------------------------------------------------------


def _lengths(word, given, device):
    found = given if isinstance(given, Tensor) else Tensor(np.asarray(given))
    if found.dtype.kind not in "iu":
        raise RuntimeError(f"{NAME}: {word} must be integers, got {found.dtype}")
    return ops.reshape(found, (-1,)).to(device)


def _padded(targets, lengths):
    """Targets that follow one another as rows of one length."""
    ends = np.cumsum(lengths)
    if ends[-1:].sum() != targets.shape[0]:
        raise RuntimeError(
            f"{NAME}: 1-d targets must hold as many labels as target_lengths together, {ends[-1:].sum()}, got "
            f"{targets.shape[0]}"
        )
    along = np.arange(max(lengths.max(initial=0), 1))
    places = np.where(along < lengths[:, None], (ends - lengths)[:, None] + along, 0)
    if not targets.shape[0]:
        return Tensor(np.zeros(places.shape, np.int64)).to(targets.device)
    return targets[Tensor(places).to(targets.device)]


@composite("standard::ctc_loss")
def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction="mean",
    zero_infinity=False,
):
    """Minus the log probability of labels whose alignment with a sequence is not known.

    Parameters
    ----------
    log_probs : (T, N, C) or (T, C)
        Logarithms of the probabilities of C classes.
    targets : integers of shape (N, S), (sum of target_lengths) or, without batch, (S)
        Labels, none of them `blank`: padded to one length, or one sequence after the other.
    input_lengths, target_lengths : integers of shape (N) or (), tensors or tuples
    blank : int, default 0
    reduction : "mean", "sum" or "none"
        The mean is that of the losses divided by the lengths of their targets.
    zero_infinity : bool, default False
        Whether a sequence that is too short for its target has loss 0 and gradient 0, not infinity and NaN.

    Raises
    ------
    RuntimeError
        Shapes do not fit together, or a length or label is out of bounds.
    """
    check_reduction(NAME, reduction)
    batched = log_probs.ndim == 3
    if log_probs.ndim not in (2, 3):
        raise RuntimeError(
            f"{NAME}: log_probs must have shape (T, N, C) or (T, C), got {log_probs.shape}"
        )
    device = log_probs.device
    input_lengths = _lengths("input_lengths", input_lengths, device)
    target_lengths = _lengths("target_lengths", target_lengths, device)
    if targets.dtype.kind not in "iu":
        raise RuntimeError(f"{NAME}: targets must be integers, got {targets.dtype}")
    if not batched:
        log_probs, targets = ops.unsqueeze(log_probs, dim=1), ops.reshape(targets, (1, -1))
    elif targets.ndim == 1:
        targets = _padded(targets, target_lengths.to("cpu").array)
    loss = ops.ctc_losses(log_probs, targets.to(device), input_lengths, target_lengths, blank=blank)
    if zero_infinity:
        loss = ops.where(loss == math.inf, 0.0, loss)
    if reduction == "mean":
        counts = ops.cast(ops.clamp(target_lengths, min=1), dtype=loss.dtype)
        return ops.mean(loss / counts)
    if reduction == "sum":
        return ops.sum(loss)
    return loss if batched else ops.squeeze(loss, dim=0)


@ctc_loss.samples
def _(make):
    yield make.call(
        make.normal(4, 2, 3) - 2.0, np.array([[1, 2], [2, 1]]), np.array([4, 3]), np.array([2, 1])
    )
    yield make.call(
        make.normal(4, 2, 3) - 2.0,
        np.array([1, 2, 2]),
        np.array([4, 3]),
        np.array([2, 1]),
        0,
        "sum",
    )
    yield make.call(make.normal(3, 2), np.array([1]), np.array(3), np.array(1), reduction="none")
    yield make.error(
        RuntimeError,
        "as many labels",
        make.normal(2, 1, 3),
        np.array([1, 1]),
        np.array([2]),
        np.array([1]),
    )
