"""The larger, the smaller, one or the other; and the same in another dtype."""

from __future__ import annotations

import numpy as np

from plugrad import operator, ops
from plugrad.backends.dtypes import rounded
from plugrad_ops.arithmetic import cpu, selection_cpu
from plugrad_ops.sampling import binary

NUMERIC = {"input": "numeric", "other": "numeric"}


# ------------------------------------------------------------------------- maximum, minimum


def _share(grad, input, other, *, larger):
    """Gradients of the larger (or smaller) of two operands, the minimum-norm ones where they are equal.

    Two tensors that are equal get half each. A number is no variable: next to one, the tensor's subgradients at
    equality run from 0 to 1, and the smallest is 0.
    """
    input_wins, other_wins = (
        (input > other, input < other) if larger else (input < other, input > other)
    )
    if isinstance(other, int | float):
        return ops.where(input_wins, grad, 0.0), None
    if isinstance(input, int | float):
        return None, ops.where(other_wins, grad, 0.0)
    half = grad * 0.5
    return (
        ops.where(input_wins, grad, ops.where(other_wins, 0.0, half)),
        ops.where(other_wins, grad, ops.where(input_wins, 0.0, half)),
    )


def _near_tie(input, other, *, tol):
    return np.abs(np.subtract(input, other)) <= tol


def _with_ties(make):
    yield from binary(make)
    yield make.call(make.values([1.0, 2.0, 3.0]), make.values([2.0, 2.0, 2.0]))


@operator(
    "standard::maximum",
    elementwise=True,
    dtypes=NUMERIC,
    kinks=_near_tie,
    cpu=cpu.maximum,
    cuda="max(input, other)",
    method=True,
)
def maximum(input, other):
    """The larger of two elements, NaN if either is; equal tensors share the gradient."""
    return np.maximum(input, other)


@maximum.backward
def _(grad, input, other):
    return _share(grad, input, other, larger=True)


maximum.backward_kernel(selection_cpu.maximum_backward)
maximum.samples(_with_ties)


@operator(
    "standard::minimum",
    elementwise=True,
    dtypes=NUMERIC,
    kinks=_near_tie,
    cpu=cpu.minimum,
    cuda="min(input, other)",
    method=True,
)
def minimum(input, other):
    """The smaller of two elements, NaN if either is; equal tensors share the gradient."""
    return np.minimum(input, other)


@minimum.backward
def _(grad, input, other):
    return _share(grad, input, other, larger=False)


minimum.backward_kernel(selection_cpu.minimum_backward)
minimum.samples(_with_ties)


# ------------------------------------------------------------------------------------ clamp


def _near_bound(input, min=None, max=None, *, tol):
    near = np.zeros(np.shape(input), bool)
    for bound in (min, max):
        if bound is not None:
            near = near | (np.abs(np.subtract(input, bound)) <= tol)
    if min is not None and max is not None:
        near = near | (np.abs(np.subtract(min, max)) <= tol)
    return near


@operator(
    "standard::clamp",
    elementwise=True,
    dtypes={"input": "numeric", "min": "numeric", "max": "numeric"},
    kinks=_near_bound,
    cpu=selection_cpu.clamp,
    cuda=".cuda:clamp",
    method=True,
)
def clamp(input, min=None, max=None):
    """Each element moved into ``[min, max]``; `max` wins where the bounds cross.

    On a bound that is a number the derivative is 0; an element equal to a bound that is a tensor shares the
    gradient with it.

    Raises
    ------
    ValueError
        Neither bound is given.
    """
    if min is None and max is None:
        raise ValueError("clamp: give min, max or both; got neither")
    out = input if min is None else np.maximum(input, min)
    return out if max is None else np.minimum(out, max)


@clamp.backward
def _(grad, input, min, max):
    to_min = to_max = None
    if max is not None:
        raised = input if min is None else ops.maximum(input, min)
        grad, to_max = _share(grad, raised, max, larger=False)
    if min is not None:
        grad, to_min = _share(grad, input, min, larger=True)
    return grad, to_min, to_max


clamp.backward_kernel(selection_cpu.clamp_backward)


@clamp.samples
def _(make):
    yield make.call(make.distinct(2, 4), -0.5, 0.75)
    yield make.call(make.distinct(4), 0)
    yield make.call(make.distinct(4), None, 0.5)
    yield make.call(make.distinct(2, 3), make.uniform(3, high=0.0), make.uniform(2, 1, low=0.1))
    yield make.call(make.distinct(4), make.values(1.0), make.values(-1.0))
    yield make.error(ValueError, "min, max or both", make.normal(3))


# ------------------------------------------------------------------------------ where, cast


@operator(
    "standard::where",
    elementwise=True,
    dtypes={"condition": "bool", "input": "number", "other": "number"},
    cpu=selection_cpu.where,
    cuda="condition ? input : other",
)
def where(condition, input, other):
    """`input` where `condition` is true, else `other`.

    The branch that was not taken gets a gradient of 0, which its own rule may turn into NaN: with ``where(x > 0,
    sqrt(x), 0)``, 0 times the infinite derivative of the root at 0. Choose a safe operand first:
    ``where(x > 0, sqrt(where(x > 0, x, 1)), 0)``.
    """
    return np.where(condition, input, other)


@where.backward
def _(grad, condition, needs):
    return (
        None,
        ops.where(condition, grad, 0.0) if needs.input else None,
        ops.where(condition, 0.0, grad) if needs.other else None,
    )


where.backward_kernel(selection_cpu.where_backward)


@where.samples
def _(make):
    yield make.call(make.booleans(3, 4), make.normal(3, 4), make.normal(3, 4))
    yield make.call(make.booleans(3, 1), make.normal(4), make.normal(2, 1, 1))
    yield make.call(make.booleans(5), make.normal(5), 0.0)
    yield make.call(make.booleans(2, 3), 1.5, make.normal(3))
    yield make.call(make.booleans(3), make.complex(3), make.complex(2, 1))
    yield make.error(TypeError, "bool", make.normal(3), make.normal(3), make.normal(3))


def _same_shape(input, *, dtype):
    return input.shape, np.dtype(dtype)


@operator("standard::cast", dtypes="number", infer=_same_shape, cuda="plugrad_ops.shape.cuda:cast")
def cast(input, *, dtype):
    """The values in another dtype, in a new tensor; the gradient is cast back. Real numbers are the real parts of complex ones."""
    dtype = np.dtype(dtype)
    whole = input.dtype.kind != "c" or dtype.kind in "cb"
    return rounded(input if whole else input.real, dtype)


@cast.backward
def _(grad, like):
    return ops.cast(grad, dtype=like.input.dtype)


@cast.samples
def _(make):
    yield make.call(make.normal(3, 4), dtype=np.dtype(np.float64))
    yield make.call(make.normal(2, 3), dtype=np.dtype(np.float32))
    yield make.call(make.integers(3), dtype=np.dtype(np.float32))
    yield make.call(make.booleans(2, 2), dtype=np.dtype(np.int64))
    yield make.call(make.values(1.5), dtype=np.dtype(np.float64))
    yield make.call(make.complex(2, 3), dtype=np.dtype(np.float64))
    yield make.call(make.normal(3), dtype=np.dtype(np.complex128))
    yield make.error(TypeError, "dtype", make.normal(3), dtype="no such dtype")


@operator(
    "standard::zeros_like",
    elementwise=True,
    dtypes="any",
    nondifferentiable=True,
    cuda="plugrad_ops.shape.cuda:zeros_like",
)
def zeros_like(input):
    """Zeros of the shape and dtype of `input`, whatever it holds: ``input * 0`` is NaN for infinities."""
    return np.zeros_like(input)


@zeros_like.samples
def _(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.values([np.inf, np.nan]))
    yield make.call(make.integers(2, 3))
