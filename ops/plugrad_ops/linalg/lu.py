"""LU factors with partial pivoting, and what is solved with them."""

from typing import Any, NamedTuple

import numpy as np

from plugrad import arange, composite, operator, ops
from plugrad_ops.linalg import blocks
from plugrad_ops.linalg.matrices import (
    SINGULAR,
    check_matrix,
    check_square,
    identity_like,
    require_success,
    transposed,
    wide,
)
from plugrad_ops.linalg.samples import regular
from plugrad_ops.linalg.triangular import system_shape


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
    square = ops.narrow(ops.narrow(LU, -2, 0, k), -1, 0, k)
    turned = transposed(square)
    grad = grad[0]
    own = ops.narrow(ops.narrow(grad, -2, 0, k), -1, 0, k)
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
    back = ops.unsqueeze(ops.lu_permutation(pivots, rows=m, inverse=True), dim=-1)
    return ops.take_along_dim(found, back, dim=-2)


@linalg_lu_factor_ex.samples
def _(make):
    yield make.call(make.normal(3, 3))
    yield make.call(make.normal(2, 2, 3))
    yield make.call(make.normal(3, 2))
    yield make.call(make.normal(0, 2))
    yield make.error(RuntimeError, "a matrix", make.normal(2))


@operator(
    "standard::lu_permutation",
    dtypes="integer",
    nondifferentiable=True,
    infer=lambda pivots, *, rows, inverse=False: ((*pivots.shape[:-1], rows), np.int64),
    cuda=".factors_cuda:lu_permutation",
)
def lu_permutation(pivots, *, rows, inverse=False):
    """Which row comes to each place by the exchanges that `pivots` says; `inverse`: to which place each row comes."""
    flat = pivots.reshape(int(np.prod(pivots.shape[:-1])), pivots.shape[-1])
    out = np.empty((len(flat), rows), np.int64)
    for own, exchanged in zip(out, flat):
        own[...] = blocks.permutation(exchanged - 1, rows)
    out = np.argsort(out, axis=-1) if inverse else out
    return out.reshape(*pivots.shape[:-1], rows)


@lu_permutation.samples
def _(make):
    yield make.call(np.array([3, 3, 3]), rows=3)
    yield make.call(np.array([[2, 4], [1, 3]]), rows=4, inverse=True)
    yield make.call(make.integers(2, 0), rows=2)


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
    lower = ops.tril(ops.narrow(factors, -1, 0, k), -1) + ops.narrow(identity_like(A, m), -1, 0, k)
    order = ops.unsqueeze(ops.lu_permutation(pivots, rows=m, inverse=True), dim=-1)
    exchange = ops.cast(order == arange(m, device=A.device), dtype=A.dtype)
    return Lu(exchange, lower, ops.triu(ops.narrow(factors, -2, 0, k)))


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
    order = ops.lu_permutation(pivots, rows=factors.shape[-1])
    batch = np.broadcast_shapes(order.shape[:-1], B.shape[:-2])
    order = ops.expand(ops.unsqueeze(order, dim=-1), size=(*batch, B.shape[-2], 1))
    right = ops.take_along_dim(ops.expand(B, size=(*batch, *B.shape[-2:])), order, dim=-2)
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
        back = ops.lu_permutation(pivots, rows=LU.shape[-1], inverse=True)
        back = ops.expand(ops.unsqueeze(back, dim=-1), size=(*half.shape[:-1], 1))
        out = ops.take_along_dim(half, back, dim=-2)
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
