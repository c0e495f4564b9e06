"""Losses of predictions and targets of one shape.

`reduction` is "mean", "sum" or "none", as in PyTorch. The fused operators work in one pass and save their inputs only;
those that take a weight or a reduction by composition say so.
"""

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.dtypes import finfo
from plugrad_ops.loss import entropies_cpu, errors_cpu, reference
from plugrad_ops.reduction.ops import sum_array_to

REDUCTIONS = ("mean", "sum", "none")


def check_reduction(name, reduction):
    """Raise unless `reduction` is one of REDUCTIONS."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def reduced(name, loss, reduction):
    """A tensor of losses, reduced as asked for."""
    check_reduction(name, reduction)
    if reduction == "none":
        return loss
    return ops.mean(loss) if reduction == "mean" else ops.sum(loss)


# ---- squared and absolute errors -----------------------------------------------------------------------------


def _joint_shape(name, input, target):
    try:
        return np.broadcast_shapes(input, target)
    except ValueError:
        raise RuntimeError(
            f"{name}: input of shape {tuple(input)} and target of shape {tuple(target)} do not broadcast"
        ) from None


def _error_meta(input, target, *, reduction="mean"):
    check_reduction("loss", reduction)
    shape = _joint_shape("loss", input.shape, target.shape)
    return shape if reduction == "none" else (), np.result_type(input.dtype, target.dtype)


def _reduce_array(loss, reduction, dtype):
    """A fresh array of losses, reduced."""
    if reduction == "none":
        return loss
    total = np.add.reduce(loss, axis=None, dtype=dtype)
    if reduction == "mean":
        total = total / wide_count(dtype, loss.size)
    return np.asarray(total).astype(dtype, copy=False)


def wide_count(dtype, n):
    """A count as a scalar of `dtype`, so that dividing by it neither raises nor promotes."""
    return np.dtype(dtype).type(n)


def _error_gradients(slope, grad, like, needs, reduction, times=None):
    """The gradients of a loss whose derivative by input - target is `slope`, `times` a number that comes last."""
    if reduction == "mean":
        grad = grad / max(slope.numel(), 1)
    slope = grad * slope
    if times is not None:
        slope = slope * times
    shape_input, shape_target = like.input.shape, like.target.shape
    grad_input = grad_target = None
    if needs.input:
        grad_input = slope if slope.shape == shape_input else ops.sum_to(slope, shape=shape_input)
    if needs.target:
        grad_target = -(
            slope if slope.shape == shape_target else ops.sum_to(slope, shape=shape_target)
        )
    return grad_input, grad_target


def _error_arrays(slope, grad, like, needs, reduction, times=None):
    """`_error_gradients` on arrays; `slope` is overwritten."""
    if reduction == "mean":
        grad = grad / wide_count(grad.dtype, max(slope.size, 1))
    np.multiply(slope, grad, out=slope)
    if times is not None:
        np.multiply(slope, times, out=slope)
    grad_input = grad_target = None
    if needs.input:
        grad_input = sum_array_to(slope, like.input.shape)
    if needs.target:
        grad_target = np.negative(sum_array_to(slope, like.target.shape))
    return grad_input, grad_target


def _error_samples(make):
    yield make.call(make.normal(2, 3), make.normal(2, 3))
    yield make.call(make.normal(2, 3), make.normal(3), reduction="sum")
    yield make.call(make.normal(3, 1), make.normal(1, 2), reduction="none")
    yield make.call(make.normal(), make.normal())
    yield make.call(make.normal(0, 3), make.normal(0, 3), reduction="sum")
    yield make.error(
        ValueError, "reduction must be", make.normal(2), make.normal(2), reduction="avg"
    )
    yield make.error(RuntimeError, "do not broadcast", make.normal(2), make.normal(3))


def mse_loss(input, target, *, reduction="mean"):
    """The squared error; the two broadcast.

    Raises
    ------
    ValueError
        `reduction` is unknown.
    RuntimeError
        The shapes do not broadcast.
    """
    check_reduction("mse_loss", reduction)
    _joint_shape("mse_loss", input.shape, target.shape)
    error = np.asarray(input - target)
    return _reduce_array(np.multiply(error, error, out=error), reduction, error.dtype)


mse_loss = operator(
    "standard::mse_loss",
    infer=_error_meta,
    cpu=errors_cpu.mse_loss(mse_loss),
    cuda=".errors_cuda:mse_loss",
)(mse_loss)


@mse_loss.backward
def _(grad, input, target, like, needs, reduction):
    return _error_gradients(input - target, grad, like, needs, reduction, times=2)


def _mse_loss_gradient(grad, input, target, like, needs, reduction):
    slope = np.asarray(input - target)
    return _error_arrays(slope, grad, like, needs, reduction, times=2)


mse_loss.backward_kernel(errors_cpu.mse_loss_gradient(_mse_loss_gradient))
mse_loss.backward_kernel(cuda=".errors_cuda:mse_loss.backward")
mse_loss.samples(_error_samples)


def _equal(input, target, *, tol, reduction="mean"):
    return np.abs(input - target) <= tol


def l1_loss(input, target, *, reduction="mean"):
    """The absolute error, with gradient 0 where the two are equal; they broadcast.

    Raises
    ------
    ValueError
        `reduction` is unknown.
    RuntimeError
        The shapes do not broadcast.
    """
    check_reduction("l1_loss", reduction)
    _joint_shape("l1_loss", input.shape, target.shape)
    error = np.asarray(input - target)
    return _reduce_array(np.abs(error, out=error), reduction, error.dtype)


l1_loss = operator(
    "standard::l1_loss",
    infer=_error_meta,
    kinks=_equal,
    cpu=errors_cpu.l1_loss(l1_loss),
    cuda=".errors_cuda:l1_loss",
)(l1_loss)


@l1_loss.backward
def _(grad, input, target, like, needs, reduction):
    return _error_gradients(ops.sign(input - target), grad, like, needs, reduction)


def _l1_loss_gradient(grad, input, target, like, needs, reduction):
    slope = np.asarray(input - target)
    return _error_arrays(np.sign(slope, out=slope), grad, like, needs, reduction)


l1_loss.backward_kernel(errors_cpu.l1_loss_gradient(_l1_loss_gradient))
l1_loss.backward_kernel(cuda=".errors_cuda:l1_loss.backward")
l1_loss.samples(_error_samples)


# ---- binary cross entropy ------------------------------------------------------------------------------------

# A probability of exactly 0 or 1 has log -inf; PyTorch bounds the logarithm at -100, and so does this.
LOWEST_LOG = reference.LOWEST_LOG


def _smallest(dtype):
    return max(reference.LEAST, float(finfo(dtype).tiny))


def _check_probabilities(input):
    if np.size(input) and not (np.min(input) >= 0 and np.max(input) <= 1):
        raise RuntimeError(
            f"binary_entropy: input must hold probabilities between 0 and 1, got {np.min(input)} to {np.max(input)}; "
            "binary_cross_entropy_with_logits takes any number"
        )


def _binary_entropy(input, target):
    """The CPU kernel."""
    _check_probabilities(input)
    return entropies_cpu.binary_entropy(input, target)


# On a device what lies outside [0, 1] gives NaN: to raise would be to wait for the device in every call.
@operator(
    "standard::binary_entropy",
    elementwise=True,
    cpu=_binary_entropy,
    cuda="-(target * max(log(input), -100) + (1 - target) * max(log1p(-input), -100))",
)
def binary_entropy(input, target):
    """-(target log(input) + (1 - target) log(1 - input)), each logarithm bounded below by -100.

    Raises
    ------
    RuntimeError
        `input` holds something outside [0, 1]; on a CUDA device the loss is NaN there.
    """
    _check_probabilities(input)
    return reference.entropy_of(input, target)


@binary_entropy.backward
def _(grad, input, target, needs):
    least = _smallest(grad.dtype)
    grad_input = grad_target = None
    if needs.input:
        slope = (1 - target) / ops.clamp(1 - input, min=least) - target / ops.clamp(
            input, min=least
        )
        grad_input = grad * slope
    if needs.target:
        high = ops.clamp(ops.log1p(-input), min=LOWEST_LOG)
        grad_target = grad * (high - ops.clamp(ops.log(input), min=LOWEST_LOG))
    return grad_input, grad_target


binary_entropy.backward_kernel(entropies_cpu.entropy_backward)


@binary_entropy.samples
def _(make):
    yield make.call(make.uniform(2, 3, low=0.1, high=0.9), make.uniform(2, 3, low=0.0, high=1.0))
    yield make.call(make.uniform(4, low=0.1, high=0.9), make.values([0.0, 1.0, 0.0, 1.0]))
    yield make.call(make.uniform(low=0.1, high=0.9), make.uniform(3, low=0.0, high=1.0))
    yield make.error(RuntimeError, "between 0 and 1", make.values([1.5]), make.values([1.0]))


@composite("standard::binary_cross_entropy")
def binary_cross_entropy(input, target, weight=None, reduction="mean"):
    """The cross entropy of targets in [0, 1] and the probabilities `input`, times `weight` if there is one.

    Raises
    ------
    RuntimeError
        `input` holds something outside [0, 1], or the shapes differ.
    """
    _same_shape("binary_cross_entropy", input, target)
    loss = ops.binary_entropy(input, target)
    return reduced("binary_cross_entropy", loss if weight is None else loss * weight, reduction)


def _same_shape(name, input, target):
    if input.shape != target.shape:
        raise RuntimeError(
            f"{name}: input and target must have one shape, got {input.shape} and {target.shape}"
        )


@binary_cross_entropy.samples
def _(make):
    yield make.call(make.uniform(2, 3, low=0.1, high=0.9), make.uniform(2, 3, low=0.0, high=1.0))
    yield make.call(
        make.uniform(2, low=0.1, high=0.9), make.values([0.0, 1.0]), make.normal(2), reduction="sum"
    )
    yield make.call(make.uniform(low=0.1, high=0.9), make.values(1.0), reduction="none")
    yield make.error(
        RuntimeError, "one shape", make.uniform(2, low=0.1, high=0.9), make.uniform(3, low=0.0)
    )


@operator(
    "standard::logistic_loss",
    elementwise=True,
    cpu=entropies_cpu.logistic_loss,
    cuda="(input > 0 ? input * (1 - target) : -input * target) + log1p(exp(-abs(input)))",
)
def logistic_loss(input, target):
    """The cross entropy of targets in [0, 1] and probabilities given by their logits, without overflow.

    max(x, 0) - x t + log(1 + exp(-|x|)), where the difference is taken so that infinite logits leave an infinity.
    """
    return reference.logistic_of(input, target)


@logistic_loss.backward
def _(grad, input, target, needs):
    grad_input = grad * (ops.sigmoid(input) - target) if needs.input else None
    return grad_input, (-grad * input if needs.target else None)


logistic_loss.backward_kernel(
    entropies_cpu.logistic_backward,
    cuda={"input": "grad * (sigmoid(input) - target)", "target": "-grad * input"},
)


@logistic_loss.samples
def _(make):
    yield make.call(make.normal(2, 3), make.uniform(2, 3, low=0.0, high=1.0))
    yield make.call(make.values([-800.0, 0.0, 800.0]), make.values([0.0, 0.5, 1.0]))
    yield make.call(make.normal(), make.uniform(3, low=0.0, high=1.0))


@composite("standard::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """The cross entropy of targets in [0, 1] and probabilities given by their logits, without overflow.

    Parameters
    ----------
    weight : tensor, optional
        Factor of each loss; broadcasts.
    pos_weight : tensor, optional
        Factor of the part that belongs to the positive class; broadcasts.
    """
    name = "binary_cross_entropy_with_logits"
    _same_shape(name, input, target)
    if pos_weight is None:
        loss = ops.logistic_loss(input, target)
    else:
        positive = 1 + (pos_weight - 1) * target
        loss = (1 - target) * input - positive * ops.logsigmoid(input)
    return reduced(name, loss if weight is None else loss * weight, reduction)


@binary_cross_entropy_with_logits.samples
def _(make):
    yield make.call(make.normal(2, 3), make.uniform(2, 3, low=0.0, high=1.0))
    target = make.uniform(2, 3, low=0.0, high=1.0)
    yield make.call(make.normal(2, 3), target, make.normal(3), "sum", make.positive(3))
    yield make.call(make.normal(), make.values(1.0), reduction="none")
    yield make.error(RuntimeError, "one shape", make.normal(2), make.normal(3))
