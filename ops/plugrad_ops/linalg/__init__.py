"""Products of matrices and vectors."""

from plugrad_ops.linalg import ops

MODULES = (ops,)
