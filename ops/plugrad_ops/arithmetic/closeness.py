"""Whether tensors are equal or nearly so."""

from __future__ import annotations

import numpy as np

from plugrad import composite, ops


@composite("standard::isclose", method=True)
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where ``|input - other| <= atol + rtol * |other|``; infinities are close to themselves only."""
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: rtol and atol must be 0 or greater, got {rtol} and {atol}")
    distance = ops.abs(input - other)
    close = (input == other) | (ops.isfinite(distance) & (distance <= ops.abs(other) * rtol + atol))
    return close | (ops.isnan(input) & ops.isnan(other)) if equal_nan else close


def _close(make):
    near = make.values([1.0, 2.0, np.nan, np.inf, -np.inf])
    yield make.call(near, make.values([1.0 + 1e-9, 2.1, np.nan, np.inf, np.inf]))
    yield make.call(near, near, equal_nan=True)
    yield make.call(make.normal(2, 3), make.normal(3), rtol=0.5)
    yield make.call(make.integers(3), make.integers(3))
    yield make.error(RuntimeError, "0 or greater", near, near, rtol=-1.0)


isclose.samples(_close)


@composite("standard::allclose", method=True)
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close (see `isclose`), as a bool."""
    return bool(ops.all(ops.isclose(input, other, rtol, atol, equal_nan)))


allclose.samples(_close)


@composite("standard::equal", method=True)
def equal(input, other):
    """Whether shapes and all elements are equal, as a bool; NaN equals nothing.

    Raises
    ------
    RuntimeError
        The dtypes differ.
    """
    if input.dtype != other.dtype:
        raise RuntimeError(f"equal: the dtypes must agree, got {input.dtype} and {other.dtype}")
    return input.shape == other.shape and bool(ops.all(input == other))


@equal.samples
def _(make):
    values = make.normal(2, 3)
    yield make.call(values, values.copy())
    yield make.call(make.normal(3), make.normal(2, 3))
    yield make.call(make.integers(3), make.integers(3))
    yield make.call(make.normal(0), make.normal(0))
    yield make.error(RuntimeError, "dtypes", make.normal(3), make.integers(3))
