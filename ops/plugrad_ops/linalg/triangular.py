"""Triangular systems, Cholesky's factorisation and what is solved with it."""

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.arithmetic.aliases import alias
from plugrad_ops.linalg import blocks
from plugrad_ops.linalg.matrices import (
    attempt,
    check_matrix,
    check_square,
    identity_like,
    require_success,
    symmetric_part,
    transposed,
    wide,
)
from plugrad_ops.linalg.samples import positive_definite, regular
from plugrad_ops.reduction.ops import sum_array_to
from plugrad_ops.shape.cpu import triangle

# ---- triangular systems --------------------------------------------------------------------------------------


def system_shape(name, a, b, left):
    """The shape of the solution of a system; raises RuntimeError where the shapes do not fit."""
    check_square(name, a)
    check_matrix(name, b)
    if a[-1] != b[-2 if left else -1]:
        system = "A X = B" if left else "X A = B"
        raise RuntimeError(f"{name}: shapes {tuple(a)} and {tuple(b)} do not fit in {system}")
    try:
        return (*np.broadcast_shapes(a[:-2], b[:-2]), *b[-2:])
    except ValueError:
        raise RuntimeError(
            f"{name}: the leading dimensions of shapes {tuple(a)} and {tuple(b)} do not broadcast"
        ) from None


def _triangular_meta(A, B, *, upper, left=True, unitriangular=False):
    shape = system_shape("linalg_solve_triangular", A.shape, B.shape, left)
    return shape, np.result_type(A.dtype, B.dtype)


@operator(
    "standard::linalg_solve_triangular",
    infer=_triangular_meta,
    cuda=".factors_cuda:solve_triangular",
)
def linalg_solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """X of ``A @ X = B``, or with ``left=False`` of ``X @ A = B``, for triangular A.

    Parameters
    ----------
    A : (..., n, n)
        Only one triangle is read; a zero on its diagonal makes infinities, no error.
    B : (..., n, k), or (..., k, n)
        Leading dimensions broadcast.
    upper : bool
        Whether the upper triangle is read.
    unitriangular : bool
        Take the diagonal to be ones.
    """
    system_shape("linalg_solve_triangular", A.shape, B.shape, left)
    a, b = wide(A), wide(B)
    solve = blocks.solve_triangular if left else blocks.solve_triangular_right
    x = solve(a, b, upper, unitriangular)
    return x.astype(B.dtype, copy=False)


@linalg_solve_triangular.backward
def _(grad, A, out, like, upper, left, unitriangular, needs):
    own = ops.linalg_solve_triangular(
        transposed(A), grad, upper=not upper, left=left, unitriangular=unitriangular
    )
    grad_a = None
    if needs.A:
        grad_a = own @ transposed(out) if left else transposed(out) @ own
        strict = int(unitriangular)
        grad_a = ops.triu(grad_a, strict) if upper else ops.tril(grad_a, -strict)
        grad_a = ops.sum_to(-grad_a, shape=A.shape)
    return grad_a, ops.sum_to(own, shape=like.B.shape) if needs.B else None


@linalg_solve_triangular.backward_kernel
def _(grad, A, out, like, upper, left, unitriangular, needs):
    own, x = wide(grad), wide(out)
    solve = blocks.solve_triangular if left else blocks.solve_triangular_right
    own = solve(wide(A).swapaxes(-1, -2), own, not upper, unitriangular)
    grad_a = None
    if needs.A:
        grad_a = own @ x.swapaxes(-1, -2) if left else x.swapaxes(-1, -2) @ own
        strict = int(unitriangular)
        grad_a = triangle(grad_a, upper, strict if upper else -strict)
        np.negative(grad_a, out=grad_a)
        grad_a = sum_array_to(grad_a, A.shape).astype(A.dtype, copy=False)
    return grad_a, (
        sum_array_to(own, like.B.shape).astype(like.B.dtype, copy=False) if needs.B else None
    )


@linalg_solve_triangular.samples
def _(make):
    yield make.call(regular(make), make.normal(3, 2), upper=True)
    yield make.call(regular(make, 2), make.normal(2, 3), upper=False, left=False)
    yield make.call(regular(make, 2, 1), make.normal(2, 3, 1), upper=True, unitriangular=True)
    yield make.call(make.normal(0, 0), make.normal(0, 2), upper=False)
    yield make.error(RuntimeError, "do not fit", make.normal(3, 3), make.normal(2, 3), upper=True)
    yield make.error(RuntimeError, "square", make.normal(2, 3), make.normal(2, 3), upper=True)
    yield make.error(RuntimeError, "a matrix", make.normal(3, 3), make.normal(3), upper=True)


# ---- Cholesky ------------------------------------------------------------------------------------------------


def _first_minor(matrix):
    """The order of the first leading minor that is not positive: those of lower order factor, others do not."""
    low, high = 0, len(matrix)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            np.linalg.cholesky(matrix[:middle, :middle])
            low = middle
        except np.linalg.LinAlgError:
            high = middle
    return high


def _cholesky_meta(A):
    check_square("linalg_cholesky_ex", A.shape)
    return [(A.shape, A.dtype), (A.shape[:-2], np.int32)]


@operator(
    "standard::linalg_cholesky_ex",
    outputs=("L", "info"),
    nondifferentiable="info",
    infer=_cholesky_meta,
    cuda=".factors_cuda:cholesky",
)
def linalg_cholesky_ex(A):
    """L, lower triangular, of ``A = L @ L.T``, and an int32 for each matrix that is 0 if it has one.

    What is factored is ``(A + A.T) / 2``, which is A where A is symmetric. A matrix that is not positive definite has the
    order of its first leading minor that is not positive as `info`, and L is NaN.
    """
    check_square("linalg_cholesky_ex", A.shape)
    out, info = attempt(np.linalg.cholesky, _first_minor, symmetric_part(wide(A)))
    return out.astype(A.dtype, copy=False), info


@linalg_cholesky_ex.backward
def _(grad, L):
    # With Φ, the lower triangle with half the diagonal: L⁻ᵀ Φ(Lᵀ dL) L⁻¹, symmetrised (Murray, arXiv:1602.07527).
    inner = ops.tril(transposed(L) @ grad[0])
    inner = inner - ops.tril(ops.triu(inner)) / 2
    half = ops.linalg_solve_triangular(transposed(L), inner, upper=True)
    half = ops.linalg_solve_triangular(L, half, upper=False, left=False)
    return (half + transposed(half)) / 2


@linalg_cholesky_ex.samples
def _(make):
    yield make.call(positive_definite(make))
    yield make.call(positive_definite(make, 2, n=2))
    yield make.call(make.normal(0, 0))
    yield make.error(RuntimeError, "square", make.normal(2, 3))


@composite("standard::linalg_cholesky")
def linalg_cholesky(A, upper=False):
    """L of ``A = L @ L.T``, or with `upper` its transpose U of ``A = U.T @ U``, of positive definite matrices.

    What is factored is ``(A + A.T) / 2``; PyTorch reads one triangle.

    Raises
    ------
    plugrad.linalg.LinAlgError
        A matrix is not positive definite.
    """
    check_square("linalg_cholesky", A.shape)
    factor, info = ops.linalg_cholesky_ex(A)
    require_success(
        "linalg_cholesky",
        info,
        "the matrix is not positive definite: its leading minor of order {info} is not positive",
    )
    return transposed(factor) if upper else factor


@linalg_cholesky.samples
def _(make):
    yield make.call(positive_definite(make))
    yield make.call(positive_definite(make, 2), upper=True)
    yield make.call(make.normal(2, 0, 0))
    yield make.error(RuntimeError, "not positive definite", make.values([[1.0, 2.0], [2.0, 1.0]]))
    yield make.error(RuntimeError, "square", make.normal(2, 3))


cholesky = alias("cholesky", linalg_cholesky)


@composite("standard::cholesky_solve", method=True)
def cholesky_solve(B, L, upper=False):
    """X of ``A @ X = B``, given Cholesky's factor of A: L, or U with `upper`."""
    system_shape("cholesky_solve", L.shape, B.shape, True)
    first, second = (transposed(L), L) if upper else (L, transposed(L))
    half = ops.linalg_solve_triangular(first, B, upper=False)
    return ops.linalg_solve_triangular(second, half, upper=True)


@cholesky_solve.samples
def _(make):
    yield make.call(make.normal(3, 2), regular(make))
    yield make.call(make.normal(2, 3, 1), regular(make), upper=True)
    yield make.call(make.normal(0, 2), make.normal(0, 0))
    yield make.error(RuntimeError, "do not fit", make.normal(2, 2), make.normal(3, 3))


@composite("standard::cholesky_inverse", method=True)
def cholesky_inverse(L, upper=False):
    """The inverse of A, given Cholesky's factor of A: L, or U with `upper`."""
    check_square("cholesky_inverse", L.shape)
    return ops.cholesky_solve(identity_like(L, L.shape[-1]), L, upper=upper)


@cholesky_inverse.samples
def _(make):
    yield make.call(regular(make))
    yield make.call(regular(make, 2), upper=True)
    yield make.call(make.normal(0, 0))
    yield make.error(RuntimeError, "square", make.normal(2, 3))
