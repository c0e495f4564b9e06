"""Losses, fused where the naive form overflows or wastes memory."""

from plugrad_ops.loss import cross_entropy, ops

MODULES = (ops, cross_entropy)
