"""Reductions: sums, products, variance, logsumexp, norms, extremes and ranks; running forms; summaries made of them."""

from plugrad_ops.reduction import (
    differences,
    extrema,
    medians,
    mode,
    norm,
    ops,
    order,
    running,
    scan,
    summaries,
    variance,
)

MODULES = (
    ops,
    variance,
    extrema,
    order,
    medians,
    mode,
    norm,
    scan,
    running,
    differences,
    summaries,
)
