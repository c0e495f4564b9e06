"""Reductions: sums, products, variance, logsumexp, norms, extremes and where they are; running sums and products."""

from plugrad_ops.reduction import extrema, norm, ops, scan

MODULES = (ops, extrema, norm, scan)
