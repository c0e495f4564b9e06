"""Inputs of more operators of arithmetic, shape and indexing; `cases.py` says how a case is written."""

from math import isqrt

import numpy as np

from .inputs import classes, matrix, pair, positions, rows, vector


def twins(make, n):
    """A tensor and its equal."""
    x = make.normal(n)
    return make.call(x, x.copy())


def circled(make, n):
    """Complex numbers."""
    return make.call(make.complex(n))


def definite(make, n):
    """A stack of positive definite matrices."""
    root = make.uniform(n // 100, 10, 10)
    return make.call(np.eye(10) + root @ root.swapaxes(-1, -2))


def sides(make, n):
    """Two vectors that span a matrix."""
    return make.call(make.normal(isqrt(n)), make.normal(isqrt(n)))


def side(**constants):
    """An operator that makes a matrix of a vector."""
    return lambda make, n: make.call(make.normal(isqrt(n)), **constants)


def tenths(make, n):
    """A list of ten tensors."""
    return make.call([make.normal(n // 10) for _ in range(10)])


def reshaped(make, n):
    """A vector, and a matrix whose shape it shall have."""
    return make.call(make.normal(n), matrix(make, n))


def split(make, n):
    """A matrix in five pieces."""
    return make.call(matrix(make, n), 5)


def half_zero(make, n):
    """A matrix of zeros and ones."""
    return make.call(make.booleans(isqrt(n), isqrt(n)) * 1.0)


def repeating(make, *shape):
    """Whole numbers, most of them there more than once."""
    return make.integers(*shape, high=isqrt(shape[0])) * 1.0


def distinct(**constants):
    """An operator that finds the distinct among whole numbers."""
    return lambda make, n: make.call(repeating(make, n), **constants)


def among(make, n):
    """Whole numbers, and those to look for."""
    return make.call(repeating(make, n), repeating(make, isqrt(n)))


def bounds(make, n):
    """Numbers in order."""
    return np.sort(make.normal(isqrt(n)))


def tenth_of_rows(*after, **constants):
    """An operator that puts rows into a tenth of a matrix, at positions along dimension 0."""
    return lambda make, n: make.call(
        matrix(make, n),
        0,
        positions(make, n),
        make.normal(isqrt(n) // 10, isqrt(n)),
        *after,
        **constants,
    )


def scattered(*after, **constants):
    """An operator that puts a matrix where indices of the same shape say."""
    return lambda make, n: make.call(
        matrix(make, n), 1, classes(make, n, n), matrix(make, n), *after, **constants
    )


def along(**constants):
    """The same, of those operators that take the dimension as a constant."""
    return lambda make, n: make.call(
        matrix(make, n), classes(make, n, n), matrix(make, n), dim=-1, **constants
    )


def scaled(**constants):
    """An operator of two tensors."""
    return lambda make, n: make.call(make.normal(n), make.normal(n), **constants)


ARITHMETIC = {
    **dict.fromkeys(("deg2rad", "frac", "i0", "i0e", "i1", "i1e", "ndtr", "rad2deg"), vector()),
    **dict.fromkeys(
        ("angle", "conj", "imag", "real", "resolve_conj", "resolve_neg", "view_as_real"), circled
    ),
    **dict.fromkeys(("allclose", "equal", "isclose"), twins),
    **dict.fromkeys(("cholesky", "det", "inverse"), definite),
    **dict.fromkeys(("complex", "rsub"), pair),
    **dict.fromkeys(("add_scaled", "sub_scaled"), scaled(alpha=2)),
    "addcdiv": lambda make, n: make.call(
        make.normal(n), make.normal(n), make.positive(n), value=0.5
    ),
    "addcmul": lambda make, n: make.call(make.normal(n), make.normal(n), make.normal(n), value=0.5),
    "clamp_max": vector(max=0.25),
    "clamp_min": vector(min=0.25),
    "div_rounded": lambda make, n: make.call(
        make.normal(n), make.positive(n), rounding_mode="floor"
    ),
    "ger": sides,
    "ldexp": lambda make, n: make.call(make.normal(n), make.integers(n, low=-3, high=4)),
    "mvlgamma": lambda make, n: make.call(make.uniform(n, low=2.0, high=4.0), 2),
    "polar": lambda make, n: make.call(make.positive(n), make.normal(n)),
    "polygamma": lambda make, n: make.call(1, make.positive(n)),
    "view_as_complex": lambda make, n: make.call(make.normal(n // 2, 2)),
}

SHAPE = {
    **dict.fromkeys(("adjoint", "fliplr", "flipud", "ravel", "rot90", "tril", "triu"), rows()),
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d"), vector()),
    **dict.fromkeys(("concat", "concatenate", "column_stack", "dstack"), tenths),
    **dict.fromkeys(("hstack", "row_stack", "vstack"), tenths),
    **dict.fromkeys(("hsplit", "tensor_split", "vsplit"), split),
    **dict.fromkeys(("reshape_as", "view_as"), reshaped),
    **dict.fromkeys(("diag", "diagflat", "combinations"), side()),
    "block_diag": lambda make, n: make.call(
        *[make.normal(isqrt(n) // 10, isqrt(n) // 10) for _ in range(10)]
    ),
    "broadcast_tensors": lambda make, n: make.call(make.normal(isqrt(n), 1), make.normal(isqrt(n))),
    "cartesian_prod": sides,
    "constant_pad_nd": rows(pad=(1, 2, 1, 2), value=1.5),
    "diag_embed": lambda make, n: make.call(make.normal(n // 100, 10)),
    "dsplit": lambda make, n: make.call(make.normal(n // 100, 10, 10), 5),
    "edge_pad": rows(pad=(1, 2, 1, 2), mode="reflect"),
    "edge_pad_adjoint": rows(pad=(1, 2, 1, 2), mode="reflect"),
    "meshgrid": lambda make, n: make.call(
        make.normal(isqrt(n)), make.normal(isqrt(n)), indexing="ij"
    ),
    "moveaxis": rows(source=0, destination=1),
    "pad": rows(pad=(1, 2, 1, 2)),
    "repeat_interleave": lambda make, n: make.call(make.normal(n // 4), 4),
    "roll": rows(shifts=(1, 2), dims=(0, 1)),
    "roll_dims": rows(shifts=(1, 2), dims=(0, 1)),
    "select": rows(dim=0, index=1),
    "swapaxes": rows(axis0=0, axis1=1),
    "swapdims": rows(dim0=0, dim1=1),
}

INDEXING = {
    **dict.fromkeys(("argsort", "sort", "sort_dim"), rows(dim=-1)),
    **dict.fromkeys(("argwhere", "nonzero", "nonzero_positions"), half_zero),
    **dict.fromkeys(("is_among", "isin"), among),
    **dict.fromkeys(
        ("search_rows", "searchsorted"), lambda make, n: make.call(bounds(make, n), make.normal(n))
    ),
    **dict.fromkeys(("top_dim", "topk"), rows(k=5, dim=-1)),
    **dict.fromkeys(("index_add", "index_copy"), tenth_of_rows()),
    "index_reduce": tenth_of_rows(reduce="amax"),
    "index_fill": lambda make, n: make.call(matrix(make, n), 0, positions(make, n), -1.5),
    "bucketize": lambda make, n: make.call(make.normal(n), bounds(make, n)),
    "msort": rows(),
    "unique": distinct(),
    "unique_consecutive": distinct(),
    "lexsort_rows": lambda make, n: make.call(repeating(make, n // 10, 10)),
    "diagonal_scatter": lambda make, n: make.call(matrix(make, n), make.normal(isqrt(n))),
    "select_scatter": lambda make, n: make.call(matrix(make, n), make.normal(isqrt(n)), 0, 1),
    "slice_scatter": lambda make, n: make.call(
        matrix(make, n), make.normal(isqrt(n) // 2, isqrt(n)), 0, 0, None, 2
    ),
    "fold_along_dim": along(fold="amax"),
    "write_along_dim": along(),
    "put_along_dim": lambda make, n: make.call(
        matrix(make, n), classes(make, n, n), shape=(isqrt(n), isqrt(n)), dim=-1
    ),
    "scatter": scattered(),
    "scatter_reduce": scattered("amax"),
    "masked_scatter": lambda make, n: make.call(
        matrix(make, n), make.booleans(isqrt(n), isqrt(n)), matrix(make, n)
    ),
    "masked_select": lambda make, n: make.call(matrix(make, n), make.booleans(isqrt(n), isqrt(n))),
    "take": lambda make, n: make.call(matrix(make, n), make.integers(n, high=n)),
    "put": lambda make, n: make.call(
        matrix(make, n), make.integers(n // 10, high=n), make.normal(n // 10)
    ),
}

FAMILIES = (ARITHMETIC, SHAPE, INDEXING)
