"""Reductions: sums, products, variance, logsumexp, norms, extremes and ranks; running forms; summaries made of them."""

from plugrad_ops.reduction import differences, extrema, norm, ops, order, running, scan, summaries

MODULES = (ops, extrema, order, norm, scan, running, differences, summaries)
