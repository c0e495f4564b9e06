"""Straight-through estimators for plugrad: discrete forward passes that gradients can cross.

==========================  ==============================  =======================================
operator                    forward                         gradient
==========================  ==============================  =======================================
``plugrad.ops.ste.round``   nearest integer, ties to even   passes straight through
``ste.sign``                -1, 0 or 1                      passes straight through
``ste.binarize``            -1 or 1                         passes inside [-1, 1], 0 outside
``ste.fake_quantize``       nearest of ``2**bits`` levels   passes inside the range, 0 outside;
                                                            learned step size and zero point
==========================  ==============================  =======================================

Each is checked against the surrogate that it declares before its first call.
"""

import plugrad

from . import discrete, quantize
from .discrete import binarize, round, sign
from .quantize import fake_quantize, quantization_range

__all__ = ["binarize", "fake_quantize", "quantization_range", "round", "sign"]


@plugrad.hookimpl
def plugrad_register_ops(registry):
    """Offer the operators of this distribution to plugrad."""
    registry.add_module(discrete)
    registry.add_module(quantize)
