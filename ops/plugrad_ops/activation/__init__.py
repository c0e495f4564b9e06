"""Activation functions, and softmax."""

from plugrad_ops.activation import ops, softmax

MODULES = (ops, softmax)
