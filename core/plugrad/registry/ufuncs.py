"""Which standard operator stands for a NumPy ufunc that is given a Tensor.

This is what makes ``ndarray * Tensor`` and ``np.exp(tensor)`` differentiable. Only ufuncs that an
operator equals in value are listed; any other one is an error, never a silent detach.
"""

from __future__ import annotations

import numpy as np

__all__ = ["UFUNCS"]

UFUNCS: dict[np.ufunc, str] = {
    # arithmetic
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.true_divide: "div",
    np.floor_divide: "floor_divide",
    np.remainder: "remainder",
    np.power: "pow",
    np.negative: "neg",
    np.positive: "positive",
    np.absolute: "abs",
    np.fabs: "abs",
    np.sign: "sign",
    np.sqrt: "sqrt",
    np.square: "square",
    np.reciprocal: "reciprocal",
    np.matmul: "matmul",
    # exponentials and logarithms
    np.exp: "exp",
    np.exp2: "exp2",
    np.expm1: "expm1",
    np.log: "log",
    np.log2: "log2",
    np.log10: "log10",
    np.log1p: "log1p",
    # trigonometric and hyperbolic
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arcsin: "asin",
    np.arccos: "acos",
    np.arctan: "atan",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.tanh: "tanh",
    # selection and comparison
    np.maximum: "maximum",
    np.minimum: "minimum",
    np.equal: "eq",
    np.not_equal: "ne",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    # logic
    np.logical_not: "logical_not",
    np.logical_and: "logical_and",
    np.logical_or: "logical_or",
    np.bitwise_and: "bitwise_and",
    np.bitwise_or: "bitwise_or",
    np.bitwise_xor: "bitwise_xor",
    np.invert: "bitwise_not",
}
