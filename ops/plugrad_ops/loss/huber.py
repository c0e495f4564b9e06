"""Errors that are squared where they are small and grow linearly where they are not."""

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.loss import errors_cpu
from plugrad_ops.loss.ops import (
    _error_arrays,
    _error_gradients,
    _error_meta,
    _error_samples,
    _joint_shape,
    _reduce_array,
    check_reduction,
)


def _meta(input, target, *, reduction="mean", delta=1.0):
    return _error_meta(input, target, reduction=reduction)


def check_delta(delta):
    """Raise unless `delta` is positive."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss: delta must be positive, got {delta}")


def huber_loss(input, target, *, reduction="mean", delta=1.0):
    """Half the squared error, from `delta` on continued by its tangent (Huber, Ann. Math. Statist. 35 (1964), 73).

    Raises
    ------
    ValueError
        `reduction` is unknown.
    RuntimeError
        `delta` is not positive, or the shapes do not broadcast.
    """
    check_reduction("huber_loss", reduction)
    check_delta(delta)
    _joint_shape("huber_loss", input.shape, target.shape)
    error = np.asarray(np.abs(input - target))
    near = np.minimum(error, delta)
    error -= near * 0.5
    return _reduce_array(np.multiply(error, near, out=error), reduction, error.dtype)


huber_loss = operator(
    "standard::huber_loss",
    infer=_meta,
    cpu=errors_cpu.huber_loss(huber_loss),
    cuda=".errors_cuda:huber_loss",
)(huber_loss)


@huber_loss.backward
def _(grad, input, target, like, needs, reduction, delta):
    slope = ops.clamp(input - target, min=-delta, max=delta)
    return _error_gradients(slope, grad, like, needs, reduction)


def _huber_loss_gradient(grad, input, target, like, needs, reduction, delta):
    slope = np.asarray(input - target)
    return _error_arrays(np.clip(slope, -delta, delta, out=slope), grad, like, needs, reduction)


huber_loss.backward_kernel(errors_cpu.huber_loss_gradient(_huber_loss_gradient))
huber_loss.backward_kernel(cuda=".errors_cuda:huber_loss.backward")


@huber_loss.samples
def _(make):
    yield from _error_samples(make)
    yield make.call(make.normal(2, 3), make.normal(3), delta=0.5)
    yield make.error(RuntimeError, "delta", make.normal(2), make.normal(2), delta=0.0)


@composite("standard::smooth_l1_loss")
def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    """The absolute error less ``beta / 2``; below `beta` the squared error over ``2 * beta``. With `beta` 0, `l1_loss`.

    Raises
    ------
    ValueError
        `reduction` is unknown.
    RuntimeError
        `beta` is negative, or the shapes do not broadcast.
    """
    check_reduction("smooth_l1_loss", reduction)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: beta must be at least 0, got {beta}")
    if beta == 0:
        return ops.l1_loss(input, target, reduction=reduction)
    loss = ops.huber_loss(input, target, reduction=reduction, delta=beta)
    return loss if beta == 1 else loss / beta


@smooth_l1_loss.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(2, 3))
    yield make.call(make.normal(2, 3), make.normal(3), "sum", beta=0.5)
    yield make.call(make.normal(2), make.normal(2), "none", beta=0)
    yield make.error(RuntimeError, "beta", make.normal(2), make.normal(2), beta=-1.0)
