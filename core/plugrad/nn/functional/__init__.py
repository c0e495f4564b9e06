"""PyTorch's functions of neural networks, with its names, argument names, order and defaults.

Each is a thin name over an operator of the standard plugin. ``inplace=True`` writes the result over `input` and returns
that tensor, as ``Tensor.relu_()`` and its like do.
"""
# ruff: noqa: F403  (each module says what it exports)

from typing import Any

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


def __getattr__(name: str) -> Any:
    from plugrad.registry.elsewhere import FUNCTIONAL, instead

    prefix = "plugrad.nn.functional."
    if name.endswith("_") and name[:-1] in __all__:
        hint = f": write {name[:-1]}(input, ..., inplace=True)"
    else:
        hint = instead(name, FUNCTIONAL, __all__, prefix)
    raise AttributeError(f"{prefix[:-1]} has no attribute {name!r}{hint}")
