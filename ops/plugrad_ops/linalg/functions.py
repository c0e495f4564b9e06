"""Powers and exponentials of matrices, products of many, and reshapes of inverses."""

import math
from functools import lru_cache
from operator import index

import numpy as np

from plugrad import composite, no_grad, ops, tensor
from plugrad_ops.linalg.matrices import check_square, identity_like
from plugrad_ops.linalg.samples import regular

# ---- powers and exponentials ---------------------------------------------------------------------------------


@composite("standard::linalg_matrix_power")
def linalg_matrix_power(A, n):
    """The n-th power of square matrices, by squaring; a negative power is one of the inverse.

    Raises
    ------
    plugrad.linalg.LinAlgError
        `n` is negative and a matrix is singular.
    """
    check_square("linalg_matrix_power", A.shape)
    n = index(n)
    if n == 1:
        return ops.clone(A)
    if n < 0:
        A, n = ops.linalg_inv(A), -n
    if n == 0:
        return ops.zeros_like(A) + identity_like(A, A.shape[-1])
    out = None
    while True:
        if n % 2:
            out = A if out is None else out @ A
        n //= 2
        if not n:
            return out
        A = A @ A


@linalg_matrix_power.samples
def _(make):
    yield make.call(make.normal(2, 2), 3)
    yield make.call(regular(make, 2, n=2), -2)
    yield make.call(make.normal(2, 2, 2), 0)
    yield make.call(make.normal(0, 0), 2)
    yield make.error(RuntimeError, "square", make.normal(2, 3), 2)
    yield make.error(RuntimeError, "singular", make.values([[1.0, 2.0], [2.0, 4.0]]), -1)


@composite("standard::matrix_power", method=True)
def matrix_power(input, n):
    """The n-th power of square matrices."""
    return ops.linalg_matrix_power(input, n)


@matrix_power.samples
def _(make):
    yield make.call(make.normal(2, 2), 2)
    yield make.call(make.normal(2, 2, 2), 1)
    yield make.call(make.normal(0, 0), 0)


# Numerators of the diagonal Padé approximants of exp, and the 1-norm up to which they are exact to rounding (Higham, 2005).
PADE = {
    "float32": (3.925724783138660, (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1)),
    "float64": (
        5.371920351148152,
        (
            64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
            10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
        ),
    ),
}  # fmt: skip


@composite("standard::matrix_exp", method=True)
def matrix_exp(A):
    """The exponential of square matrices: a Padé approximant of ``A / 2**s``, squared s times.

    float16 is computed in float32.
    """
    check_square("matrix_exp", A.shape)
    dtype = A.dtype
    A = ops.cast(A, dtype=np.promote_types(dtype, np.float32))
    if not A.numel():
        return ops.cast(ops.zeros_like(A) + A, dtype=dtype)
    limit, numerator = PADE[A.dtype.name]
    times = _squarings(A, limit)
    if times.any():
        A = A * _per_matrix(np.exp2(-times), A)
    even, odd = _even_and_odd(A, [c / numerator[0] for c in numerator])
    out, _ = ops.linalg_solve_ex(even - odd, even + odd)
    for done in range(int(times.max())):
        again = out @ out
        out = again if (times > done).all() else ops.where(_per_matrix(times > done, A), again, out)
    return ops.cast(out, dtype=dtype)


def _squarings(A, limit):
    """How often each matrix is halved, so that its 1-norm does not exceed `limit`."""
    with no_grad():
        norms = ops.amax(ops.sum(ops.abs(A), dim=-2), dim=-1).to(device="cpu").numpy()
    with np.errstate(all="ignore"):
        times = np.ceil(np.log2(norms / limit))
    return np.where(np.isfinite(times), np.maximum(times, 0), 0)


def _per_matrix(values, like):
    dtype = values.dtype if values.dtype == bool else like.dtype
    return tensor(values[..., None, None], dtype=dtype, device=like.device)


def _even_and_odd(A, numerator):
    """The even and the odd powers of the numerator at A, by Horner's rule in the sixth power."""
    squared = A @ A
    powers = [identity_like(A, A.shape[-1]), squared, squared @ squared]
    sixth = powers[2] @ squared

    def series(coefficients):
        top = len(coefficients) - (len(coefficients) - 1) // 3 * 3
        out = None
        for start in range(len(coefficients) - top, -1, -3):
            part = sum(
                (c * p for c, p in zip(coefficients[start : start + 3], powers)),
                start=0,
            )
            out = part if out is None else sixth @ out + part
        return out

    return series(numerator[::2]), A @ series(numerator[1::2])


@matrix_exp.samples
def _(make):
    yield make.call(make.normal(3, 3))
    yield make.call(make.normal(2, 2, 2) * np.array([0.1, 9.0])[:, None, None])
    yield make.call(make.normal(2, 0, 0))
    yield make.error(RuntimeError, "square", make.normal(2, 3))


# ---- products of many ----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _cheapest(sizes):
    """Where to cut the product of matrices i to j, for all i < j, by dynamic programming; ``sizes`` are n + 1 lengths."""
    n = len(sizes) - 1
    cost = [[0.0] * n for _ in range(n)]
    cut = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], cut[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return cut


def _product(tensors, cut, i, j):
    if i == j:
        return tensors[i]
    middle = cut[i][j]
    return ops.matmul(_product(tensors, cut, i, middle), _product(tensors, cut, middle + 1, j))


@composite("standard::linalg_multi_dot")
def linalg_multi_dot(tensors):
    """The product of two matrices or more, in the order that takes least; the first and the last one may be vectors.

    Parameters
    ----------
    tensors : list of tensor
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"linalg_multi_dot: expected at least 2 tensors, got {len(tensors)}")
    last = len(tensors) - 1
    for i, x in enumerate(tensors):
        if x.ndim != 2 and not (x.ndim == 1 and i in (0, last)):
            raise RuntimeError(
                "linalg_multi_dot: expected matrices, or vectors at the ends, got shapes "
                + ", ".join(str(t.shape) for t in tensors)
            )
    row, column = tensors[0].ndim == 1, tensors[last].ndim == 1
    if row:
        tensors[0] = ops.unsqueeze(tensors[0], dim=0)
    if column:
        tensors[last] = ops.unsqueeze(tensors[last], dim=1)
    cut = _cheapest((tensors[0].shape[0], *(x.shape[1] for x in tensors)))

    out = _product(tensors, cut, 0, last)
    return ops.reshape(out, out.shape[int(row) : 2 - int(column)]) if row or column else out


@linalg_multi_dot.samples
def _(make):
    yield make.call([make.normal(2, 3), make.normal(3, 2)])
    yield make.call([make.normal(3), make.normal(3, 2), make.normal(2, 2)])
    yield make.call([make.normal(3), make.normal(3, 2), make.normal(2)])
    yield make.error(RuntimeError, "at least 2", [make.normal(2, 2)])
    yield make.error(RuntimeError, "cannot be multiplied", [make.normal(2, 2), make.normal(3, 2)])


@composite("standard::chain_matmul")
def chain_matmul(*matrices):
    """The product of matrices, in the order that takes least."""
    for x in matrices:
        if x.ndim != 2:
            raise RuntimeError(f"chain_matmul: expected matrices, got shape {x.shape}")
    return ops.clone(matrices[0]) if len(matrices) == 1 else ops.linalg_multi_dot(matrices)


@chain_matmul.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(3, 2), make.normal(2, 1))
    yield make.call(make.normal(2, 2))
    yield make.call(make.normal(0, 2), make.normal(2, 3))
    yield make.error(RuntimeError, "expected matrices", make.normal(2), make.normal(2, 2))


# ---- made of others ------------------------------------------------------------------------------------------


@composite("standard::linalg_vander")
def linalg_vander(x, *, N=None):
    """The powers 0 to N - 1 of each element of `x`, in a new last dimension; N is by default the length of the last one."""
    if not x.ndim:
        raise RuntimeError("linalg_vander: expected at least 1 dimension, got a 0-d tensor")
    count = x.shape[-1] if N is None else index(N)
    if N is not None and count < 2:
        raise RuntimeError(f"linalg_vander: N must be greater than 1, got {N}")
    ones = ops.unsqueeze(ops.zeros_like(x) + 1, dim=-1)
    if count < 2:
        return ops.narrow(ones, -1, 0, count)
    factors = ops.expand(ops.unsqueeze(x, dim=-1), size=(*x.shape, count - 1))
    return ops.cumprod(ops.cat([ones, factors], -1), dim=-1)


@linalg_vander.samples
def _(make):
    yield make.call(make.normal(3))
    yield make.call(make.values([[0.0, 2.0], [-1.0, 0.5]]), N=4)
    yield make.call(make.normal(2, 0))
    yield make.error(RuntimeError, "greater than 1", make.normal(2), N=1)


@composite("standard::linalg_tensorinv")
def linalg_tensorinv(A, ind=2):
    """The inverse of A as a linear map: its last dimensions, from `ind`, are what it takes, the first ones what it gives."""
    if index(ind) <= 0:
        raise RuntimeError(f"linalg_tensorinv: ind must be positive, got {ind}")
    gives, takes = A.shape[:ind], A.shape[ind:]
    if math.prod(gives) != math.prod(takes):
        raise RuntimeError(
            f"linalg_tensorinv: the dimensions before and from ind={ind} must have equally many elements, got shape {A.shape}"
        )
    flat = ops.reshape(A, (math.prod(gives), math.prod(takes)))
    return ops.reshape(ops.linalg_inv(flat), (*takes, *gives))


@linalg_tensorinv.samples
def _(make):
    yield make.call(np.reshape(regular(make, n=4), (2, 2, 4)))
    yield make.call(np.reshape(regular(make, n=2), (2, 1, 2)), ind=1)
    yield make.call(make.normal(0, 1, 0))
    yield make.error(RuntimeError, "equally many", make.normal(2, 2, 3))


@composite("standard::linalg_tensorsolve")
def linalg_tensorsolve(A, B, dims=None):
    """X of ``tensordot(A, X, X.ndim) = B``; the dimensions `dims` of A are moved to its end first."""
    if dims is not None:
        A = ops.movedim(A, tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = A.shape[B.ndim :]
    if math.prod(shape) != B.numel() or A.numel() != B.numel() ** 2:
        raise RuntimeError(
            f"linalg_tensorsolve: shapes {A.shape} and {B.shape} do not make a square system"
        )
    flat = ops.reshape(A, (B.numel(), B.numel()))
    return ops.reshape(ops.linalg_solve(flat, ops.reshape(B, (B.numel(),))), shape)


@linalg_tensorsolve.samples
def _(make):
    yield make.call(np.reshape(regular(make, n=4), (2, 2, 4)), make.normal(2, 2))
    yield make.call(np.reshape(regular(make, n=2), (1, 2, 2)), make.normal(2), (0,))
    yield make.call(make.normal(0, 1, 0), make.normal(0, 1))
    yield make.error(RuntimeError, "square system", make.normal(2, 3), make.normal(2))
