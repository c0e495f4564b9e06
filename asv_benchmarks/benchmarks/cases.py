"""Inputs of the standard operators that are not elementwise: one line each, by the family they belong to.

A case is written like a sample, `make.call(tensors..., constants...)`, and told how many elements the largest input shall
have. Sizes are squares (10², 10⁴, 10⁶), so a matrix is `side` by `side`; floating arrays are cast to the benchmark's dtype.
Other shapes or constants give that operator's benchmark a new version, and asv drops what it measured with the old one.
"""

from math import isqrt

import numpy as np

from . import cases_linalg, cases_network, cases_shape
from .inputs import (
    ARRAY,
    classes,
    doubled,
    labelled,
    matrix,
    near_one,
    pair,
    positions,
    rows,
    vector,
)

REDUCTION = {
    "sum": rows(dim=-1),
    "mean": rows(dim=-1),
    "prod": lambda make, n: make.call(near_one(make, n), dim=-1),
    "var": rows(dim=-1),
    "std": rows(dim=-1),
    "amax": rows(dim=-1),
    "amin": rows(dim=-1),
    "max": rows(dim=-1),
    "min": rows(dim=-1),
    "argmax": rows(dim=-1),
    "argmin": rows(dim=-1),
    "all": rows(dim=-1),
    "any": rows(dim=-1),
    "logsumexp": rows(dim=-1),
    "norm": rows(dim=-1),
    "normalize": rows(dim=-1),
    "median": rows(),
    "cumsum": rows(dim=-1),
    "cumprod": lambda make, n: make.call(near_one(make, n), dim=-1),
    "linear_scan": lambda make, n: make.call(near_one(make, n), matrix(make, n), dim=-1),
    "sum_to": lambda make, n: make.call(matrix(make, n), shape=(isqrt(n),)),
}

ACTIVATION = {
    "softmax": rows(dim=-1),
    "log_softmax": rows(dim=-1),
}

LINALG = {
    "matmul": lambda make, n: make.call(matrix(make, n), matrix(make, n)),
    "mm": lambda make, n: make.call(matrix(make, n), matrix(make, n)),
    "bmm": lambda make, n: make.call(make.normal(n // 100, 10, 10), make.normal(n // 100, 10, 10)),
    "mv": lambda make, n: make.call(matrix(make, n), make.normal(isqrt(n))),
    "dot": pair,
    "linear": lambda make, n: make.call(matrix(make, n), matrix(make, n), make.normal(isqrt(n))),
}

SHAPE = {
    "view": lambda make, n: make.call(make.normal(n), size=(isqrt(n), -1)),
    "reshape": lambda make, n: make.call(make.normal(n), isqrt(n), -1),
    "flatten": rows(),
    "unflatten": lambda make, n: make.call(make.normal(n), 0, (isqrt(n), -1)),
    "squeeze": lambda make, n: make.call(make.normal(n, 1), dim=1),
    "unsqueeze": vector(dim=0),
    "permute": rows(dims=(1, 0)),
    "transpose": rows(dim0=0, dim1=1),
    "t": rows(),
    "movedim": rows(source=0, destination=1),
    "expand": lambda make, n: make.call(make.normal(1, isqrt(n)), size=(isqrt(n), isqrt(n))),
    "expand_as": lambda make, n: make.call(make.normal(1, isqrt(n)), matrix(make, n)),
    "broadcast_to": lambda make, n: make.call(make.normal(1, isqrt(n)), (isqrt(n), isqrt(n))),
    "repeat": lambda make, n: make.call(make.normal(n // 4), 4),
    "tile": lambda make, n: make.call(make.normal(n // 4), 4),
    "flip": rows(dims=(0, 1)),
    "copy": vector(),
    "clone": vector(),
    "contiguous": lambda make, n: make.call(matrix(make, n)),
    "contiguous_copy": vector(),
    "cat": lambda make, n: make.call([make.normal(n // 10) for _ in range(10)]),
    "stack": lambda make, n: make.call([make.normal(n // 10) for _ in range(10)]),
    "narrow": rows(dim=1, start=1, length=5),
    "split": lambda make, n: make.call(matrix(make, n), isqrt(n) // 5),
    "chunk": lambda make, n: make.call(matrix(make, n), 5),
    "unbind": lambda make, n: make.call(make.normal(10, n // 10)),
    "diagonal": rows(),
    "diagonal_adjoint": lambda make, n: make.call(
        make.normal(isqrt(n)), shape=(isqrt(n), isqrt(n))
    ),
    "as_strided": lambda make, n: make.call(make.normal(n), size=(n // 2,), stride=(2,)),
    "as_strided_adjoint": lambda make, n: make.call(
        make.normal(n // 2), shape=(n,), size=(n // 2,), stride=(2,)
    ),
    "as_strided_gather": lambda make, n: make.call(make.normal(n), size=(n // 2,), stride=(2,)),
}

INDEXING = {
    "getitem": lambda make, n: make.call(matrix(make, n), (slice(1, None), slice(None, None, 2))),
    "slice": rows(index=((1, None, None), (None, None, 2))),
    "slice_adjoint": lambda make, n: make.call(
        make.normal(n // 2), shape=(n,), index=((None, None, 2),)
    ),
    "index": lambda make, n: make.call(matrix(make, n), positions(make, n), spec=(ARRAY,)),
    "index_accumulate": lambda make, n: make.call(
        make.normal(max(1, isqrt(n) // 10), isqrt(n)),
        positions(make, n),
        shape=(isqrt(n), isqrt(n)),
        spec=(ARRAY,),
    ),
    "index_select": lambda make, n: make.call(matrix(make, n), 0, positions(make, n)),
    "index_write": lambda make, n: make.call(
        matrix(make, n), make.normal(isqrt(n)), positions(make, n), spec=(ARRAY,)
    ),
    "index_clear": lambda make, n: make.call(matrix(make, n), positions(make, n), spec=(ARRAY,)),
    "last_writes": lambda make, n: make.call(positions(make, n * n), shape=(n,), spec=(ARRAY,)),
    "index_put": lambda make, n: make.call(
        matrix(make, n), (positions(make, n),), make.normal(isqrt(n))
    ),
    "index_write_": lambda make, n: make.call(
        matrix(make, n), make.normal(isqrt(n)), positions(make, n), spec=(ARRAY,)
    ),
    "setitem": lambda make, n: make.call(
        matrix(make, n), (slice(1, None), slice(None, None, 2)), make.normal(1)
    ),
    "masked_fill": lambda make, n: make.call(
        matrix(make, n), make.booleans(isqrt(n), isqrt(n)), -1.5
    ),
    "piecewise": lambda make, n: make.call(
        matrix(make, n), [make.booleans(isqrt(n), isqrt(n))], [doubled, 0]
    ),
    "take_along_dim": lambda make, n: make.call(matrix(make, n), classes(make, n, n), dim=-1),
    "add_along_dim": lambda make, n: make.call(
        matrix(make, n), classes(make, n, n), shape=(isqrt(n), isqrt(n)), dim=-1
    ),
    "gather": lambda make, n: make.call(matrix(make, n), 1, classes(make, n, n)),
    "scatter_add": lambda make, n: make.call(
        matrix(make, n), 1, classes(make, n, n), matrix(make, n)
    ),
    "one_hot": lambda make, n: make.call(classes(make, n), num_classes=isqrt(n)),
}

LOSS = {
    "mse_loss": pair,
    "l1_loss": pair,
    "nll_loss": labelled,
    "cross_entropy": labelled,
    "softmax_cross_entropy": labelled,
    "picked_nll": labelled,
    "class_margins": labelled,
    "poisson_nll": pair,
    "gaussian_nll": lambda make, n: make.call(make.normal(n), make.normal(n), make.positive(n)),
    "binary_cross_entropy": lambda make, n: make.call(
        make.uniform(n, low=0.1, high=0.9), make.uniform(n, low=0.0, high=1.0)
    ),
    "binary_cross_entropy_with_logits": lambda make, n: make.call(
        make.normal(n), make.uniform(n, low=0.0, high=1.0)
    ),
}

ARITHMETIC = {
    "cast": vector(dtype=np.dtype(np.float64)),
}

OWN = (ARITHMETIC, ACTIVATION, REDUCTION, LINALG, SHAPE, INDEXING, LOSS)
FAMILIES = (*OWN, *cases_linalg.FAMILIES, *cases_network.FAMILIES, *cases_shape.FAMILIES)
CASES = {f"standard::{name}": case for family in FAMILIES for name, case in family.items()}

# Composites that give positions, counts, bools or integers.
FORWARD_ONLY = tuple(
    f"standard::{name}"
    for name in (
        "allclose",
        "argsort",
        "argwhere",
        "bucketize",
        "equal",
        "count_nonzero",
        "histc",
        "isclose",
        "isin",
        "linalg_matrix_rank",
        "nonzero",
        "random_",
        "searchsorted",
    )
)
