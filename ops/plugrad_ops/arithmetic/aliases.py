"""Second names that PyTorch has for arithmetic."""

from __future__ import annotations

import numpy as np

from plugrad import composite
from plugrad_ops.arithmetic import angles, comparison, ops, rounding, selection, transcendental


def _predicate(values):
    """The kinks of a one-argument operator as composites declare them."""
    return lambda input, *, tol: np.any([np.abs(input - value) <= tol for value in values], axis=0)


def alias(name, operator):
    """`operator` under another name, checked at the same points."""
    kinks = _predicate(operator.kinks) if isinstance(operator.kinks, dict) else operator.kinks
    made = composite(f"standard::{name}", method=True, kinks=kinks)(operator)
    made.samples(operator.sampler)
    return made


subtract = alias("subtract", ops.sub)
multiply = alias("multiply", ops.mul)
divide = alias("divide", ops.div)
true_divide = alias("true_divide", ops.div)
negative = alias("negative", ops.neg)
absolute = alias("absolute", ops.abs)
clip = alias("clip", selection.clamp)
not_equal = alias("not_equal", comparison.ne)
less = alias("less", comparison.lt)
less_equal = alias("less_equal", comparison.le)
greater = alias("greater", comparison.gt)
greater_equal = alias("greater_equal", comparison.ge)
arcsin = alias("arcsin", transcendental.asin)
arccos = alias("arccos", transcendental.acos)
arctan = alias("arctan", transcendental.atan)
arctan2 = alias("arctan2", angles.atan2)
arcsinh = alias("arcsinh", angles.asinh)
arccosh = alias("arccosh", angles.acosh)
arctanh = alias("arctanh", angles.atanh)
fix = alias("fix", rounding.trunc)
