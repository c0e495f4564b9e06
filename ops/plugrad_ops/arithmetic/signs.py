"""Signs: taken, given, tested; the step function; infinities and NaN replaced or told apart."""

from __future__ import annotations

import numpy as np

from plugrad import operator, ops
from plugrad_ops.sampling import binary

NUMERIC = {"input": "numeric"}
BOOLEAN = {"elementwise": True, "out_dtype": "bool", "nondifferentiable": True, "method": True}

# ---------------------------------------------------------------------------- signs and steps


def _near_zero(input, *rest, tol):
    return np.broadcast_to(
        np.abs(input) <= tol, np.broadcast_shapes(*map(np.shape, (input, *rest)))
    )


@operator(
    "standard::signbit",
    dtypes="numeric",
    cuda="copysign(1.0, input) < 0",
    **BOOLEAN,
)
def signbit(input):
    """Where the sign is negative, that of -0 and of NaN too."""
    return np.signbit(input) if input.dtype.kind == "f" else input < 0


@signbit.samples
def _(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.values([0.0, -0.0, -np.inf]))
    yield make.call(make.integers(3, low=-3, high=3))


def _near_sign_change(input, other, *, tol):
    return (np.abs(input) <= tol) | (np.abs(other) <= tol)


@operator(
    "standard::copysign",
    elementwise=True,
    kinks=_near_sign_change,
    cuda="copysign(input, other)",
    method=True,
)
def copysign(input, other):
    """The size of `input` with the sign of `other`; the derivative is 0 where `input` is 0."""
    return np.copysign(input, other)


@copysign.backward
def _(grad, input, out, needs):
    return (
        grad * (ops.sign(input) * ops.sign(out)) if needs.input else None,
        ops.zeros_like(grad) if needs.other else None,
    )


@copysign.samples
def _(make):
    yield from binary(make)
    yield make.call(make.values([1.0, -2.0, 3.0]), make.values([-0.0, 0.0, -1.0]))


@operator(
    "standard::heaviside",
    elementwise=True,
    dtypes={"input": "numeric", "values": "numeric"},
    kinks=_near_zero,
    cuda="isnan(input) ? input : input == 0 ? values : input > 0 ? 1 : 0",
    method=True,
)
def heaviside(input, values):
    """0 below 0, 1 above, and `values` at 0; NaN stays NaN."""
    step = np.where(np.equal(input, 0), values, np.greater(input, 0))
    return np.where(np.isnan(input), input, step).astype(np.result_type(input, values), copy=False)


@heaviside.backward
def _(grad, input, needs):
    return (
        ops.zeros_like(grad) if needs.input else None,
        ops.where(input == 0, grad, 0.0) if needs.values else None,
    )


@heaviside.samples
def _(make):
    yield make.call(make.distinct(3, 4), make.normal(3, 4))
    yield make.call(make.values([-1.0, 0.0, 2.0]), make.normal(2, 1))
    yield make.call(make.values([-1.0, 0.0, np.inf]), 0.5)


# ----------------------------------------------------------------------- infinities and NaN


@operator(
    "standard::nan_to_num", elementwise=True, dtypes=NUMERIC, cuda=".cuda:nan_to_num", method=True
)
def nan_to_num(input, *, nan=0.0, posinf=None, neginf=None):
    """NaN and the infinities replaced by numbers: by default 0 and the greatest and least of the dtype.

    The derivative is 0 where something was replaced.
    """
    return np.nan_to_num(input, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


@nan_to_num.backward
def _(grad, input):
    return ops.where(ops.isfinite(input), grad, 0.0)


@nan_to_num.samples
def _(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.values([1.0, np.nan, -2.0]))
    yield make.call(make.values([np.nan, np.inf, -np.inf]), nan=1.0, posinf=2.0, neginf=-3.0)


def _special(make):
    yield make.call(make.values([1.0, np.nan, np.inf, -np.inf]))
    yield make.call(make.normal(3, 4))
    yield make.call(make.integers(3))


@operator("standard::isposinf", dtypes="numeric", cuda="isinf(input) && input > 0", **BOOLEAN)
def isposinf(input):
    """Where an element is plus infinity."""
    return np.isinf(input) & (input > 0)


isposinf.samples(_special)


@operator("standard::isneginf", dtypes="numeric", cuda="isinf(input) && input < 0", **BOOLEAN)
def isneginf(input):
    """Where an element is minus infinity."""
    return np.isinf(input) & (input < 0)


isneginf.samples(_special)


@operator("standard::isreal", dtypes="number", cuda="imag(input) == 0", **BOOLEAN)
def isreal(input):
    """Where an element has no imaginary part: everywhere, for real dtypes."""
    return np.isreal(input)


@isreal.samples
def _(make):
    yield from _special(make)
    yield make.call(make.complex(2) * [1, 0])
