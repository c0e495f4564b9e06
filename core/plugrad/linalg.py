"""Linear algebra under PyTorch's names, argument names, order and defaults.

Each is a thin name over an operator of the standard plugin. Matrices are the last two dimensions of a tensor; the dimensions before
them are batches, and may be empty. float16, which PyTorch refuses in factorisations, is computed in float32 and rounded.

Where PyTorch reads one triangle of a symmetric matrix (`cholesky`, `eigh`, `eigvalsh`), the symmetric part ``(A + A.T) / 2`` counts
here: the same where A is symmetric. The signs of eigenvectors and singular vectors are not determined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]


class LinAlgError(RuntimeError):
    """A matrix has no inverse or no such factorisation, or an iteration did not end."""


class Inverse(NamedTuple):
    """What `inv_ex` returns."""

    inverse: Tensor
    info: Tensor


class Solution(NamedTuple):
    """What `solve_ex` returns."""

    result: Tensor
    info: Tensor


class Cholesky(NamedTuple):
    """What `cholesky_ex` returns."""

    L: Tensor
    info: Tensor


class Factors(NamedTuple):
    """What `lu_factor` returns."""

    LU: Tensor
    pivots: Tensor


class FactorsEx(NamedTuple):
    """What `lu_factor_ex` returns."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


# ---- products ------------------------------------------------------------------------------------------------


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product; leading dimensions broadcast."""
    return ops.matmul(input, other)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two matrices or more in the cheapest order; the first and the last may be vectors."""
    return ops.linalg_multi_dot(tensors)


def matrix_power(A: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices; a negative power is one of the inverse."""
    return ops.linalg_matrix_power(A, n)


def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices."""
    return ops.matrix_exp(A)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of the vectors of length 3 along `dim`."""
    return ops.linalg_cross(input, other, dim=dim)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sum of products over `dim`; the shapes broadcast."""
    return ops.linalg_vecdot(x, y, dim=dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The view of the diagonals of matrices."""
    return ops.diagonal(A, offset=offset, dim1=dim1, dim2=dim2)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0 to N - 1 of each element, in a new last dimension."""
    return ops.linalg_vander(x, N=N)


# ---- norms ---------------------------------------------------------------------------------------------------


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """(Σ |x|**ord)**(1/ord) over `dim`, by default over all."""
    return ops.linalg_vector_norm(x, ord, dim, keepdim, dtype=dtype)


def matrix_norm(
    A: Tensor,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """A norm of matrices: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    return ops.linalg_matrix_norm(A, ord, tuple(dim), keepdim, dtype=dtype)


def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """`vector_norm` over one dimension, `matrix_norm` over two; without `ord`, the 2-norm of all elements."""
    return ops.linalg_norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """The condition of matrices by the norm `p`, by default 2."""
    return ops.linalg_cond(A, p)


def matrix_rank(
    A: Tensor,
    tol: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """How many singular values exceed ``max(atol, rtol * largest)``; `tol` is another name of `atol`."""
    if tol is not None:
        if atol is not None or rtol is not None:
            raise ValueError("matrix_rank() takes tol, or atol and rtol, got both")
        atol, rtol = tol, 0.0
    return ops.linalg_matrix_rank(A, atol=atol, rtol=rtol, hermitian=hermitian)


# ---- determinants, inverses and systems ----------------------------------------------------------------------


def det(A: Tensor) -> Tensor:
    """The determinants of square matrices; their gradient is right for singular ones, too."""
    return ops.linalg_det(A)


def slogdet(A: Tensor) -> Any:
    """The sign of the determinants and the logarithm of their sizes, as (sign, logabsdet)."""
    return ops.slogdet(A)


def inv(A: Tensor) -> Tensor:
    """The inverses of square matrices.

    Raises
    ------
    LinAlgError
        A matrix is singular; the message says which.
    """
    return ops.linalg_inv(A)


def inv_ex(A: Tensor, *, check_errors: bool = False) -> Inverse:
    """(inverse, info): `info` is 0, or for singular matrices the pivot that is zero; such an inverse is not finite."""
    return Inverse(ops.linalg_inv(A), _zeros(A)) if check_errors else Inverse(*ops.linalg_inv_ex(A))


def _zeros(A: Tensor) -> Tensor:
    """What `info` is where nothing failed."""
    from plugrad.backends.creation import zeros

    return zeros(A.shape[:-2], dtype="int32", device=A.device)


def pinv(
    A: Tensor,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> Tensor:
    """The Moore-Penrose inverse; `rcond` is another name of `rtol`."""
    if rcond is not None:
        if atol is not None or rtol is not None:
            raise ValueError("pinv() takes rcond, or atol and rtol, got both")
        rtol = rcond
    return ops.linalg_pinv(A, atol=atol, rtol=rtol, hermitian=hermitian)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of ``A @ X = B``, or with ``left=False`` of ``X @ A = B``.

    Raises
    ------
    LinAlgError
        A matrix is singular; the message says which.
    """
    return ops.linalg_solve(A, B, left=left)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Solution:
    """(result, info): `info` is 0, or for singular matrices the pivot that is zero; such a result is not finite."""
    return Solution(*ops.linalg_solve_with_info(A, B, left=left, check_errors=check_errors))


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X of ``A @ X = B``, or of ``X @ A = B``, for triangular A, of which one triangle is read."""
    return ops.linalg_solve_triangular(
        A, B, upper=bool(upper), left=bool(left), unitriangular=bool(unitriangular)
    )


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The X that makes the norm of ``A @ X - B`` least, as (solution, residuals, rank, singular_values)."""
    return ops.linalg_lstsq(A, B, rcond, driver=driver)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a linear map from its dimensions from `ind` on to those before."""
    return ops.linalg_tensorinv(A, ind)


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X of ``tensordot(A, X, X.ndim) = B``."""
    return ops.linalg_tensorsolve(A, B, dims)


# ---- factorisations ------------------------------------------------------------------------------------------


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L of ``A = L @ L.T``, or its transpose, of positive definite matrices.

    Raises
    ------
    LinAlgError
        A matrix is not positive definite; the message says which.
    """
    return ops.linalg_cholesky(A, upper=upper)


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Cholesky:
    """(L, info): `info` is 0, or the order of the first leading minor that is not positive; then L is NaN."""
    if check_errors:
        return Cholesky(ops.linalg_cholesky(A, upper=upper), _zeros(A))
    found, info = ops.linalg_cholesky_ex(A)
    return Cholesky(ops.transpose(found, -2, -1) if upper else found, info)


def qr(A: Tensor, mode: str = "reduced") -> Any:
    """(Q, R) of ``A = Q @ R``; `mode` is "reduced", "complete" (Q square) or "r" (Q empty)."""
    return ops.linalg_qr(A, mode)


def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """(P, L, U) of ``A = P @ L @ U``."""
    _require_pivoting("lu", pivot)
    return ops.linalg_lu(A)


def lu_factor(A: Tensor, *, pivot: bool = True) -> Factors:
    """(LU, pivots): both factors in one matrix, and the exchanges of rows, from 1.

    Raises
    ------
    LinAlgError
        A matrix is singular; the message says which.
    """
    _require_pivoting("lu_factor", pivot)
    return Factors(*ops.linalg_lu_factor(A))


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> FactorsEx:
    """(LU, pivots, info): `info` is 0, or the first pivot that is zero."""
    _require_pivoting("lu_factor_ex", pivot)
    if check_errors:
        factors, pivots = ops.linalg_lu_factor(A)
        return FactorsEx(factors, pivots, _zeros(A))
    return FactorsEx(*ops.linalg_lu_factor_ex(A))


def _require_pivoting(name: str, pivot: bool) -> None:
    if not pivot:
        raise NotImplementedError(
            f"{name}(): pivot=False is not offered, rows are always exchanged"
        )


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X of ``A @ X = B``, given what `lu_factor` returns for A."""
    return ops.linalg_lu_solve(LU, pivots, B, left=left, adjoint=adjoint)


def eigh(A: Tensor, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of symmetric matrices, ascending.

    The gradient is not finite where eigenvalues are equal, unless the eigenvectors are not used.
    """
    return ops.linalg_eigh(A, UPLO)


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, ascending."""
    return ops.linalg_eigvalsh(A, UPLO)


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh) of ``A = U @ diag(S) @ Vh``, singular values descending; `driver` changes nothing here.

    The gradient is not finite where singular values are equal, unless U and Vh are not used.
    """
    return ops.linalg_svd(A, full_matrices)


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, descending; `driver` changes nothing here."""
    return ops.linalg_svdvals(A)
