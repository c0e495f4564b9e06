"""Shape: views, joining and splitting, copies, strided access, padding."""

from plugrad_ops.shape import (
    copies,
    diagonal,
    grids,
    joining,
    ops,
    padding,
    rearranging,
    renaming,
    stacking,
    strided,
    triangles,
)

MODULES = (
    ops,
    copies,
    diagonal,
    joining,
    renaming,
    stacking,
    rearranging,
    triangles,
    grids,
    padding,
    strided,
)
