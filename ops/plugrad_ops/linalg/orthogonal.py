"""QR, and what is solved with it."""

from typing import Any, NamedTuple

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.linalg.matrices import check_matrix, transposed, wide

MODES = ("reduced", "complete", "r")


def check_mode(name, shape, mode):
    """Raise unless `shape` is one of matrices and `mode` one of the three."""
    check_matrix(name, shape)
    if mode not in MODES:
        raise ValueError(f"{name}: mode must be one of {', '.join(map(repr, MODES))}, got {mode!r}")


def _qr_meta(A, *, mode="reduced"):
    check_mode("linalg_qr_both", A.shape, mode)
    (*batch, m, n) = A.shape
    p = m if mode == "complete" else min(m, n)
    return [((0,) if mode == "r" else (*batch, m, p), A.dtype), ((*batch, p, n), A.dtype)]


@operator("standard::linalg_qr_both", outputs=("Q", "R"), infer=_qr_meta, cuda=".factors_cuda:qr")
def linalg_qr_both(A, *, mode="reduced"):
    """The factors of ``A = Q @ R``: Q with orthonormal columns, R upper triangular.

    Parameters
    ----------
    A : (..., m, n)
    mode : {"reduced", "complete", "r"}
        Whether Q has min(m, n) columns, or m, or is left out (and empty).
    """
    check_mode("linalg_qr_both", A.shape, mode)
    a = wide(A)
    if mode == "r":
        found = np.zeros(0, a.dtype), np.linalg.qr(a, mode="r")
    else:
        found = np.linalg.qr(a, mode=mode)
    return tuple(x.astype(A.dtype, copy=False) for x in found)


@linalg_qr_both.backward
def _(grad, Q, R, like, mode):
    m, n = like.A.shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "linalg_qr: the gradient needs Q, which mode='r' leaves out; use mode='reduced'"
        )
    if mode == "complete" and m > n:
        raise RuntimeError(
            f"linalg_qr: mode='complete' has no gradient for more rows than columns, got shape {like.A.shape}: the columns "
            "added to Q are not determined; use mode='reduced'"
        )
    grad_q, grad_r = grad
    rest = None
    if n > m:  # A = [A₁ A₂] with A₁ = Q R₁ and R₂ = Qᵀ A₂
        own, aside = ops.narrow(grad_r, -1, 0, m), ops.narrow(grad_r, -1, m, n - m)
        rest = Q @ aside
        grad_q = grad_q + Q @ ops.narrow(R, -1, m, n - m) @ transposed(aside)
        R, grad_r = ops.narrow(R, -1, 0, m), own
    # (dQ + Q sym(M)) R⁻ᵀ, where sym copies the lower triangle of M = R dRᵀ - dQᵀ Q to the upper one (Walter and Lehmann, 2018).
    inner = ops.tril(R @ transposed(ops.triu(grad_r)) - transposed(grad_q) @ Q)
    inner = inner + transposed(ops.tril(inner, -1))
    found = ops.linalg_solve_triangular(transposed(R), grad_q + Q @ inner, upper=False, left=False)
    return found if rest is None else ops.cat([found, rest], -1)


@linalg_qr_both.samples
def _(make):
    yield make.call(make.normal(3, 2))
    yield make.call(make.normal(2, 2, 3))
    yield make.call(make.normal(2, 2), mode="complete")
    yield make.call(make.normal(0, 3, 2))
    yield make.error(ValueError, "mode", make.normal(2, 2), mode="full")
    yield make.error(RuntimeError, "a matrix", make.normal(2))


class Qr(NamedTuple):
    """What `linalg.qr` returns."""

    Q: Any
    R: Any


@composite("standard::linalg_qr")
def linalg_qr(A, mode="reduced"):
    """Q, with orthonormal columns, and R, upper triangular, of ``A = Q @ R``; in the mode 'r', Q is empty."""
    check_mode("linalg_qr", A.shape, mode)
    return Qr(*ops.linalg_qr_both(A, mode=mode))


@linalg_qr.samples
def _(make):
    yield make.call(make.normal(3, 2))
    yield make.call(make.normal(2, 3), "complete")
    yield make.call(make.normal(0, 2, 2))
    yield make.error(ValueError, "mode", make.normal(2, 2), "full")
