"""Sorting rows, with the stable indices that sort them."""

import numpy as np
import pytest

from plugrad.backends.cuda.array import from_host, to_host, view_by
from plugrad.backends.cuda.sort import sort_rows

pytestmark = pytest.mark.usefixtures("cuda")


def keys(rng, shape, dtype):
    """Few different keys, so that many are equal; NaN and both infinities among floating ones."""
    x = rng.integers(0, 2 if dtype == "bool" else 20, size=shape).astype(dtype)
    if x.dtype.kind == "f" and x.size:
        for special in (np.nan, np.inf, -np.inf, -0.0):
            x[rng.random(shape) < 0.05] = special
    return x


def stable_order(x, descending):
    if not descending:
        return np.argsort(x, axis=1, kind="stable")
    turned = np.argsort(x[:, ::-1], axis=1, kind="stable")
    return x.shape[1] - 1 - turned[:, ::-1]


# In shared memory, and beyond: 2048 keys are a tile.
SHAPES = [
    (1, 1), (3, 2), (4, 5), (40, 32), (7, 33), (5, 255), (3, 1000), (2, 2048), (2, 2049), (3, 5000), (1, 20000),
    (0, 4), (4, 0),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i8"])
@pytest.mark.parametrize("descending", [False, True])
def test_rows_are_sorted(rng, shape, dtype, descending):
    x = keys(rng, shape, dtype)
    values, order = map(to_host, sort_rows(from_host(x), descending))
    wanted = stable_order(x, descending)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(order, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


@pytest.mark.parametrize("dtype", ["bool", "i1", "i2", "i4", "u1", "u2", "u4", "u8", "f8"])
def test_dtypes(rng, dtype):
    x = keys(rng, (3, 77), dtype)
    values, order = map(to_host, sort_rows(from_host(x)))
    assert values.dtype == x.dtype
    np.testing.assert_array_equal(order, stable_order(x, False))
    np.testing.assert_array_equal(values, np.sort(x, axis=1))


def test_extreme_integers():
    for dtype in ("i8", "u8"):
        info = np.iinfo(dtype)
        x = np.array([[info.max, info.min, 3, info.max - 1, info.min + 1]], dtype)
        np.testing.assert_array_equal(to_host(sort_rows(from_host(x))[0]), np.sort(x, axis=1))


@pytest.mark.parametrize("n", [100, 5000])
def test_order_of_threads_does_not_matter(rng, n):
    a = from_host(keys(rng, (2, n), "f4"))
    emulator = pytest.importorskip("plugrad_emulator")
    emulator.in_every_order(lambda: tuple(map(to_host, sort_rows(a))), shuffles=1)


def test_refused(rng):
    a = from_host(np.zeros((3, 4), "f4"))
    with pytest.raises(ValueError, match="two dimensions in C order"):
        sort_rows(view_by(np.transpose, a))
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        sort_rows(from_host(np.zeros(3)))
    with pytest.raises(TypeError, match="complex64 has no order"):
        sort_rows(from_host(np.zeros((3, 4), "c8")))
