"""Shape: views, joining and splitting, copies, strided access."""

from plugrad_ops.shape import copies, diagonal, joining, ops, strided

MODULES = (ops, copies, diagonal, joining, strided)
