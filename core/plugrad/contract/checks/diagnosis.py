"""What usually causes a wrong gradient, read off the numbers."""

from __future__ import annotations

import numpy as np

__all__ = ["GENERIC", "likely_cause"]

Array = np.ndarray

FEWEST = 3  # wrong elements that make a pattern: one element is always some factor off

GENERIC = (
    "a term of the formula, a transposed or dropped index, an unsummed broadcast axis, "
    "or a kink in the sample that is not declared"
)


def likely_cause(analytic: Array, numeric: Array, wrong: Array) -> str:
    """A sentence for the pattern of the wrong elements.

    Parameters
    ----------
    analytic, numeric : ndarray
        The derivatives compared: the rows of a Jacobian, or one gradient.
    wrong : ndarray of bool
        The elements that differ.
    """
    got, wanted = analytic[wrong], numeric[wrong]
    if not np.isfinite(got).all():
        return "a division by zero, a logarithm or a root at the edge of the domain, or inf * 0 in backward"
    if not got.any():
        return "nothing flows: a detached or masked input, a missing term, or None for a gradient"
    scale = float(np.abs(numeric).max(initial=0.0))
    if np.abs(wanted).max(initial=0.0) <= 1e-9 * max(scale, float(np.abs(got).max())):
        return (
            "the forward is flat there (rounding, a comparison, a sign): a straight-through gradient "
            "declares surrogate="
        )
    square = analytic.ndim == 2 and analytic.shape[0] == analytic.shape[1] > 1
    if square and np.allclose(analytic, numeric.T, rtol=1e-5, atol=1e-8 * scale):
        return "the Jacobian is transposed"
    if np.abs(wanted).min(initial=np.inf) > 0.0:
        ratio = got / wanted
        factor = float(np.median(ratio))
        if np.abs(ratio - factor).max() <= 1e-4 * abs(factor):
            if abs(factor + 1.0) <= 1e-4:
                return "the sign is flipped"
            if ratio.size >= FEWEST:
                return f"every wrong element is {factor:.6g} times what it should be: a factor"
    count, total = int(wrong.sum()), int(wrong.size)
    if 0 < count <= total // 4:
        return (
            f"{count} of {total} elements are wrong, the others right: an index, a mask, a boundary "
            "or a kink that is not declared"
        )
    return GENERIC
