"""Sums of arrays of any layout: exact to the last places, the same bits with any number of threads."""

import itertools
import math

import numpy as np
import pytest

from plugrad import get_num_threads, set_num_threads
from plugrad.backends.sums import add_reduce

SHAPES = [
    (7,),
    (300,),
    (3, 4),
    (1000, 3),
    (3, 1000),
    (40, 50),
    (5, 1, 7),
    (2, 3, 4, 5),
    (17, 400, 5),
]


def layouts(x):
    yield x
    yield np.asfortranarray(x)
    yield x[::-1]
    yield np.repeat(x, 2, axis=-1)[..., ::2]
    yield np.broadcast_to(x, (3, *x.shape))
    yield np.swapaxes(x, 0, -1)


def axes_of(x):
    several = (itertools.combinations(range(x.ndim), n) for n in range(1, x.ndim + 1))
    return [None, *itertools.chain.from_iterable(several)]


@pytest.fixture
def threads():
    before = get_num_threads()
    yield set_num_threads
    set_num_threads(before)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_dimensions_of_any_layout(shape, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    x = (x + 1j * rng.standard_normal(shape)).astype(dtype) if dtype[0] == "c" else x.astype(dtype)
    close = 2e-7 if dtype in ("f4", "c8") else 1e-15
    for array in layouts(x):
        for axis in axes_of(array):
            for keep in (False, True):
                expected = np.sum(array.astype("c16"), axis=axis, keepdims=keep)
                found = np.asarray(add_reduce(array, axis, None, keep))
                assert found.shape == expected.shape and found.dtype == array.dtype
                scale = np.sum(np.abs(array.astype("c16")), axis=axis, keepdims=keep)
                assert np.all(np.abs(found - expected) <= 4 * close * scale + 1e-300)


@pytest.mark.parametrize("dtype, ulps", [("f8", 1.0), ("f4", 1.0)])
@pytest.mark.parametrize("n", [100, 1000, 10**4, 10**6 + 3])
def test_long_runs_are_exact_to_the_last_place(n, dtype, ulps):
    x = np.random.default_rng(n).random(n).astype(dtype)
    exact = math.fsum(x.tolist())
    for array in (x, np.repeat(x, 2)[::2], x.reshape(1, n), x[:, None]):
        found = float(add_reduce(array))
        assert abs(found - exact) <= ulps * float(np.spacing(np.array(exact, dtype)))


def test_a_part_of_a_run_does_not_swallow_the_others():
    nothing = np.zeros(9000)
    x = np.concatenate([[1e16], nothing, np.ones(99_999), nothing, [-1e16]])
    assert add_reduce(np.tile(x, (4, 1)), 1).tolist() == [99_999.0] * 4


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "shape", [(300_000,), (3, 70_000), (70_000, 3), (700, 800), (20, 50, 300)], ids=str
)
def test_threads_do_not_change_a_bit(shape, dtype, threads):
    x = np.random.default_rng(2).standard_normal(shape).astype(dtype)
    for array in (x, np.asfortranarray(x)):
        for axis in axes_of(array):
            found = []
            for n in (1, 2, 3, 2):
                threads(n)
                found.append(np.asarray(add_reduce(array, axis)))
            assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [3, 20, 500, 50_000])
def test_infinities_and_nan(n, dtype):
    inf, nan = math.inf, math.nan
    for marks, total in (
        ((inf,), inf),
        ((-inf,), -inf),
        ((inf, -inf), nan),
        ((nan,), nan),
        ((inf, inf), inf),
    ):
        x = np.ones(n, dtype)
        x[-len(marks) :] = marks
        assert np.array_equal(add_reduce(x), total, equal_nan=True)
        assert np.array_equal(add_reduce(np.tile(x, (9, 1)).T, 0), [total] * 9, equal_nan=True)
    largest = np.finfo("f8").max
    assert add_reduce(np.full(n, largest)) == inf


def test_nothing_and_one_number():
    assert add_reduce(np.ones((0, 3)), 0).tolist() == [0, 0, 0]
    assert add_reduce(np.ones((3, 0)), 1).tolist() == [0, 0, 0]
    assert add_reduce(np.array(2.0)) == 2.0
    assert add_reduce(np.float32(2.0)) == 2.0
    x = np.arange(3.0)
    assert add_reduce(x, ()).tolist() == [0, 1, 2]  # as NumPy: no dimension, not all
    with pytest.raises(ValueError):
        add_reduce(x, (0, 0))


@pytest.mark.parametrize("n", [3, 8, 9, 100, 129, 5000])
def test_parts_may_leave_the_range_of_float32(n):
    x = np.resize(np.array([3e38, 3e38, -3e38, -3e38], np.float32), n)
    x[n // 4 * 4 :] = 1e38
    expected = x.astype(np.float64).sum()
    for array, axis in ((x, 0), (np.stack([x] * 20, 1), 0), (np.stack([x] * 20), 1)):
        found = add_reduce(array, axis)
        np.testing.assert_allclose(
            found, np.full(found.shape, np.float32(expected)), rtol=1e-6, atol=1e31
        )
