"""Norms of vectors and matrices, with the subgradient of least norm where they have no derivative."""

import math
from operator import index

from plugrad import composite, ops
from plugrad_ops.reduction.ops import reduced_count
from plugrad_ops.shape.dims import normalize_dim

ORDERS = ("fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2)


def _cast(x, dtype):
    return x if dtype is None else ops.cast(x, dtype=dtype)


@composite("standard::linalg_vector_norm")
def linalg_vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """(Σ |x|**ord)**(1/ord) over `dim`, by default over all; the greatest size for inf, the smallest for -inf.

    Parameters
    ----------
    x : tensor
    ord : float
        0 counts the elements that are not 0.
    dim : int or tuple of int, optional
    dtype : dtype, optional
        `x` is cast to it first.
    """
    if (ord < 0 or ord == math.inf) and not reduced_count(x.shape, dim):
        raise RuntimeError(
            f"linalg_vector_norm: a norm of order {ord} needs an element, got shape {x.shape} and dim={dim}"
        )
    return ops.norm(_cast(x, dtype), p=ord, dim=dim, keepdim=keepdim)


@linalg_vector_norm.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.distinct(2, 3), 3, 1, True)
    yield make.call(make.positive(3), math.inf)
    yield make.call(make.normal(0))
    yield make.error(RuntimeError, "needs an element", make.normal(0), math.inf)


def _pair(name, x, dim):
    if not isinstance(dim, tuple | list) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a pair of dimensions, got {dim!r}")
    if x.ndim < 2:
        raise RuntimeError(f"{name}: expected a matrix or a stack of them, got shape {x.shape}")
    first, second = (normalize_dim(name, index(d), x.ndim) for d in dim)
    if first == second:
        raise RuntimeError(f"{name}: the two dimensions must differ, got dim={tuple(dim)}")
    return first, second


@composite("standard::linalg_matrix_norm")
def linalg_matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """A norm of matrices.

    Parameters
    ----------
    A : (..., m, n)
    ord : {"fro", "nuc", inf, -inf, 1, -1, 2, -2}
        The 2-norm of all elements; the sum of the singular values; the greatest or smallest sum of sizes of a row (inf),
        of a column (1), or singular value (2).
    dim : pair of int
        The dimensions of the matrices.
    dtype : dtype, optional
        `A` is cast to it first.
    """
    if ord not in ORDERS:
        raise ValueError(f"linalg_matrix_norm: ord must be one of {ORDERS}, got {ord!r}")
    rows, columns = _pair("linalg_matrix_norm", A, dim)
    if ord in (-1, -2, -math.inf) and 0 in (A.shape[rows], A.shape[columns]):
        raise RuntimeError(
            f"linalg_matrix_norm: a norm of order {ord} needs an element, got shape {A.shape} and dim={tuple(dim)}"
        )
    A = _cast(A, dtype)
    if ord == "fro":
        return ops.norm(A, dim=(rows, columns), keepdim=keepdim)
    if ord in ("nuc", 2, -2):
        last = ops.movedim(A, (rows, columns), (-2, -1))
        s = ops.linalg_svdvals(last)
        out = ops.norm(s, p={"nuc": 1, 2: math.inf, -2: -math.inf}[ord], dim=-1)
    else:
        sums = ops.norm(A, p=1, dim=columns if abs(ord) == math.inf else rows, keepdim=True)
        out = ops.norm(sums, p=math.copysign(math.inf, ord), dim=(rows, columns))
    if not keepdim:
        return out
    return ops.reshape(out, tuple(1 if i in (rows, columns) else n for i, n in enumerate(A.shape)))


@linalg_matrix_norm.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.distinct(2, 2, 3), "nuc", (0, 2), True)
    yield make.call(make.distinct(2, 3), 2)
    yield make.call(make.distinct(2, 3), -1)
    yield make.call(make.distinct(2, 3), math.inf, (1, 0))
    yield make.call(make.normal(0, 2, 2))
    yield make.error(ValueError, "ord", make.normal(2, 3), 3)
    yield make.error(RuntimeError, "must differ", make.normal(2, 3), 2, (0, -2))


@composite("standard::linalg_norm")
def linalg_norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """A norm of vectors or of matrices.

    Without `ord` it is the 2-norm of all elements in `dim`, by default of all. With it, one dimension means vectors and two
    mean matrices, in `dim` or, without it, of `A`.
    """
    pair = isinstance(dim, tuple | list) and len(dim) == 2
    if ord is not None and dim is None:
        if A.ndim not in (1, 2):
            raise RuntimeError(
                f"linalg_norm: with ord and without dim, expected 1 or 2 dimensions, got shape {A.shape}"
            )
        pair = A.ndim == 2
    if ord is None or not pair:
        return ops.linalg_vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    return ops.linalg_matrix_norm(A, ord, dim or (-2, -1), keepdim, dtype=dtype)


@linalg_norm.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.distinct(2, 3), 1)
    yield make.call(make.distinct(2, 3), 3, 1)
    yield make.call(make.distinct(2, 2, 3), "fro", (0, 1), True)
    yield make.error(RuntimeError, "1 or 2 dimensions", make.normal(2, 2, 2), 2)
