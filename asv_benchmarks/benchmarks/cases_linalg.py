"""Inputs of matrix operators and of reductions. What factors matrices gets a stack of them, ten by ten each."""

from math import isqrt

import numpy as np

from .inputs import matrix, pair, rows, vector

SIDE = 10

# --------------------------------------------------------------------------------------------------- linear algebra


def stack(make, elements):
    """Matrices of ten rows and columns."""
    return make.normal(elements // SIDE**2, SIDE, SIDE)


def regular(make, elements):
    """Matrices far from singular, and so is either triangle."""
    return stack(make, elements) + SIDE * np.eye(SIDE)


def stacked(*constants, **named):
    """An operator of one stack of matrices."""
    return lambda make, n: make.call(stack(make, n), *constants, **named)


def inverted(*constants, **named):
    """An operator that takes regular matrices only."""
    return lambda make, n: make.call(regular(make, n), *constants, **named)


def system(**constants):
    """As many systems as fit, each with as many right-hand sides as it has unknowns."""
    return lambda make, n: make.call(regular(make, n), stack(make, n), **constants)


def pivots(make, matrices):
    """With which row, counted from 1, each row was exchanged."""
    return np.maximum(make.integers(matrices, SIDE, low=1, high=SIDE + 1), np.arange(1, SIDE + 1))


def linear_map(make, elements):
    """A map from as many numbers as the matrix has rows to a table of two columns."""
    side = isqrt(elements)
    return np.reshape(matrix(make, elements) + side * np.eye(side), (side // 2, 2, side))


def matrices(make, n):
    return make.call(matrix(make, n), matrix(make, n))


def threes(make, n):
    return make.call(make.normal(n // 3, 3), make.normal(n // 3, 3))


LINALG = {
    # products
    "addbmm": lambda make, n: make.call(make.normal(SIDE, SIDE), stack(make, n), stack(make, n)),
    "addmm": lambda make, n: make.call(matrix(make, n), matrix(make, n), matrix(make, n)),
    "addmv": lambda make, n: make.call(
        make.normal(isqrt(n)), matrix(make, n), make.normal(isqrt(n))
    ),
    "addr": lambda make, n: make.call(
        matrix(make, n), make.normal(isqrt(n)), make.normal(isqrt(n))
    ),
    "baddbmm": lambda make, n: make.call(stack(make, n), stack(make, n), stack(make, n)),
    "chain_matmul": lambda make, n: make.call(
        matrix(make, n), matrix(make, n), make.normal(isqrt(n), SIDE)
    ),
    "einsum": lambda make, n: make.call("bij,bkj->bik", stack(make, n), stack(make, n)),
    "kron": lambda make, n: make.call(make.normal(n // SIDE**2), make.normal(SIDE**2)),
    "linalg_multi_dot": lambda make, n: make.call(
        [matrix(make, n), matrix(make, n), make.normal(isqrt(n), SIDE)]
    ),
    "outer": lambda make, n: make.call(make.normal(isqrt(n)), make.normal(isqrt(n))),
    "tensordot": lambda make, n: make.call(stack(make, n), stack(make, n), dims=([0, 1], [0, 1])),
    "trace": rows(),
    "vdot": pair,
    **dict.fromkeys(["cross", "linalg_cross"], threes),
    **dict.fromkeys(["inner", "linalg_vecdot"], matrices),
    # norms, powers
    **dict.fromkeys(["linalg_norm", "linalg_vector_norm"], rows(dim=-1)),
    "linalg_matrix_norm": stacked(),
    **dict.fromkeys(["linalg_matrix_power", "matrix_power"], stacked(5)),
    "linalg_vander": lambda make, n: make.call(make.uniform(n // SIDE), N=SIDE),
    "matrix_exp": stacked(),
    # factors
    **dict.fromkeys(["linalg_eigh", "linalg_eigh_both", "linalg_eigvalsh"], stacked()),
    **dict.fromkeys(["linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex"], stacked()),
    **dict.fromkeys(["linalg_qr", "linalg_qr_both"], stacked()),
    **dict.fromkeys(["linalg_svd", "linalg_svd_all", "linalg_svdvals"], stacked()),
    **dict.fromkeys(["linalg_cond", "linalg_matrix_rank"], stacked()),
    **dict.fromkeys(["linalg_pinv", "linalg_pinv_from", "pinverse"], stacked()),
    # The symmetric part of a regular matrix is positive definite.
    **dict.fromkeys(["linalg_cholesky", "linalg_cholesky_ex"], inverted()),
    # inverses, systems, determinants
    **dict.fromkeys(["cholesky_inverse", "linalg_inv", "linalg_inv_ex"], inverted()),
    **dict.fromkeys(["linalg_solve", "linalg_solve_ex", "linalg_solve_with_info"], system()),
    "linalg_solve_triangular": system(upper=True),
    "cholesky_solve": lambda make, n: make.call(stack(make, n), regular(make, n)),
    "linalg_lstsq": lambda make, n: make.call(
        make.normal(n // 100, 20, 5), make.normal(n // 100, 20, 5)
    ),
    "linalg_lu_solve": lambda make, n: make.call(
        regular(make, n), pivots(make, n // SIDE**2), stack(make, n)
    ),
    "lu_solve": lambda make, n: make.call(
        stack(make, n), regular(make, n), pivots(make, n // SIDE**2)
    ),
    "exchange_rows": lambda make, n: make.call(stack(make, n), pivots(make, n // SIDE**2)),
    "lu_permutation": lambda make, n: make.call(pivots(make, n // SIDE**2), rows=SIDE),
    "linalg_tensorinv": lambda make, n: make.call(linear_map(make, n)),
    "linalg_tensorsolve": lambda make, n: make.call(
        linear_map(make, n), make.normal(isqrt(n) // 2, 2)
    ),
    **dict.fromkeys(["linalg_cofactor", "linalg_det"], inverted()),
    **dict.fromkeys(["linalg_slogdet", "logdet", "slogdet"], inverted()),
}

# ------------------------------------------------------------------------------------------------------- reductions


def gaps(*constants, **named):
    """A reduction along the rows of a matrix a tenth of which is NaN."""

    def case(make, n):
        x = matrix(make, n)
        return make.call(np.where(make.uniform(*x.shape) > 0.8, np.nan, x), *constants, **named)

    return case


REDUCTION = {
    **dict.fromkeys(["aminmax", "count_nonzero", "mode", "std_mean", "var_mean"], rows(dim=-1)),
    **dict.fromkeys(["cummax", "cummin", "running_max", "running_min"], rows(dim=-1)),
    **dict.fromkeys(["cumulative_trapezoid", "diff", "trapezoid", "trapz"], rows(dim=-1)),
    **dict.fromkeys(["nanmean", "nanmedian", "nansum"], gaps(dim=-1)),
    **dict.fromkeys(["corrcoef", "cov"], rows()),
    "bincount": lambda make, n: make.call(make.integers(n, high=isqrt(n)), make.normal(n)),
    "dist": pair,
    "histc": vector(bins=100),
    "kthvalue": rows(k=5),
    "logcumsumexp": rows(dim=-1),
    "median_of_all": vector(),
    "middle_rank": gaps(dim=-1),
    "nanquantile": gaps(0.25, dim=-1),
    "norm_in": rows(dim=-1, dtype=np.dtype(np.float64)),
    "order_statistic": lambda make, n: make.call(
        matrix(make, n), make.integers(isqrt(n), isqrt(n) // 5, high=isqrt(n)), dim=-1
    ),
    "quantile": rows(q=0.25, dim=-1),
    "renorm": rows(p=2, dim=0, maxnorm=1.0),
}

FAMILIES = (LINALG, REDUCTION)
