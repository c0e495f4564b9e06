"""The standard operators: the plugin that ships with plugrad and has no privilege over any other.

One folder per family; in each, `ops.py` and its neighbours read like a table of operators, and the `.pyx` files hold
the kernels and rules that are worth compiling.
"""

import plugrad

__all__ = ["plugrad_register_ops"]


@plugrad.hookimpl
def plugrad_register_ops(registry):
    """Offer every operator of every family."""
    from plugrad_ops import (
        activation,
        arithmetic,
        convolution,
        indexing,
        linalg,
        loss,
        normalization,
        random,
        reduction,
        shape,
    )

    families = (
        arithmetic,
        activation,
        reduction,
        linalg,
        shape,
        indexing,
        convolution,
        normalization,
        loss,
        random,
    )
    for family in families:
        for module in family.MODULES:
            registry.add_module(module)
