"""Determinants, their logarithms, and cofactors: the gradient of a determinant, finite whatever the rank."""

from typing import Any, NamedTuple

import numpy as np

from plugrad import arange, composite, on_tensors, ones, operator, ops
from plugrad_ops.arithmetic.aliases import alias
from plugrad_ops.linalg.matrices import check_square, identity_like, iterated, transposed, wide
from plugrad_ops.linalg.samples import regular
from plugrad_ops.shape.cpu import triangle


def _parity(pivots):
    """The sign of the exchanges that `pivots` says, in the dtype float32."""
    here = arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype, device=pivots.device)
    odd = ops.sum(ops.cast(pivots != here, dtype=np.int32), dim=-1) % 2
    return 1 - 2 * ops.cast(odd, dtype=np.float32)


def _scalars(name):
    def infer(A):
        check_square(name, A.shape)
        return A.shape[:-2], A.dtype

    return infer


# ---- det -----------------------------------------------------------------------------------------------------


def _det_by_lu(A):
    check_square("linalg_det", A.shape)
    factors, pivots, _ = ops.linalg_lu_factor_ex(A)
    out = ops.prod(ops.diagonal(factors, dim1=-2, dim2=-1), dim=-1)
    return ops.cast(_parity(pivots), dtype=A.dtype) * out


@operator("standard::linalg_det", infer=_scalars("linalg_det"), cuda=on_tensors(_det_by_lu))
def linalg_det(A):
    """The determinants of square matrices.

    The gradient is right for singular matrices too: it is made of cofactors, where need be at the cost of a singular value
    decomposition. Where only the logarithm matters, `slogdet` is cheaper and does not overflow.
    """
    check_square("linalg_det", A.shape)
    return np.asarray(np.linalg.det(wide(A))).astype(A.dtype, copy=False)


@linalg_det.backward
def _(grad, A):
    return ops.unsqueeze(ops.unsqueeze(grad, dim=-1), dim=-1) * ops.linalg_cofactor(A)


@linalg_det.samples
def _(make):
    yield make.call(make.normal(3, 3))
    yield make.call(make.normal(2, 2, 2))
    yield make.call(make.values([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.5, -1.0]]))
    yield make.call(make.normal(2, 0, 0))
    yield make.error(RuntimeError, "square", make.normal(2, 3))


det = alias("det", linalg_det)


# ---- cofactors -----------------------------------------------------------------------------------------------


def _turned(A):
    """The factors of A and the sign of det(U) det(V)."""
    u, s, vh = ops.linalg_svd_all(A, full_matrices=False)
    sign = ops.linalg_slogdet(u)[0] * ops.linalg_slogdet(vh)[0]
    return u, s, vh, ops.unsqueeze(ops.unsqueeze(sign, dim=-1), dim=-1)


def _shifted(s):
    """1 and all elements but the last one."""
    one = ones(*s.shape[:-1], 1, dtype=s.dtype, device=s.device)
    return ops.cat([one, ops.narrow(s, -1, 0, s.shape[-1] - 1)], -1)


def _sides(shifted, s):
    """The products of the elements before the i-th, and of those after it."""
    after = ops.cumprod(_shifted(ops.flip(s, dims=-1)), dim=-1)
    return ops.cumprod(shifted, dim=-1), ops.flip(after, dims=-1)


def _without_two(s):
    """The product of all elements but the i-th and the j-th, 0 on the diagonal."""
    n = s.shape[-1]
    shifted = _shifted(s)
    before, after = _sides(shifted, s)
    # Row i: ones up to i + 1, then the elements from i + 1 on; the running product at j is that of what lies between i and j.
    own = ops.triu(ops.expand(ops.unsqueeze(shifted, dim=-2), size=(*s.shape, n)), 2)
    between = ops.cumprod(own + ops.tril(ones(n, n, dtype=s.dtype, device=s.device), 1), dim=-1)
    outside = ops.unsqueeze(before, dim=-1) * ops.unsqueeze(after, dim=-2)
    half = ops.triu(between * outside, 1)
    return half + transposed(half)


def _cofactors(A):
    check_square("linalg_cofactor", A.shape)
    if not A.shape[-1] or not A.numel():
        return ops.zeros_like(A)
    u, s, vh, sign = _turned(A)
    before, after = _sides(_shifted(s), s)
    return sign * ((u * ops.unsqueeze(before * after, dim=-2)) @ vh)


def _inverted(a, power):
    """Determinants and transposed inverses of matrices, if the condition of all is below ``eps**power``, else None."""
    try:
        inverse = np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return None
    condition = np.abs(a).sum(-2).max(-1) * np.abs(inverse).sum(-2).max(-1)
    found = np.linalg.det(a)
    info = np.finfo(a.dtype)
    in_range = np.isfinite(found) & (np.abs(found) > info.tiny)
    if not (in_range & (condition < info.eps**power)).all():
        return None
    return found[..., None, None], inverse.swapaxes(-1, -2)


def _turned_arrays(a):
    u, s, vh = iterated("linalg_cofactor", np.linalg.svd, a)
    return u, s, vh, np.sign(np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


def _shifted_arrays(s):
    return np.concatenate([np.ones_like(s[..., :1]), s[..., :-1]], -1)


def _sides_of_arrays(shifted, s):
    after = np.cumprod(_shifted_arrays(s[..., ::-1]), -1)
    return np.cumprod(shifted, -1), after[..., ::-1]


def _without_two_of_arrays(s):
    n = s.shape[-1]
    shifted = _shifted_arrays(s)
    before, after = _sides_of_arrays(shifted, s)
    between = triangle(np.broadcast_to(shifted[..., None, :], (*s.shape, n)), True, 2)
    between += triangle(np.ones((n, n), s.dtype), False, 1)
    half = np.cumprod(between, -1) * before[..., None] * after[..., None, :]
    half = triangle(half, True, 1)
    return half + half.swapaxes(-1, -2)


def _cofactor_meta(A):
    check_square("linalg_cofactor", A.shape)
    return A.shape, A.dtype


@operator("standard::linalg_cofactor", infer=_cofactor_meta, cuda=on_tensors(_cofactors))
def linalg_cofactor(A):
    """The matrix of cofactors of A, the gradient of its determinant: ``det(A) * inv(A).T`` where A has an inverse.

    With A = U S Vᵀ it is det(U) det(V) U C Vᵀ, where C holds the products of all singular values but one.
    """
    check_square("linalg_cofactor", A.shape)
    a = wide(A)
    if not a.size:
        return np.zeros_like(A)
    found = _inverted(a, -1 / 4)
    if found is not None:
        determinant, inverse = found
        out = determinant * inverse
    else:
        u, s, vh, sign = _turned_arrays(a)
        before, after = _sides_of_arrays(_shifted_arrays(s), s)
        out = sign * ((u * (before * after)[..., None, :]) @ vh)
    return out.astype(A.dtype, copy=False)


@linalg_cofactor.backward
def _(grad, A):
    if not A.numel():
        return ops.zeros_like(A)
    # In the basis of singular vectors: the derivative along E has Σⱼ pᵢⱼ Eⱼⱼ on the diagonal and -pᵢⱼ Eⱼᵢ off it, where
    # pᵢⱼ is the product of all singular values but two. It is its own adjoint, being that of a second derivative.
    u, s, vh, sign = _turned(A)
    pairs = _without_two(s)
    inner = transposed(u) @ grad @ transposed(vh)
    on = pairs @ ops.unsqueeze(ops.diagonal(inner, dim1=-2, dim2=-1), dim=-1)
    found = on * identity_like(A, A.shape[-1]) - pairs * transposed(inner)
    return sign * (u @ found @ vh)


@linalg_cofactor.backward_kernel
def _(grad, A):
    if not A.size:
        return np.zeros_like(A)
    a, grad = wide(A), wide(grad)
    # Of d B with the transposed inverse B: d (sum(B dA) B - B dAᵀ B), whose terms cancel as much as the matrix is ill-conditioned.
    found = _inverted(a, -1 / 8)
    if found is not None:
        determinant, inverse = found
        along = (inverse * grad).sum((-1, -2), keepdims=True)
        out = determinant * (along * inverse - inverse @ grad.swapaxes(-1, -2) @ inverse)
    else:
        u, s, vh, sign = _turned_arrays(a)
        pairs = _without_two_of_arrays(s)
        inner = u.swapaxes(-1, -2) @ grad @ vh.swapaxes(-1, -2)
        places = np.arange(a.shape[-1])
        on = pairs @ inner[..., places, places, None]
        inner = -pairs * inner.swapaxes(-1, -2)
        inner[..., places, places] += on[..., 0]
        out = sign * (u @ inner @ vh)
    return out.astype(A.dtype, copy=False)


@linalg_cofactor.samples
def _(make):
    yield make.call(make.normal(3, 3))
    yield make.call(make.values([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.5, -1.0]]))
    yield make.call(make.normal(2, 2, 2))
    yield make.call(make.normal(1, 1))
    yield make.call(make.normal(0, 0))
    yield make.error(RuntimeError, "square", make.normal(2, 3))


# ---- slogdet -------------------------------------------------------------------------------------------------


def _slogdet_by_lu(A):
    check_square("linalg_slogdet", A.shape)
    factors, pivots, _ = ops.linalg_lu_factor_ex(A)
    diagonal = ops.diagonal(factors, dim1=-2, dim2=-1)
    sign = ops.prod(ops.sign(diagonal), dim=-1) * ops.cast(_parity(pivots), dtype=A.dtype)
    return sign, ops.sum(ops.log(ops.abs(diagonal)), dim=-1)


def _slogdet_meta(A):
    check_square("linalg_slogdet", A.shape)
    return [(A.shape[:-2], A.dtype)] * 2


@operator(
    "standard::linalg_slogdet",
    outputs=("sign", "logabsdet"),
    nondifferentiable="sign",
    infer=_slogdet_meta,
    cuda=on_tensors(_slogdet_by_lu),
)
def linalg_slogdet(A):
    """The signs of the determinants of square matrices and the logarithms of their sizes: 0 and -inf of singular ones."""
    check_square("linalg_slogdet", A.shape)
    return tuple(np.asarray(x).astype(A.dtype, copy=False) for x in np.linalg.slogdet(wide(A)))


@linalg_slogdet.backward
def _(grad, A):
    grad = ops.unsqueeze(ops.unsqueeze(grad[1], dim=-1), dim=-1)
    return grad * transposed(ops.linalg_inv_ex(A)[0])


@linalg_slogdet.samples
def _(make):
    yield make.call(regular(make))
    yield make.call(make.normal(2, 2, 2))
    yield make.call(make.normal(0, 0))
    yield make.error(RuntimeError, "square", make.normal(2, 3))


class Slogdet(NamedTuple):
    """What `slogdet` returns."""

    sign: Any
    logabsdet: Any


@composite("standard::slogdet", method=True)
def slogdet(A):
    """The signs of the determinants of square matrices and the logarithms of their sizes."""
    return Slogdet(*ops.linalg_slogdet(A))


@slogdet.samples
def _(make):
    yield make.call(regular(make))
    yield make.call(make.normal(2, 2, 2))
    yield make.call(make.normal(0, 0))


@composite("standard::logdet", method=True)
def logdet(input):
    """The logarithms of the determinants: -inf of singular matrices, NaN where the determinant is negative."""
    sign, size = ops.linalg_slogdet(input)
    return ops.where(sign < 0, np.nan, size)


@logdet.samples
def _(make):
    spread = make.normal(3, 3)
    yield make.call(spread @ spread.T + np.eye(3))
    yield make.call(make.values([[[2.0, 1.0], [0.5, 1.0]], [[1.0, -3.0], [2.0, 1.0]]]))
    yield make.call(make.normal(0, 0))
    yield make.error(RuntimeError, "square", make.normal(2, 3))
