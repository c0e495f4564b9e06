"""Sums with a factor and quotients with a rounding: what ``add(alpha=)``, ``sub(alpha=)`` and ``div(rounding_mode=)`` compute.

They are operators of their own, so that sums and quotients without these keywords keep their shortest way.
"""

from __future__ import annotations

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.dtypes import kind
from plugrad_ops.arithmetic.division import _near_jump
from plugrad_ops.sampling import binary

ROUNDINGS = (None, "floor", "trunc")


def _scaled(name, input, other, alpha):
    """``alpha * other``, where the dtypes let `alpha` be what it is."""
    kinds = [kind(x.dtype) for x in (input, other) if hasattr(x, "dtype")]
    kinds += [np.asarray(x).dtype.kind for x in (input, other) if not hasattr(x, "dtype")]
    given = np.asarray(alpha).dtype.kind
    if (given == "f" and not set(kinds) & set("fc")) or (given == "c" and "c" not in kinds):
        raise RuntimeError(
            f"{name}: alpha must be a number of the tensors' kind, got {alpha!r} for dtypes "
            f"{', '.join(str(x.dtype) for x in (input, other) if hasattr(x, 'dtype'))}"
        )
    return other if alpha == 1 else other * alpha


@composite("standard::add_scaled")
def add_scaled(input, other, *, alpha=1):
    """``input + alpha * other``.

    Raises
    ------
    RuntimeError
        `alpha` is a float or complex where the tensors are not.
    """
    return ops.add(input, _scaled("add", input, other, alpha))


@composite("standard::sub_scaled")
def sub_scaled(input, other, *, alpha=1):
    """``input - alpha * other``.

    Raises
    ------
    RuntimeError
        `alpha` is a float or complex where the tensors are not.
    """
    return ops.sub(input, _scaled("sub", input, other, alpha))


def _samples(make):
    yield make.call(make.normal(2, 3), make.normal(3), alpha=2)
    yield make.call(make.normal(3), 1.5, alpha=-0.5)
    yield make.call(make.integers(3), make.integers(3), alpha=3)
    yield make.error(RuntimeError, "alpha", make.integers(3), make.integers(3), alpha=1.5)


add_scaled.samples(_samples)
sub_scaled.samples(_samples)


@operator("standard::trunc_divide", elementwise=True, kinks=_near_jump, cuda="trunc(input / other)")
def trunc_divide(input, other):
    """The quotient rounded towards 0; the derivative is 0 everywhere, at the jumps and where `other` is 0 too."""
    return np.trunc(np.true_divide(input, other))


@trunc_divide.backward
def _(grad, needs):
    none = ops.zeros_like(grad)
    return none if needs.input else None, none if needs.other else None


@trunc_divide.samples
def _(make):
    yield from binary(make, other_low=0.5, other_high=2.0)


@composite(
    "standard::div_rounded",
    kinks=lambda input, other, *, tol, rounding_mode=None: (
        _near_jump(input, other, tol=tol) & (rounding_mode is not None)
    ),
)
def div_rounded(input, other, *, rounding_mode=None):
    """The quotient, rounded down ("floor"), towards 0 ("trunc"), or not (None).

    Raises
    ------
    RuntimeError
        `rounding_mode` is none of these.
    """
    if rounding_mode not in ROUNDINGS:
        raise RuntimeError(
            f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}"
        )
    if rounding_mode is None:
        return ops.div(input, other)
    if rounding_mode == "floor":
        return ops.floor_divide(input, other)
    whole = [
        kind(x.dtype) in "biu" if hasattr(x, "dtype") else isinstance(x, int)
        for x in (input, other)
    ]
    if all(whole):  # of these numbers the quotient itself could be too large for a float
        return ops.floor_divide(input - ops.fmod(input, other), other)
    return ops.trunc_divide(input, other)


@div_rounded.samples
def _(make):
    yield from binary(make, other_low=0.5, other_high=2.0, rounding_mode="trunc")
    yield make.call(make.normal(3), make.positive(3), rounding_mode="floor")
    yield make.call(make.normal(3), make.positive(3))
    yield make.call(make.integers(4, low=-9), make.integers(4, low=1), rounding_mode="trunc")
    yield make.error(RuntimeError, "rounding_mode", make.normal(3), 2.0, rounding_mode="up")
