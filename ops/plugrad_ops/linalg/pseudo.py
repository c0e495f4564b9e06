"""Generalised inverses, rank, condition and least squares, by singular values."""

from typing import Any, NamedTuple

import numpy as np

from plugrad import composite, empty, no_grad, on_tensors, operator, ops
from plugrad.backends.dtypes import finfo
from plugrad_ops.linalg.matrices import check_matrix, check_square, iterated, transposed, wide
from plugrad_ops.linalg.samples import regular

# ---- pinv ----------------------------------------------------------------------------------------------------


def relative_cutoff(x, atol, rtol):
    """`rtol`, which is by default the rounding of the largest singular value, or 0 where `atol` is given."""
    if rtol is not None:
        return rtol
    given = atol is not None and (not isinstance(atol, int | float) or atol > 0)
    return 0.0 if given else float(finfo(x.dtype).eps) * max(x.shape[-2:])


def _pinv_meta(A, *, atol=None, rtol=None):
    check_matrix("linalg_pinv_from", A.shape)
    return (*A.shape[:-2], A.shape[-1], A.shape[-2]), A.dtype


def _pinv_on_device(A, *, atol=None, rtol=None):
    shape, _ = _pinv_meta(A)
    if not A.numel():
        return ops.zeros_like(ops.reshape(A, shape))
    u, s, vh = ops.linalg_svd_all(A, full_matrices=False)
    top = ops.narrow(s, -1, 0, 1) * relative_cutoff(A, atol, rtol)
    kept = s > ops.clamp(top, min=atol or 0)
    factors = ops.where(kept, 1 / ops.where(kept, s, 1), 0)
    return (transposed(vh) * ops.unsqueeze(factors, dim=-2)) @ transposed(u)


@operator("standard::linalg_pinv_from", infer=_pinv_meta, cuda=on_tensors(_pinv_on_device))
def linalg_pinv_from(A, *, atol=None, rtol=None):
    """The Moore-Penrose inverse of matrices.

    Parameters
    ----------
    A : (..., m, n)
    atol, rtol : float, optional
        Singular values up to the greater one of `atol` and `rtol` times the largest of them count as 0. `rtol` is by
        default the rounding of the dtype times max(m, n), or 0 where `atol` is given.
    """
    shape, _ = _pinv_meta(A)
    if not A.size:
        return np.zeros(shape, A.dtype)
    u, s, vh = iterated("linalg_pinv", np.linalg.svd, wide(A), full_matrices=False)
    kept = s > np.maximum(s[..., :1] * s.dtype.type(relative_cutoff(A, atol, rtol)), atol or 0)
    factors = np.divide(1, s, out=np.zeros_like(s), where=kept)
    out = (vh.swapaxes(-1, -2) * factors[..., None, :]) @ u.swapaxes(-1, -2)
    return out.astype(A.dtype, copy=False)


@linalg_pinv_from.backward
def _(grad, A, out):
    # dP = -P dA P + P Pᵀ dAᵀ (I - A P) + (I - P A) dAᵀ Pᵀ P while the rank does not change (Golub and Pereyra, 1973).
    turned, back = transposed(grad), transposed(out)
    left = (turned @ out) @ back
    right = back @ (out @ turned)
    found = left - A @ (out @ left) + right - (right @ out) @ A
    return found - back @ grad @ back


@linalg_pinv_from.samples
def _(make):
    yield make.call(make.normal(3, 2))
    yield make.call(make.normal(2, 2, 3), rtol=1e-3)
    yield make.call(regular(make, n=2), atol=0.1)
    yield make.call(make.normal(2, 0))
    yield make.error(RuntimeError, "a matrix", make.normal(2))


@composite("standard::linalg_pinv")
def linalg_pinv(A, *, atol=None, rtol=None, hermitian=False):
    """The Moore-Penrose inverse; `hermitian` says that A is symmetric, which changes nothing here."""
    check_matrix("linalg_pinv", A.shape)
    if hermitian:
        check_square("linalg_pinv", A.shape)
    return ops.linalg_pinv_from(A, atol=atol, rtol=rtol)


@linalg_pinv.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(regular(make, n=2), rtol=1e-3, hermitian=True)
    yield make.call(make.normal(0, 2, 2))
    yield make.error(RuntimeError, "square", make.normal(2, 3), hermitian=True)


@composite("standard::pinverse", method=True)
def pinverse(input, rcond=1e-15):
    """The Moore-Penrose inverse; singular values up to `rcond` times the largest count as 0."""
    check_matrix("pinverse", input.shape)
    return ops.linalg_pinv_from(input, rtol=rcond)


@pinverse.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 2, 2), 1e-3)
    yield make.call(make.normal(0, 2))


# ---- rank and condition --------------------------------------------------------------------------------------


@composite("standard::linalg_matrix_rank")
def linalg_matrix_rank(A, *, atol=None, rtol=None, hermitian=False):
    """How many singular values exceed the greater one of `atol` and `rtol` times the largest of them, as int64.

    `atol` and `rtol` are numbers, or tensors of the leading dimensions; their defaults are those of `linalg_pinv_from`.
    `hermitian` says that A is symmetric, which changes nothing here.
    """
    check_matrix("linalg_matrix_rank", A.shape)
    if hermitian:
        check_square("linalg_matrix_rank", A.shape)
    with no_grad():
        s = ops.linalg_svdvals(A)
        if not s.shape[-1]:
            return ops.sum(s > 0, dim=-1)
        cutoff = ops.narrow(s, -1, 0, 1) * _for_each(relative_cutoff(A, atol, rtol))
        if atol is not None:
            atol = _for_each(atol)
            number = isinstance(atol, int | float)
            cutoff = ops.clamp(cutoff, min=atol) if number else ops.maximum(cutoff, atol)
        return ops.sum(s > cutoff, dim=-1)


def _for_each(value):
    return value if isinstance(value, int | float) else ops.unsqueeze(value, dim=-1)


@linalg_matrix_rank.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.values([[1.0, 2.0], [2.0, 4.0]]), atol=0.5)
    yield make.call(make.normal(2, 0, 3))
    yield make.error(RuntimeError, "a matrix", make.normal(2))


@composite("standard::linalg_cond")
def linalg_cond(A, p=None):
    """The condition of matrices by the norm `p`: the norm times that of the inverse, by default the 2-norm's; inf if singular.

    Parameters
    ----------
    A : (..., m, n)
        Square unless p is None, 2 or -2.
    p : {None, 1, -1, 2, -2, inf, -inf, "fro", "nuc"}
    """
    check_matrix("linalg_cond", A.shape)
    if p in (None, 2, -2):
        s = ops.linalg_svdvals(A)
        k = s.shape[-1]
        if not k:
            return ops.sum(s, dim=-1)
        first, last = (ops.squeeze(ops.narrow(s, -1, i, 1), dim=-1) for i in (0, k - 1))
        return last / first if p == -2 else first / last
    check_square("linalg_cond", A.shape)
    found, info = ops.linalg_inv_ex(A)
    out = ops.linalg_matrix_norm(A, p) * ops.linalg_matrix_norm(found, p)
    return ops.where(info != 0, np.inf, out)


@linalg_cond.samples
def _(make):
    yield make.call(regular(make, 2, n=2))
    yield make.call(make.normal(2, 3), -2)
    yield make.call(regular(make, n=2), "fro")
    yield make.call(make.normal(0, 0))
    yield make.error(RuntimeError, "square", make.normal(2, 3), 1)


# ---- least squares -------------------------------------------------------------------------------------------

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


class Lstsq(NamedTuple):
    """What `linalg.lstsq` returns."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


@composite("standard::linalg_lstsq")
def linalg_lstsq(A, B, rcond=None, *, driver=None):
    """The X of least norm among those that make the norm of ``A @ X - B`` least.

    Parameters
    ----------
    A : (..., m, n)
    B : (..., m, k), or (..., m) for one right-hand side per matrix
    rcond : float, optional
        Singular values up to this part of the largest one count as 0; by default the rounding of the dtype times max(m, n).
    driver : {None, "gels", "gelsy", "gelsd", "gelss"}
        PyTorch's names for ways to compute it. There is one here, by singular values; the name decides on what is
        returned: no `rank` for "gels", `singular_values` for the last two only.

    Returns
    -------
    solution : (..., n, k)
    residuals : (..., k)
        Squared norms of ``A @ X - B`` where m > n, all matrices have rank n and the driver is named and not "gelsy"; else
        empty.
    rank, singular_values
        Empty if not asked for.
    """
    if driver not in (None, *DRIVERS):
        raise ValueError(f"linalg_lstsq: driver must be one of {DRIVERS}, got {driver!r}")
    check_matrix("linalg_lstsq", A.shape)
    vector = B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]
    right = ops.unsqueeze(B, dim=-1) if vector else B
    if right.ndim < 2 or right.shape[-2] != A.shape[-2]:
        raise RuntimeError(
            f"linalg_lstsq: A and B must have equally many rows, got shapes {A.shape} and {B.shape}"
        )
    m, n = A.shape[-2:]
    out = ops.linalg_pinv_from(A, rtol=rcond) @ right
    rank = ops.linalg_matrix_rank(A, rtol=rcond)
    residuals = values = empty(0, dtype=A.dtype, device=A.device)
    if m > n and driver in ("gels", "gelsd", "gelss") and not ops.any(rank != n).item():
        residuals = ops.sum(ops.square(A @ out - right), dim=-2)
    if driver in ("gelsd", "gelss"):
        with no_grad():
            values = ops.linalg_svdvals(A)
    if driver == "gels":
        rank = empty(0, dtype=rank.dtype, device=A.device)
    return Lstsq(ops.squeeze(out, dim=-1) if vector else out, residuals, rank, values)


def _solution(solution, residuals, rank, values):
    return solution, residuals


@linalg_lstsq.samples
def _(make):
    yield make.call(make.normal(3, 2), make.normal(3, 2), through=_solution)
    yield make.call(make.normal(2, 2, 3), make.normal(2, 2), through=_solution)
    yield make.call(make.normal(3, 2), make.normal(2, 3, 1), through=_solution, driver="gelsd")
    yield make.error(RuntimeError, "rows", make.normal(3, 2), make.normal(2, 2))
    yield make.error(ValueError, "driver", make.normal(3, 2), make.normal(3, 2), driver="qr")
