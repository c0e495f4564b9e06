"""Matrices that operators are checked at."""

import numpy as np


def regular(make, *batch, n=3):
    """Far from singular, and so is either triangle."""
    return make.normal(*batch, n, n) + 3 * np.eye(n)


def positive_definite(make, *batch, n=3):
    """Symmetric, with eigenvalues well above 0."""
    x = make.normal(*batch, n, n)
    return x @ x.swapaxes(-1, -2) / n + np.eye(n)


def symmetric(make, *batch, n=3):
    """Symmetric, with eigenvalues apart from each other."""
    q, _ = np.linalg.qr(make.normal(*batch, n, n))
    x = (q * (np.arange(n) * 1.5 - 1)) @ q.swapaxes(-1, -2)
    return (x + x.swapaxes(-1, -2)) / 2


def apart(make, m, n, *batch):
    """With singular values apart from each other and from 0."""
    k = min(m, n)
    left, _ = np.linalg.qr(make.normal(*batch, m, k))
    right, _ = np.linalg.qr(make.normal(*batch, n, k))
    return (left * (np.arange(k) + 0.75)) @ right.swapaxes(-1, -2)
