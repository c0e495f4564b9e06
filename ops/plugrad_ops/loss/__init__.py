"""Losses, fused where the naive form overflows or wastes memory."""

from plugrad_ops.loss import cross_entropy, ctc, distances, huber, likelihoods, margins, ops, picks

MODULES = (ops, huber, cross_entropy, picks, likelihoods, distances, margins, ctc)
