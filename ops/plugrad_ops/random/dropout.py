"""Operators that drop elements at random.

What is dropped is 0 whatever it was, infinite or NaN. The gradient drops the same elements: the rule is given the stream of
the call, so no mask is kept.
"""

from __future__ import annotations

import numpy as np

import plugrad
from plugrad import composite, operator, ops
from plugrad_ops.random import cpu
from plugrad_ops.random.fills import check_probability
from plugrad_ops.sampling import unary

# ---------------------------------------------------------------------------------- single elements


def _dropout(input, *, p, generator):
    """The CPU kernel."""
    return cpu.dropout(input, p=check_probability("dropout", p), generator=generator)


@operator("standard::dropout", elementwise=True, random=True, cpu=_dropout, cuda=".cuda:dropout")
def dropout(input, *, p=0.5, generator=None):
    """Zero with probability `p`, else `input` times ``1 / (1 - p)``.

    Raises
    ------
    RuntimeError
        `p` is not from 0 to 1.
    """
    check_probability("dropout", p)
    return cpu.dropped_of(input, p, 1.0 / (1.0 - p) if p < 1.0 else 0.0, generator)


@dropout.backward
def _(grad, p, generator):
    return ops.dropout(grad, p=p, generator=generator)


@dropout.samples
def _(make):
    yield from unary(make)
    yield make.call(make.normal(3, 4), p=0.1, generator=make.generator())
    yield make.call(make.values([np.inf, 1.0, -np.inf]), p=1.0)
    yield make.error(RuntimeError, "p must be", make.normal(3), p=1.5)


# ---------------------------------------------------------------------------------- whole channels


def channel_mask(name, input, p, generator):
    """False for the channels (of each sample) that are dropped: (N, C, 1, …)."""
    check_probability(name, p)
    if input.ndim < 2:
        raise RuntimeError(
            f"{name}: channels are dimension 1, and the input of shape {tuple(input.shape)} has none"
        )
    shape = (*input.shape[:2], *(1 for _ in input.shape[2:]))
    return element_mask(shape, input.device, p, generator)


def element_mask(shape, device, p, generator):
    """False with probability `p`, of a shape, on a device."""
    dropped = plugrad.empty(shape, dtype=bool, device=device)
    return ops.bernoulli_(dropped, p=p, generator=generator).logical_not()


@composite("standard::feature_dropout", random=True)
def feature_dropout(input, *, p=0.5, generator=None):
    """Each channel (N, C, …) is 0 with probability `p`, else multiplied by ``1 / (1 - p)``.

    Raises
    ------
    RuntimeError
        `p` is not from 0 to 1, or `input` has fewer than two dimensions.
    """
    mask = channel_mask("feature_dropout", input, p, generator)
    return ops.where(mask, input * (1.0 / (1.0 - p) if p < 1.0 else 0.0), 0.0)


@feature_dropout.samples
def _(make):
    yield make.call(make.normal(3, 4, 2))
    yield make.call(make.normal(2, 5), p=0.3)
    yield make.call(make.normal(1, 3, 1, 2), p=1.0)
    yield make.error(RuntimeError, "channels", make.normal(3))


# ------------------------------------------------------------- keeping mean and variance (for selu)

ALPHA = 1.7580993408473766
"""Minus the value of selu at minus infinity (Klambauer and others, arXiv:1706.02515)."""


def alpha_dropped(input, mask, p):
    """What is dropped becomes ``-ALPHA``; then an affine map that restores mean 0 and variance 1."""
    if p == 1.0:
        return ops.where(mask, input, 0.0)
    scale = ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)) ** -0.5
    shift = ALPHA * scale * p
    return ops.where(mask, input * scale + shift, shift - ALPHA * scale)


@composite("standard::alpha_dropout", random=True)
def alpha_dropout(input, *, p=0.5, generator=None):
    """Dropout that keeps the mean and the variance of what `selu` gives.

    Raises
    ------
    RuntimeError
        `p` is not from 0 to 1.
    """
    check_probability("alpha_dropout", p)
    return alpha_dropped(input, element_mask(input.shape, input.device, p, generator), p)


@alpha_dropout.samples
def _(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.normal(), p=0.1)
    yield make.call(make.normal(3), p=1.0)
    yield make.error(RuntimeError, "p must be", make.normal(3), p=-0.5)


@composite("standard::feature_alpha_dropout", random=True)
def feature_alpha_dropout(input, *, p=0.5, generator=None):
    """`alpha_dropout` of whole channels (N, C, …).

    Raises
    ------
    RuntimeError
        `p` is not from 0 to 1, or `input` has fewer than two dimensions.
    """
    return alpha_dropped(input, channel_mask("feature_alpha_dropout", input, p, generator), p)


@feature_alpha_dropout.samples
def _(make):
    yield make.call(make.normal(3, 4, 2))
    yield make.call(make.normal(2, 5), p=0.3)
    yield make.call(make.normal(1, 3, 1, 2), p=1.0)
    yield make.error(RuntimeError, "channels", make.normal(3))


# ------------------------------------------------------------------------------------ random slopes


@operator(
    "standard::rrelu_slopes",
    elementwise=True,
    random=True,
    nondifferentiable=True,
    cuda="input > 0 ? 1 : lower + uniform(generator, index) * (upper - lower)",
)
def rrelu_slopes(input, *, lower=1.0 / 8, upper=1.0 / 3, generator=None):
    """1 where `input` is positive, elsewhere uniform from `lower` to `upper`."""
    slopes = generator.uniform(input.shape, input.dtype) * (upper - lower) + lower
    return np.where(input > 0, 1, slopes).astype(input.dtype, copy=False)


@rrelu_slopes.samples
def _(make):
    yield from unary(make)
    yield make.call(make.normal(3, 4), lower=-0.5, upper=0.5, generator=make.generator())


def _at_zero(input, *, tol, **constants):
    return np.abs(input) <= tol


@composite("standard::rrelu", random=True, kinks=_at_zero)
def rrelu(input, *, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    """`input` where it is positive, elsewhere times a random slope; outside training, the mean slope.

    Raises
    ------
    RuntimeError
        `lower` exceeds `upper`.
    """
    if not lower <= upper:
        raise RuntimeError(f"rrelu: lower must not exceed upper, got {lower} and {upper}")
    if not training:
        return ops.leaky_relu(input, negative_slope=(lower + upper) / 2)
    return input * ops.rrelu_slopes(input, lower=lower, upper=upper, generator=generator)


@rrelu.samples
def _(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.normal(3, 4), training=True)
    yield make.call(make.normal(2, 5), lower=-0.5, upper=0.5, training=True)
    yield make.call(make.values([-1.0, 0.0, 1.0]), training=True)
    yield make.error(RuntimeError, "exceed", make.normal(3), lower=0.5, upper=0.1)
