"""Inverses and linear systems."""

import numpy as np

from plugrad import composite, on_tensors, operator, ops
from plugrad_ops.arithmetic.aliases import alias
from plugrad_ops.linalg import blocks
from plugrad_ops.linalg.lu import solved
from plugrad_ops.linalg.matrices import (
    SINGULAR,
    attempt,
    check_square,
    identity_like,
    require_success,
    transposed,
    wide,
)
from plugrad_ops.linalg.samples import regular
from plugrad_ops.linalg.triangular import system_shape


def _zero_pivot(matrix, *others):
    """Which pivot of a matrix that LAPACK finds singular is zero."""
    return int(blocks.lu_factor(matrix)[2]) or len(matrix)


def _solve_by_lu(A, B):
    system_shape("linalg_solve_ex", A.shape, B.shape, True)
    factors, pivots, info = ops.linalg_lu_factor_ex(A)
    return solved(factors, pivots, B), info


# ---- inverses and systems ------------------------------------------------------------------------------------


def _inverse_by_lu(A):
    check_square("linalg_inv_ex", A.shape)
    return _solve_by_lu(A, identity_like(A, A.shape[-1]))


def _inverse_meta(A):
    check_square("linalg_inv_ex", A.shape)
    return [(A.shape, A.dtype), (A.shape[:-2], np.int32)]


@operator(
    "standard::linalg_inv_ex",
    outputs=("inverse", "info"),
    nondifferentiable="info",
    infer=_inverse_meta,
    cuda=on_tensors(_inverse_by_lu),
)
def linalg_inv_ex(A):
    """The inverses of square matrices, and an int32 for each that is 0 if there is one.

    The inverse of a singular matrix is not finite; its `info` is the first pivot, from 1, that is zero.
    """
    check_square("linalg_inv_ex", A.shape)
    out, info = attempt(np.linalg.inv, _zero_pivot, wide(A))
    return out.astype(A.dtype, copy=False), info


@linalg_inv_ex.backward
def _(grad, inverse):
    turned = transposed(inverse)
    return -(turned @ grad[0] @ turned)


@linalg_inv_ex.samples
def _(make):
    yield make.call(regular(make))
    yield make.call(regular(make, 2, n=2))
    yield make.call(make.normal(2, 0, 0))
    yield make.error(RuntimeError, "square", make.normal(2, 3))


@composite("standard::linalg_inv")
def linalg_inv(A):
    """The inverses of square matrices.

    Raises
    ------
    plugrad.linalg.LinAlgError
        A matrix is singular.
    """
    check_square("linalg_inv", A.shape)
    out, info = ops.linalg_inv_ex(A)
    require_success("linalg_inv", info, SINGULAR)
    return out


@linalg_inv.samples
def _(make):
    yield make.call(regular(make))
    yield make.call(regular(make, 2, n=2))
    yield make.call(make.normal(0, 2, 2))
    yield make.error(RuntimeError, "singular", make.values([[1.0, 2.0], [2.0, 4.0]]))
    yield make.error(RuntimeError, "square", make.normal(2, 3))
    yield make.error(RuntimeError, "a matrix", make.normal(3))


inverse = alias("inverse", linalg_inv)


def _solve_meta(A, B):
    shape = system_shape("linalg_solve_ex", A.shape, B.shape, True)
    return [(shape, np.result_type(A.dtype, B.dtype)), (A.shape[:-2], np.int32)]


@operator(
    "standard::linalg_solve_ex",
    outputs=("result", "info"),
    nondifferentiable="info",
    infer=_solve_meta,
    cuda=on_tensors(_solve_by_lu),
)
def linalg_solve_ex(A, B):
    """X of ``A @ X = B``, and an int32 for each matrix that is 0 if it is not singular.

    Parameters
    ----------
    A : (..., n, n)
    B : (..., n, k)
        Leading dimensions broadcast.
    """
    shape = system_shape("linalg_solve_ex", A.shape, B.shape, True)
    out, info = attempt(np.linalg.solve, _zero_pivot, wide(A), wide(B))
    # `info` is one number for each matrix, not for each system.
    extra = info.ndim - (A.ndim - 2)
    axes = (*range(extra), *(i for i in range(extra, info.ndim) if A.shape[i - extra] == 1))
    info = np.maximum.reduce(info, axis=axes, initial=0).reshape(A.shape[:-2]).astype(np.int32)
    return out.reshape(shape).astype(B.dtype, copy=False), info


@linalg_solve_ex.backward
def _(grad, A, result, like, needs):
    own, _ = ops.linalg_solve_ex(transposed(A), grad[0])
    grad_a = ops.sum_to(-(own @ transposed(result)), shape=A.shape) if needs.A else None
    return grad_a, ops.sum_to(own, shape=like.B.shape) if needs.B else None


@linalg_solve_ex.samples
def _(make):
    yield make.call(regular(make), make.normal(3, 2))
    yield make.call(regular(make, 2, 1), make.normal(3, 3, 1))
    yield make.call(make.normal(2, 0, 0), make.normal(0, 2))
    yield make.error(RuntimeError, "do not fit", make.normal(3, 3), make.normal(2, 3))
    yield make.error(RuntimeError, "square", make.normal(2, 3), make.normal(2, 3))


def _is_vector(A, B):
    """Whether B is one right-hand side per matrix, as PyTorch decides it."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])


@composite("standard::linalg_solve_with_info")
def linalg_solve_with_info(A, B, *, left=True, check_errors=False):
    """X of `linalg_solve` and an int32 for each matrix that is 0 if it is not singular; LinAlgError if asked for."""
    name = "linalg_solve"
    check_square(name, A.shape)
    vector = _is_vector(A, B)
    if vector and not left:
        raise RuntimeError(
            f"{name}: left=False needs matrices on the right-hand side, got shape {B.shape}"
        )
    right = ops.unsqueeze(B, dim=-1) if vector else B
    system_shape(name, A.shape, right.shape, left)
    if left:
        out, info = ops.linalg_solve_ex(A, right)
    else:
        out, info = ops.linalg_solve_ex(transposed(A), transposed(right))
        out = transposed(out)
    if check_errors:
        require_success(name, info, SINGULAR)
    return ops.squeeze(out, dim=-1) if vector else out, info


@linalg_solve_with_info.samples
def _(make):
    yield make.call(regular(make), make.normal(3))
    yield make.call(regular(make), make.normal(2, 3), left=False)
    yield make.call(make.normal(0, 0), make.normal(0, 2), check_errors=True)
    yield make.error(RuntimeError, "right-hand side", regular(make), make.normal(3), left=False)


@composite("standard::linalg_solve")
def linalg_solve(A, B, *, left=True):
    """X of ``A @ X = B``, or with ``left=False`` of ``X @ A = B``.

    Parameters
    ----------
    A : (..., n, n)
    B : (..., n, k), or (..., k, n), or (..., n)
        Leading dimensions broadcast. Vectors are meant by one dimension, or by the shape of A without its last one.

    Raises
    ------
    plugrad.linalg.LinAlgError
        A matrix is singular.
    """
    return ops.linalg_solve_with_info(A, B, left=left, check_errors=True)[0]


@linalg_solve.samples
def _(make):
    yield make.call(regular(make), make.normal(3))
    yield make.call(regular(make, 2), make.normal(2, 3), left=True)
    yield make.call(regular(make), make.normal(2, 2, 3), left=False)
    yield make.call(make.normal(0, 3, 3), make.normal(3, 2))
    yield make.error(
        RuntimeError, "singular", make.values([[1.0, 2.0], [2.0, 4.0]]), make.normal(2)
    )
    yield make.error(RuntimeError, "do not fit", make.normal(3, 3), make.normal(2, 3))
