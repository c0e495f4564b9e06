"""Rounding and signs: what is flat almost everywhere, with a gradient that trains.

``surrogate`` names the function whose derivative each rule claims to be; plugrad checks the rule
against it. The idea: Bengio, Léonard and Courville, "Estimating or Propagating Gradients Through
Stochastic Neurons for Conditional Computation", arXiv:1308.3432.
"""

import numpy as np

from plugrad import operator, ops

__all__ = ["binarize", "round", "sign"]


def _identity(x):
    return x


# ------------------------------------------------------------------------------------------ round


@operator("ste::round", elementwise=True, surrogate=_identity, cuda="rint(x)")
def round(x):
    """Nearest integer, ties to even; the gradient passes straight through."""
    return np.rint(x)


@round.backward
def _(grad):
    return grad


@round.samples
def _(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.values([-1.5, -0.5, 0.0, 0.2, 0.5, 2.7]))
    yield make.call(make.uniform(5, low=-100.0, high=100.0))


# ------------------------------------------------------------------------------------------- sign


@operator("ste::sign", elementwise=True, surrogate=_identity, cuda="sign(x)")
def sign(x):
    """-1, 0 or 1, the sign of `x` (NaN stays NaN); the gradient passes straight through."""
    return np.sign(x)


@sign.backward
def _(grad):
    return grad


@sign.samples
def _(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.values([-2.0, -0.3, 0.0, 0.3, 2.0]))
    yield make.call(make.uniform(2, 1, 3, low=-5.0, high=5.0))


# --------------------------------------------------------------------------------------- binarize


def _clip(x):
    return np.clip(x, -1.0, 1.0)


# At -1 and 1 the gradient still passes: weights that a training loop keeps inside [-1, 1] end up
# on these ends, and could never leave them with a derivative of 0 there.
@operator(
    "ste::binarize",
    elementwise=True,
    surrogate=_clip,
    kinks={-1.0: 1.0, 1.0: 1.0},
    cuda="x >= 0 ? 1 : (x < 0 ? -1 : x)",
)
def binarize(x):
    """-1 below zero, else 1 (NaN stays NaN); the gradient passes inside [-1, 1] and is 0 outside.

    The gradient of "Binarized Neural Networks", Hubara et al., arXiv:1602.02830, eq. 4.
    """
    return np.sign(x) + (x == 0)


@binarize.backward
def _(grad, x):
    return ops.where((x >= -1.0) * (x <= 1.0), grad, 0.0)


@binarize.samples
def _(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.values([-1.7, -1.0, -0.4, 0.0, 0.6, 1.0, 3.0]))
    yield make.call(make.uniform(2, 1, 3, low=-2.0, high=2.0))
