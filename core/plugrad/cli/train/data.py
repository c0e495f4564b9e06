"""The handwritten digits of scikit-learn: 1797 images of 8 x 8 pixels with 16 grey levels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SIDE, CLASSES = 8, 10


class Digits(NamedTuple):
    """Images of shape (n, 64), float32 between 0 and 1, and labels of shape (n,), int64."""

    images: np.ndarray
    labels: np.ndarray


def load_digits(rng: np.random.Generator, test_share: float = 0.2) -> tuple[Digits, Digits]:
    """Return training and test set; the same share of every digit is held out."""
    from sklearn.datasets import load_digits as bundled

    pixels, labels = bundled(return_X_y=True)
    images, labels = (pixels / 16.0).astype(np.float32), labels.astype(np.int64)
    held_out = np.zeros(len(labels), dtype=bool)
    for digit in range(CLASSES):
        members = rng.permutation(np.flatnonzero(labels == digit))
        held_out[members[: round(test_share * len(members))]] = True
    return Digits(images[~held_out], labels[~held_out]), Digits(images[held_out], labels[held_out])


def jitter(images: np.ndarray, rng: np.random.Generator, reach: float = 0.35) -> np.ndarray:
    """Shift every image by up to `reach` of a pixel each way, by linear interpolation.

    Shifts of a whole pixel are too much for images of 8 x 8: they cost accuracy.
    """
    n = len(images)
    framed = np.pad(images.reshape(n, SIDE, SIDE), ((0, 0), (1, 1), (1, 1)))
    down, right = rng.uniform(-reach, reach, (2, n, 1, 1)).astype(np.float32)
    rows = _blend(framed[:, 1:-1], framed[:, :-2], framed[:, 2:], down)
    moved = _blend(rows[:, :, 1:-1], rows[:, :, :-2], rows[:, :, 2:], right)
    return moved.reshape(n, SIDE * SIDE)


def _blend(
    here: np.ndarray, before: np.ndarray, after: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    share = np.abs(shift)
    return (1 - share) * here + share * np.where(shift > 0, before, after)
