"""Reading and writing at positions: ``x[...]``, `index_put`, `take_along_dim`, `gather`, `scatter_add`."""

from plugrad_ops.indexing import along, ops, piecewise, writing

MODULES = (ops, along, writing, piecewise)
