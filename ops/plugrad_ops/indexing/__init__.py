"""Reading and writing at positions, and finding them: ``x[...]``, `gather`, `scatter`, `sort`, `nonzero`."""

from plugrad_ops.indexing import (
    along,
    distinct,
    folding,
    ops,
    piecewise,
    placing,
    replacing,
    scattering,
    searching,
    selecting,
    sorting,
    writing,
)

MODULES = (
    ops,
    along,
    placing,
    writing,
    piecewise,
    scattering,
    folding,
    selecting,
    replacing,
    sorting,
    searching,
    distinct,
)
