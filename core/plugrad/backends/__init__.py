"""Array backends. Importing this package makes the CPU one available."""

import plugrad.backends.cpu  # noqa: F401  (registers itself)
from plugrad.graph.backend import backend_named

CPU = backend_named("cpu")

__all__ = ["CPU"]
