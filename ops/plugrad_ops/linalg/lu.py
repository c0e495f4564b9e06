"""LU factors with partial pivoting, and what is solved with them."""

import math
from typing import Any, NamedTuple

import numpy as np

from plugrad import composite, on_tensors, operator, ops
from plugrad_ops.linalg import blocks
from plugrad_ops.linalg.matrices import (
    SINGULAR,
    check_matrix,
    check_square,
    identity_like,
    leading,
    require_success,
    transposed,
    wide,
)
from plugrad_ops.linalg.samples import regular
from plugrad_ops.linalg.triangular import system_shape
from plugrad_ops.shape.cpu import triangle

# ---- factors -------------------------------------------------------------------------------------------------


def _lu_meta(A):
    check_matrix("linalg_lu_factor_ex", A.shape)
    shape = A.shape
    return [(shape, A.dtype), ((*shape[:-2], min(shape[-2:])), np.int32), (shape[:-2], np.int32)]


@operator(
    "standard::linalg_lu_factor_ex",
    outputs=("LU", "pivots", "info"),
    nondifferentiable=("pivots", "info"),
    infer=_lu_meta,
    cuda=".factors_cuda:lu_factor",
)
def linalg_lu_factor_ex(A):
    """The factors of ``A = P @ L @ U`` with partial pivoting.

    Parameters
    ----------
    A : (..., m, n)

    Returns
    -------
    LU : (..., m, n)
        U on and above the diagonal, below it L, whose diagonal are ones.
    pivots : (..., min(m, n)) of int32
        Row i was exchanged with row ``pivots[i]``, both counted from 1.
    info : (...) of int32
        The first pivot, from 1, that is zero, or 0.
    """
    check_matrix("linalg_lu_factor_ex", A.shape)
    factors, pivots, info = blocks.lu_factor(wide(A))
    return factors.astype(A.dtype, copy=False), pivots + np.int32(1), info


@linalg_lu_factor_ex.backward
def _(grad, LU, pivots):
    m, n = LU.shape[-2:]
    k = min(m, n)
    square = leading(leading(LU, -2, k), -1, k)
    turned = transposed(square)
    grad = grad[0]
    own = leading(leading(grad, -2, k), -1, k)
    lower, upper = ops.tril(own, -1), ops.triu(own)
    rest = None
    if m > n:  # the rows below are L₂ = A₂ U⁻¹
        below, behind = ops.narrow(LU, -2, k, m - k), ops.narrow(grad, -2, k, m - k)
        rest = ops.linalg_solve_triangular(turned, behind, upper=False, left=False)
        upper = upper - ops.triu(transposed(below) @ rest)
    elif n > m:  # the columns behind are U₂ = L⁻¹ P A₂
        aside, behind = ops.narrow(LU, -1, k, n - k), ops.narrow(grad, -1, k, n - k)
        rest = ops.linalg_solve_triangular(turned, behind, upper=True, unitriangular=True)
        lower = lower - ops.tril(rest @ transposed(aside), -1)
    unit = ops.tril(square, -1) + identity_like(LU, k)
    inner = ops.tril(transposed(unit) @ lower, -1) + ops.triu(upper @ transposed(ops.triu(square)))
    inner = ops.linalg_solve_triangular(turned, inner, upper=True, unitriangular=True)
    found = ops.linalg_solve_triangular(turned, inner, upper=False, left=False)
    if rest is not None:
        found = ops.cat([found, rest], -2 if m > n else -1)
    return ops.exchange_rows(found, pivots, inverse=True)


@linalg_lu_factor_ex.backward_kernel
def _(grad, LU, pivots):
    factors, grad = wide(LU), wide(grad[0])
    (m, n), k = factors.shape[-2:], min(factors.shape[-2:])
    square = factors[..., :k, :k]
    turned = square.swapaxes(-1, -2)
    inner = grad[..., :k, :k]
    lower, upper = triangle(inner, False, -1), triangle(inner, True)
    if m > n:
        rest = blocks.solve_triangular_right(turned, grad[..., k:, :], False, False)
        upper -= triangle(factors[..., k:, :].swapaxes(-1, -2) @ rest, True)
    elif n > m:
        rest = blocks.solve_triangular(turned, grad[..., k:], True, True)
        lower -= triangle(rest @ factors[..., k:].swapaxes(-1, -2), False, -1)
    inner = triangle(triangle(square, False, -1).swapaxes(-1, -2) @ lower + lower, False, -1)
    inner += triangle(upper @ triangle(square, True).swapaxes(-1, -2), True)
    inner = blocks.solve_triangular(turned, inner, True, True)
    found = blocks.solve_triangular_right(turned, inner, False, False)
    if m != n:
        found = np.concatenate([found, rest], -2 if m > n else -1)
    return exchanged(found, pivots, True).astype(LU.dtype, copy=False)


@linalg_lu_factor_ex.samples
def _(make):
    yield make.call(make.normal(3, 3))
    yield make.call(make.normal(2, 2, 3))
    yield make.call(make.normal(3, 2))
    yield make.call(make.normal(0, 2))
    yield make.error(RuntimeError, "a matrix", make.normal(2))


def permutation_shape(shape, rows):
    """The shape of `lu_permutation` of pivots of a shape; raises RuntimeError if they are more than the rows."""
    if shape[-1] > rows:
        raise RuntimeError(f"lu_permutation: {shape[-1]} pivots are too many for {rows} rows")
    return (*shape[:-1], rows)


@operator(
    "standard::lu_permutation",
    dtypes="integer",
    nondifferentiable=True,
    infer=lambda pivots, *, rows, inverse=False: (permutation_shape(pivots.shape, rows), np.int64),
    cuda=".factors_cuda:lu_permutation",
)
def lu_permutation(pivots, *, rows, inverse=False):
    """Which row comes to each place by the exchanges that `pivots` says; `inverse`: to which place each row comes.

    Raises
    ------
    RuntimeError
        There are more pivots than rows.
    IndexError
        A pivot is no row, counted from 1.
    """
    shape = permutation_shape(pivots.shape, rows)
    flat = pivots.reshape(math.prod(shape[:-1]), pivots.shape[-1])
    return blocks.permutations(flat - 1, rows, 0, inverse).reshape(shape)


@lu_permutation.samples
def _(make):
    yield make.call(np.array([3, 3, 3]), rows=3)
    yield make.call(np.array([[2, 4], [1, 3]]), rows=4, inverse=True)
    yield make.call(make.integers(2, 0), rows=2)
    yield make.error(IndexError, "none of 2 rows", np.array([3]), rows=2)
    yield make.error(RuntimeError, "too many", np.array([1, 2]), rows=1)


def exchanged(array, pivots, inverse):
    """`exchange_rows` of arrays."""
    order = lu_permutation.function(pivots, rows=array.shape[-2], inverse=inverse)
    batch = order.shape[:-1]
    if array.shape[:-2] != batch:
        batch = np.broadcast_shapes(array.shape[:-2], batch)
        array = np.broadcast_to(array, (*batch, *array.shape[-2:]))
        order = np.broadcast_to(order, (*batch, order.shape[-1]))
    if not batch:
        return array[order]
    rows, width = array.shape[-2:]
    count = math.prod(batch)
    order = order.reshape(count, rows) + rows * np.arange(count)[:, None]
    return array.reshape(count * rows, width)[order].reshape(array.shape)


def _exchange_shape(input, pivots):
    check_matrix("exchange_rows", input.shape)
    try:
        batch = np.broadcast_shapes(input.shape[:-2], pivots.shape[:-1])
    except ValueError:
        raise RuntimeError(
            f"exchange_rows: the leading dimensions of shapes {tuple(input.shape)} and {tuple(pivots.shape)} (of the pivots) "
            "do not broadcast"
        ) from None
    return (*batch, *input.shape[-2:])


def _exchanged_by_index(input, pivots, *, inverse=False):
    shape = _exchange_shape(input, pivots)
    order = ops.lu_permutation(pivots, rows=shape[-2], inverse=inverse)
    order = ops.expand(ops.unsqueeze(order, dim=-1), size=(*shape[:-1], 1))
    return ops.take_along_dim(ops.expand(input, size=shape), order, dim=-2)


@operator(
    "standard::exchange_rows",
    dtypes={"pivots": "integer"},
    infer=lambda input, pivots, *, inverse=False: (_exchange_shape(input, pivots), input.dtype),
    cuda=on_tensors(_exchanged_by_index),
)
def exchange_rows(input, pivots, *, inverse=False):
    """The rows of matrices exchanged as pivots of an LU factorisation say, ``P.T @ input``; `inverse`: back, ``P @ input``.

    Parameters
    ----------
    input : (..., m, n)
    pivots : (..., k) of integers
        Row i is exchanged with row ``pivots[i]``, both counted from 1. Leading dimensions broadcast.

    Raises
    ------
    RuntimeError
        The leading dimensions do not broadcast, or there are more pivots than rows.
    IndexError
        A pivot is no row.
    """
    _exchange_shape(input, pivots)
    return exchanged(input, pivots, inverse)


@exchange_rows.backward
def _(grad, pivots, like, inverse):
    back = ops.exchange_rows(grad, pivots, inverse=not inverse)
    return (
        back if back.shape == like.input.shape else ops.sum_to(back, shape=like.input.shape)
    ), None


@exchange_rows.samples
def _(make):
    yield make.call(make.normal(3, 2), np.array([2, 3, 3]))
    yield make.call(make.normal(4, 2), np.array([[2, 4], [1, 3]]), inverse=True)
    yield make.call(make.normal(2, 2, 1), np.array([[[2, 2]], [[1, 2]], [[2, 2]]]))
    yield make.call(make.normal(0, 2), make.integers(2, 0))
    yield make.error(RuntimeError, "a matrix", make.normal(3), np.array([1]))
    yield make.error(RuntimeError, "do not broadcast", make.normal(2, 1, 1), np.array([[1]] * 3))


@composite("standard::linalg_lu_factor")
def linalg_lu_factor(A):
    """LU and pivots of `linalg_lu_factor_ex`.

    Raises
    ------
    plugrad.linalg.LinAlgError
        A matrix is singular.
    """
    check_matrix("linalg_lu_factor", A.shape)
    factors, pivots, info = ops.linalg_lu_factor_ex(A)
    require_success("linalg_lu_factor", info, SINGULAR)
    return factors, pivots


@linalg_lu_factor.samples
def _(make):
    yield make.call(make.normal(3, 3))
    yield make.call(make.normal(2, 2, 2))
    yield make.call(make.normal(0, 0))
    yield make.error(RuntimeError, "singular", make.values([[1.0, 2.0], [2.0, 4.0]]))


class Lu(NamedTuple):
    """What `linalg.lu` returns."""

    P: Any
    L: Any
    U: Any


@composite("standard::linalg_lu")
def linalg_lu(A):
    """P, a permutation, L, lower triangular with ones on the diagonal, and U, upper triangular, of ``A = P @ L @ U``."""
    check_matrix("linalg_lu", A.shape)
    m, n = A.shape[-2:]
    k = min(m, n)
    factors, pivots, _ = ops.linalg_lu_factor_ex(A)
    unit = identity_like(A, m)
    lower = ops.tril(leading(factors, -1, k), -1) + leading(unit, -1, k)
    exchange = ops.exchange_rows(unit, pivots, inverse=True)
    return Lu(exchange, lower, ops.triu(leading(factors, -2, k)))


@linalg_lu.samples
def _(make):
    yield make.call(make.normal(3, 3))
    yield make.call(make.normal(2, 2, 3))
    yield make.call(make.normal(3, 2))
    yield make.call(make.normal(0, 2))
    yield make.error(RuntimeError, "a matrix", make.normal(2))


# ---- systems -------------------------------------------------------------------------------------------------


def solved(factors, pivots, B):
    """X of ``P L U @ X = B``."""
    right = ops.exchange_rows(B, pivots)
    half = ops.linalg_solve_triangular(factors, right, upper=False, unitriangular=True)
    return ops.linalg_solve_triangular(factors, half, upper=True)


@composite("standard::linalg_lu_solve")
def linalg_lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """X of ``A @ X = B`` (``left=False``: ``X @ A = B``; ``adjoint``: with A transposed), given the LU factors of A."""
    check_square("linalg_lu_solve", LU.shape)
    system_shape("linalg_lu_solve", LU.shape, B.shape, left)
    if left == adjoint:  # with Aᵀ = Uᵀ Lᵀ Pᵀ
        right = B if left else transposed(B)
        half = ops.linalg_solve_triangular(transposed(LU), right, upper=False)
        half = ops.linalg_solve_triangular(transposed(LU), half, upper=True, unitriangular=True)
        out = ops.exchange_rows(half, pivots, inverse=True)
    else:
        out = solved(LU, pivots, B if left else transposed(B))
    return out if left else transposed(out)


@linalg_lu_solve.samples
def _(make):
    pivots = np.array([2, 3, 3])
    yield make.call(regular(make), pivots, make.normal(3, 2))
    yield make.call(regular(make), pivots, make.normal(2, 3, 1), adjoint=True)
    yield make.call(regular(make), pivots, make.normal(2, 3), left=False)
    yield make.call(make.normal(0, 0), make.integers(0), make.normal(0, 2))
    yield make.error(RuntimeError, "do not fit", make.normal(3, 3), pivots, make.normal(2, 2))


@composite("standard::lu_solve", method=True)
def lu_solve(b, LU_data, LU_pivots):
    """`linalg_lu_solve` with the arguments in another order."""
    return ops.linalg_lu_solve(LU_data, LU_pivots, b)


@lu_solve.samples
def _(make):
    pivots = np.array([2, 3, 3])
    yield make.call(make.normal(3, 2), regular(make), pivots)
    yield make.call(make.normal(3, 1), regular(make), pivots)
    yield make.call(make.normal(0, 2), make.normal(0, 0), make.integers(0))
