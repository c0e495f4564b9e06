"""Products of matrices and vectors, factorisations of matrices and what is made of them."""

from plugrad_ops.linalg import (
    determinant,
    einsum,
    functions,
    lu,
    norms,
    ops,
    orthogonal,
    products,
    pseudo,
    solve,
    spectral,
    triangular,
)

MODULES = (
    ops,
    products,
    einsum,
    triangular,
    lu,
    solve,
    orthogonal,
    spectral,
    determinant,
    norms,
    pseudo,
    functions,
)
