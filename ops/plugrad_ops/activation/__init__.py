"""Activation functions, and softmax."""

from plugrad_ops.activation import formulas, ops, softmax

MODULES = (ops, formulas, softmax)
