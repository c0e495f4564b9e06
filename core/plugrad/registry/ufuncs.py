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
    np.fmod: "fmod",
    np.power: "pow",
    np.float_power: "float_power",
    np.negative: "neg",
    np.positive: "positive",
    np.absolute: "abs",
    np.fabs: "abs",
    np.sign: "sign",
    np.copysign: "copysign",
    np.signbit: "signbit",
    np.heaviside: "heaviside",
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
    np.logaddexp: "logaddexp",
    np.logaddexp2: "logaddexp2",
    # trigonometric and hyperbolic
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arcsin: "asin",
    np.arccos: "acos",
    np.arctan: "atan",
    np.arctan2: "atan2",
    np.hypot: "hypot",
    np.degrees: "rad2deg",
    np.rad2deg: "rad2deg",
    np.radians: "deg2rad",
    np.deg2rad: "deg2rad",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.tanh: "tanh",
    np.arcsinh: "asinh",
    np.arccosh: "acosh",
    np.arctanh: "atanh",
    # whole numbers
    np.floor: "floor",
    np.ceil: "ceil",
    np.trunc: "trunc",
    np.rint: "round",
    np.gcd: "gcd",
    np.lcm: "lcm",
    np.left_shift: "bitwise_left_shift",
    np.right_shift: "bitwise_right_shift",
    # selection and comparison
    np.maximum: "maximum",
    np.minimum: "minimum",
    np.equal: "eq",
    np.not_equal: "ne",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    np.isnan: "isnan",
    np.isinf: "isinf",
    np.isfinite: "isfinite",
    # logic
    np.logical_not: "logical_not",
    np.logical_and: "logical_and",
    np.logical_or: "logical_or",
    np.logical_xor: "logical_xor",
    np.bitwise_and: "bitwise_and",
    np.bitwise_or: "bitwise_or",
    np.bitwise_xor: "bitwise_xor",
    np.invert: "bitwise_not",
}
