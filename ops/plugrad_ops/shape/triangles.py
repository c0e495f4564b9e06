"""The lower and the upper triangle of matrices."""

import numpy as np

from plugrad import operator, ops
from plugrad_ops.shape import cpu


def _triangle_meta(name):
    def infer(input, *, diagonal=0):
        check_matrix(name, input)
        return input.shape, input.dtype

    return infer


def check_matrix(name, input):
    """Raise unless there are two dimensions to have a triangle in."""
    if len(input.shape) < 2:
        raise RuntimeError(f"{name}: expected at least 2 dimensions, got shape {input.shape}")


def _lower(input, *, diagonal=0):
    check_matrix("tril", input)
    return np.tril(input, diagonal)


def _upper(input, *, diagonal=0):
    check_matrix("triu", input)
    return np.triu(input, diagonal)


@operator(
    "standard::tril",
    dtypes="any",
    infer=_triangle_meta("tril"),
    method=True,
    cpu=cpu.Triangle(_lower, False),
    cuda=".cuda:tril",
)
def tril(input, *, diagonal=0):
    """The elements ``[i, j]`` of the last two dimensions with ``j <= i + diagonal``; zeros elsewhere.

    Raises
    ------
    RuntimeError
        `input` has fewer than two dimensions.
    """
    return _lower(input, diagonal=diagonal)


@tril.backward
def _(grad, diagonal):
    return ops.tril(grad, diagonal)


@operator(
    "standard::triu",
    dtypes="any",
    infer=_triangle_meta("triu"),
    method=True,
    cpu=cpu.Triangle(_upper, True),
    cuda=".cuda:triu",
)
def triu(input, *, diagonal=0):
    """The elements ``[i, j]`` of the last two dimensions with ``j >= i + diagonal``; zeros elsewhere.

    Raises
    ------
    RuntimeError
        `input` has fewer than two dimensions.
    """
    return _upper(input, diagonal=diagonal)


@triu.backward
def _(grad, diagonal):
    return ops.triu(grad, diagonal)


def _matrices(make):
    yield make.call(make.normal(3, 3))
    yield make.call(make.normal(2, 3, 4), diagonal=-1)
    yield make.call(make.normal(3, 2), diagonal=1)
    yield make.call(make.normal(0, 3))
    yield make.error(RuntimeError, "at least 2", make.normal(3))


tril.samples(_matrices)
triu.samples(_matrices)
