"""Losses, fused where the naive form overflows or wastes memory."""

from plugrad_ops.loss import cross_entropy, ctc, distances, huber, likelihoods, margins, ops

MODULES = (ops, huber, cross_entropy, likelihoods, distances, margins, ctc)
