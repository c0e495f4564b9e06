"""Random operators against PyTorch's: shape, dtype, mean, spread and, where there are few values, which ones."""

import numpy as np
import pytest
from table_random import LIKE, RANDOM

pytest.importorskip("torch", reason="PyTorch is not installed")

from harness import Plugrad, Torch, found


def drawn(library, path):
    like, function = RANDOM[path]
    library.lib.manual_seed(3)
    return library.numpy(function(library.lib, library.tensor(LIKE[like].copy(), False)))


@pytest.mark.parametrize(
    "path", [p for p in RANDOM if found(Plugrad, p) is not None and found(Torch, p) is not None]
)
def test_distribution(path):
    got, expected = drawn(Plugrad, path), drawn(Torch, path)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    if got.size < 10:
        return
    values = np.unique(expected)
    if len(values) < 10:
        np.testing.assert_allclose(np.unique(got), values, rtol=1e-6)
    # Whole channels are dropped together, so that there are fewer numbers than elements.
    count = got.size if "1d" not in path and "feature" not in path else got.shape[0] * got.shape[1]
    spread = expected.std() + 1e-12
    assert abs(got.mean(dtype=float) - expected.mean(dtype=float)) < 7 * spread / np.sqrt(count)
    assert abs(got.std(dtype=float) / spread - 1) < 0.2 if len(values) > 10 else True
    for q in (0.1, 0.5, 0.9):
        low, high = np.quantile(expected, [max(q - 0.03, 0), min(q + 0.03, 1)])
        slack = 1e-5 * spread
        assert low - slack <= np.quantile(got, q) <= high + slack
