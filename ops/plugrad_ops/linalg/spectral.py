"""Eigenvalues and eigenvectors of symmetric matrices; singular values and vectors.

(a) Eigenvectors and singular vectors are determined up to sign only, and where values are repeated, up to a rotation. Their
    gradient holds 1 / (λᵢ - λⱼ): it is not finite where two values are equal and one of their vectors is used. A loss should
    not depend on what is not determined.
(b) The gradient of values, and of vectors whose value is not repeated, is finite everywhere; at second order it meets the same
    differences.
"""

from typing import Any, NamedTuple

import numpy as np

from plugrad import Tensor, composite, on_tensors, operator, ops
from plugrad.backends.dtypes import finfo
from plugrad_ops.linalg.matrices import (
    NOT_CONVERGED,
    check_matrix,
    check_square,
    identity_like,
    iterated,
    leading,
    require_success,
    symmetric_part,
    transposed,
    wide,
)
from plugrad_ops.linalg.samples import apart, symmetric


def used(*gradients):
    """Which columns any of the gradients of eigenvectors, or singular vectors, is not zero in."""
    joined = gradients[0] if len(gradients) == 1 else ops.cat(gradients, -2)
    return ops.any(joined != 0, dim=-2)


def nonzero(x, used):
    """`x` as a divisor: its zeros stay where `used`, elsewhere they become a number whose inverse is infinite.

    What is 0 because nobody asked for it stays 0 when it is divided, and its derivative is not finite: nothing is made up
    where there is no derivative.
    """
    tiny = float(finfo(x.dtype).smallest_subnormal)
    return ops.where((x == 0) & ops.logical_not(used), tiny, x)


def _gaps(differences, used):
    """The differences of pairs of values as a divisor of what is zero on the diagonal."""
    either = ops.unsqueeze(used, dim=-2) | ops.unsqueeze(used, dim=-1)
    return nonzero(differences + identity_like(differences, differences.shape[-1]), either)


def skew(x):
    """The skew part, doubled."""
    return x - transposed(x)


def columns_times(x, values):
    """Column j times ``values[j]``."""
    return x * ops.unsqueeze(values, dim=-2)


# ---- symmetric matrices --------------------------------------------------------------------------------------


def _converged(name, found):
    *found, info = found
    require_success(name, info, NOT_CONVERGED)
    return tuple(found)


def _eigh_on_device(A):
    from plugrad_ops.linalg.factors_cuda import eigh

    check_square("linalg_eigh_both", A.shape)
    return _converged("linalg_eigh", tuple(map(Tensor, eigh(A.array))))


def _eigh_meta(A):
    check_square("linalg_eigh_both", A.shape)
    return [(A.shape[:-1], A.dtype), (A.shape, A.dtype)]


@operator(
    "standard::linalg_eigh_both",
    outputs=("eigenvalues", "eigenvectors"),
    infer=_eigh_meta,
    cuda=on_tensors(_eigh_on_device),
)
def linalg_eigh_both(A):
    """Eigenvalues, ascending, and as columns eigenvectors of ``(A + A.T) / 2``, which is A where A is symmetric.

    Raises
    ------
    plugrad.linalg.LinAlgError
        A matrix holds infinities or NaN.
    """
    check_square("linalg_eigh_both", A.shape)
    found = iterated("linalg_eigh", np.linalg.eigh, symmetric_part(wide(A)))
    return tuple(x.astype(A.dtype, copy=False) for x in found)


@linalg_eigh_both.backward
def _(grad, eigenvalues, eigenvectors):
    # V (diag(dλ) + skew(Vᵀ dV) / (λⱼ - λᵢ)) Vᵀ. The skew part is all that matters: columns of V stay orthonormal.
    values, vectors = grad
    row, column = ops.unsqueeze(eigenvalues, dim=-2), ops.unsqueeze(eigenvalues, dim=-1)
    gaps = _gaps(row - column, used(vectors))
    inner = skew(transposed(eigenvectors) @ vectors) / 2 / gaps
    inner = inner + identity_like(inner, inner.shape[-1]) * ops.unsqueeze(values, dim=-1)
    return eigenvectors @ inner @ transposed(eigenvectors)


def _gauge_free(values, vectors):
    """What does not depend on the signs of eigenvectors: the values and the squares of the vectors' elements."""
    return values, vectors * vectors


@linalg_eigh_both.samples
def _(make):
    yield make.call(symmetric(make), through=_gauge_free)
    yield make.call(symmetric(make, 2, n=2), through=_gauge_free)
    yield make.call(make.normal(0, 2, 2))
    yield make.call(make.normal(0, 0))
    yield make.error(RuntimeError, "square", make.normal(2, 3))


class Eigh(NamedTuple):
    """What `linalg.eigh` returns."""

    eigenvalues: Any
    eigenvectors: Any


def _check_triangle(name, UPLO):
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(f"{name}: UPLO must be 'L' or 'U', got {UPLO!r}")


@composite("standard::linalg_eigh")
def linalg_eigh(A, UPLO="L"):
    """Eigenvalues, ascending, and eigenvectors, as columns, of symmetric matrices.

    `UPLO` is there for PyTorch's sake, which reads one triangle: here the symmetric part ``(A + A.T) / 2`` counts.
    """
    _check_triangle("linalg_eigh", UPLO)
    check_square("linalg_eigh", A.shape)
    return Eigh(*ops.linalg_eigh_both(A))


@linalg_eigh.samples
def _(make):
    yield make.call(symmetric(make), through=_gauge_free)
    yield make.call(symmetric(make, 2, n=2), "U", through=_gauge_free)
    yield make.call(make.normal(0, 0))
    yield make.error(ValueError, "UPLO", make.normal(2, 2), "X")


@composite("standard::linalg_eigvalsh")
def linalg_eigvalsh(A, UPLO="L"):
    """Eigenvalues, ascending, of symmetric matrices; their gradient is finite where some are equal, too."""
    _check_triangle("linalg_eigvalsh", UPLO)
    check_square("linalg_eigvalsh", A.shape)
    return ops.linalg_eigh_both(A)[0]


@linalg_eigvalsh.samples
def _(make):
    yield make.call(symmetric(make))
    yield make.call(symmetric(make, 2, n=2), "U")
    yield make.call(make.normal(2, 0, 0))
    yield make.error(ValueError, "UPLO", make.normal(2, 2), "X")


# ---- singular values -----------------------------------------------------------------------------------------


def _svd_meta(A, *, full_matrices=True):
    check_matrix("linalg_svd_all", A.shape)
    (*batch, m, n) = A.shape
    k = min(m, n)
    left, right = (m, n) if full_matrices else (k, k)
    return [
        (tuple(shape), A.dtype) for shape in ((*batch, m, left), (*batch, k), (*batch, right, n))
    ]


def _svd_on_device(A, *, full_matrices=True):
    """QR, one-sided rotations of R, and QR of the rotated columns: orthonormal vectors whatever the rank."""
    from plugrad_ops.linalg.factors_cuda import rotated

    check_matrix("linalg_svd_all", A.shape)
    dtype = A.dtype
    A = ops.cast(A, dtype=np.promote_types(dtype, np.float32))
    m, n = A.shape[-2:]
    if m < n:
        v, s, ut = _svd_on_device(transposed(A), full_matrices=full_matrices)
        found = transposed(ut), s, transposed(v)
    else:
        q, r = ops.linalg_qr_both(A, mode="complete" if full_matrices else "reduced")
        products, s, vh, info = map(Tensor, rotated(ops.contiguous(ops.narrow(r, -2, 0, n)).array))
        require_success("linalg_svd", info, NOT_CONVERGED)
        inner, lengths = ops.linalg_qr_both(products, mode="reduced")
        sign = ops.where(ops.diagonal(lengths, dim1=-2, dim2=-1) < 0, -1.0, 1.0)
        inner = columns_times(inner, ops.cast(sign, dtype=A.dtype))
        u = ops.narrow(q, -1, 0, n) @ inner
        if q.shape[-1] > n:
            u = ops.cat([u, ops.narrow(q, -1, n, m - n)], -1)
        found = u, s, vh
    return tuple(ops.contiguous(ops.cast(x, dtype=dtype)) for x in found)


@operator(
    "standard::linalg_svd_all",
    outputs=("U", "S", "Vh"),
    infer=_svd_meta,
    cuda=on_tensors(_svd_on_device),
)
def linalg_svd_all(A, *, full_matrices=True):
    """The factors of ``A = U @ diag(S) @ Vh``, singular values descending.

    Parameters
    ----------
    A : (..., m, n)
    full_matrices : bool
        Whether U is (..., m, m) and Vh (..., n, n); else they have as many columns and rows as there are singular values.
        What is added for full ones is not determined and has no gradient.

    Raises
    ------
    plugrad.linalg.LinAlgError
        A matrix holds infinities or NaN.
    """
    check_matrix("linalg_svd_all", A.shape)
    found = iterated("linalg_svd", np.linalg.svd, wide(A), full_matrices=full_matrices)
    return tuple(x.astype(A.dtype, copy=False) for x in found)


@linalg_svd_all.backward
def _(grad, U, S, Vh):
    # With Eᵢⱼ = Sⱼ² - Sᵢ²: U ((skew(Uᵀ dU) S + S skew(Vᵀ dV)) / E + diag(dS)) Vᵀ, and for what lies outside the columns
    # of U, and of V, the projections of dU, and of dV, divided by S (Townsend, 2016).
    grad_u, grad_s, grad_v = grad
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    u, vh = leading(U, -1, k), leading(Vh, -2, k)
    v = transposed(vh)
    grad_u, grad_v = leading(grad_u, -1, k), transposed(leading(grad_v, -2, k))
    asked = used(grad_u, grad_v)
    row, column = ops.unsqueeze(S, dim=-2), ops.unsqueeze(S, dim=-1)
    gaps = _gaps((row - column) * (row + column), asked)
    inner_u, inner_v = transposed(u) @ grad_u, transposed(v) @ grad_v
    inner = (skew(inner_u) * row + column * skew(inner_v)) / gaps
    inner = inner + identity_like(inner, k) * ops.unsqueeze(grad_s, dim=-1)
    if m > k:
        outside = (grad_u - u @ inner_u) / ops.unsqueeze(nonzero(S, asked), dim=-2)
        return (u @ inner + outside) @ vh
    if n > k:
        outside = transposed(grad_v - v @ inner_v) / ops.unsqueeze(nonzero(S, asked), dim=-1)
        return u @ (inner @ vh + outside)
    return u @ inner @ vh


@linalg_svd_all.backward_kernel
def _(grad, U, S, Vh):
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    s = wide(S)
    u, vh = wide(U)[..., :k], wide(Vh)[..., :k, :]
    v = vh.swapaxes(-1, -2)
    grad_u, grad_v = wide(grad[0])[..., :k], wide(grad[2])[..., :k, :].swapaxes(-1, -2)
    row, column = s[..., None, :], s[..., None]
    gaps = (row - column) * (row + column)
    places = np.arange(k)
    gaps[..., places, places] += 1
    divisor = s
    if not (gaps.all() and s.all()):
        asked = (grad_u != 0).any(-2) | (grad_v != 0).any(-2)
        tiny = finfo(s.dtype).smallest_subnormal
        gaps[(gaps == 0) & ~(asked[..., None, :] | asked[..., None])] = tiny
        divisor = np.where((s == 0) & ~asked, tiny, s)
    inner_u, inner_v = u.swapaxes(-1, -2) @ grad_u, v.swapaxes(-1, -2) @ grad_v
    inner = (inner_u - inner_u.swapaxes(-1, -2)) * row
    inner += column * (inner_v - inner_v.swapaxes(-1, -2))
    inner /= gaps
    inner[..., places, places] += wide(grad[1])
    if m > k:
        outside = (grad_u - u @ inner_u) / divisor[..., None, :]
        found = (u @ inner + outside) @ vh
    elif n > k:
        outside = (grad_v - v @ inner_v).swapaxes(-1, -2) / divisor[..., None]
        found = u @ (inner @ vh + outside)
    else:
        found = u @ inner @ vh
    return found.astype(S.dtype, copy=False)


def _signs_free(U, S, Vh):
    """What does not depend on the signs of singular vectors, but on whether those of U and Vh go together."""
    k = S.shape[-1]
    u, vh = leading(U, -1, k), leading(Vh, -2, k)
    return ops.square(u), S, ops.square(vh), ops.sum(u, dim=-2) * ops.sum(vh, dim=-1)


@linalg_svd_all.samples
def _(make):
    yield make.call(apart(make, 3, 2), full_matrices=True, through=_signs_free)
    yield make.call(apart(make, 2, 3, 2), full_matrices=False, through=_signs_free)
    yield make.call(apart(make, 2, 2), through=_signs_free)
    yield make.call(make.normal(0, 2, 2), full_matrices=False)
    yield make.error(RuntimeError, "a matrix", make.normal(2))


class Svd(NamedTuple):
    """What `linalg.svd` returns."""

    U: Any
    S: Any
    Vh: Any


@composite("standard::linalg_svd")
def linalg_svd(A, full_matrices=True):
    """U, the singular values S, descending, and Vh of ``A = U @ diag(S) @ Vh``."""
    check_matrix("linalg_svd", A.shape)
    return Svd(*ops.linalg_svd_all(A, full_matrices=bool(full_matrices)))


@linalg_svd.samples
def _(make):
    yield make.call(apart(make, 3, 2), through=_signs_free)
    yield make.call(apart(make, 2, 3), False, through=_signs_free)
    yield make.call(make.normal(0, 2, 2), False)
    yield make.error(RuntimeError, "a matrix", make.normal(2))


@composite("standard::linalg_svdvals")
def linalg_svdvals(A):
    """The singular values, descending; their gradient is finite where some are equal, too."""
    check_matrix("linalg_svdvals", A.shape)
    return ops.linalg_svd_all(A, full_matrices=False)[1]


@linalg_svdvals.samples
def _(make):
    yield make.call(apart(make, 3, 2))
    yield make.call(apart(make, 2, 2, 2))
    yield make.call(make.normal(2, 0, 3))
    yield make.error(RuntimeError, "a matrix", make.normal())
