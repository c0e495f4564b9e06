"""PyTorch's functions of neural networks, with its names, argument names, order and defaults.

Each is a thin name over an operator of the standard plugin. What PyTorch does in place on request (`inplace`), this
refuses: the caller would go on with values that were not changed.
"""
# ruff: noqa: F403  (each module says what it exports)

from plugrad.nn.functional import activations, layers, losses
from plugrad.nn.functional.activations import *
from plugrad.nn.functional.layers import *
from plugrad.nn.functional.losses import *

__all__ = [
    *activations.__all__,
    *layers.__all__,
    *losses.__all__,
]
