"""PyTorch's functions of neural networks, with its names, argument names, order and defaults.

Each is a thin name over an operator of the standard plugin. What PyTorch does in place on request (`inplace`), this
refuses: the caller would go on with values that were not changed.
"""
# ruff: noqa: F403  (each module says what it exports)

from plugrad.nn.functional import (
    activations,
    attention,
    convolution,
    distances,
    dropouts,
    embeddings,
    layers,
    losses,
    margin_losses,
    normalization,
    padding,
    pooling,
    vision,
)
from plugrad.nn.functional.activations import *
from plugrad.nn.functional.attention import *
from plugrad.nn.functional.convolution import *
from plugrad.nn.functional.distances import *
from plugrad.nn.functional.dropouts import *
from plugrad.nn.functional.embeddings import *
from plugrad.nn.functional.layers import *
from plugrad.nn.functional.losses import *
from plugrad.nn.functional.margin_losses import *
from plugrad.nn.functional.normalization import *
from plugrad.nn.functional.padding import *
from plugrad.nn.functional.pooling import *
from plugrad.nn.functional.vision import *

__all__ = [
    *activations.__all__,
    *attention.__all__,
    *convolution.__all__,
    *distances.__all__,
    *dropouts.__all__,
    *embeddings.__all__,
    *layers.__all__,
    *losses.__all__,
    *margin_losses.__all__,
    *normalization.__all__,
    *padding.__all__,
    *pooling.__all__,
    *vision.__all__,
]
