"""Shape: views, joining and splitting, copies, strided access."""

from plugrad_ops.shape import copies, joining, ops, strided

MODULES = (ops, copies, joining, strided)
