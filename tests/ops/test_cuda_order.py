"""Order statistics and running extremes on the device: every layout, long lines, ties and NaN as on the CPU."""

import numpy as np
import pytest

import plugrad
from plugrad.registry.cuda import kernel_for


def random(shape, dtype, seed=0):
    """Few different values, so that many tie; some NaN among floats."""
    rng = np.random.default_rng([seed, *shape])
    x = rng.integers(0, 9, shape).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(shape) < 0.05] = np.nan
    return x


def both(device, name, *arrays, **constants):
    operator = getattr(plugrad.ops, name)
    kernel = kernel_for(operator)
    got = [device.down(x) for x in kernel(*map(device.up, arrays), **constants)]
    with np.errstate(all="ignore"):
        wanted = operator.function(*arrays, **constants)
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int64", "bool"])
@pytest.mark.parametrize("name", ["running_max", "running_min"])
def test_running_extremes(device, name, dtype):
    for shape, dim in [((1,), 0), ((70,), 0), ((5, 33), 1), ((40, 3, 2), 0), ((), 0), ((0, 2), 0)]:
        both(device, name, random(shape, dtype), dim=dim)


@pytest.mark.parametrize("name", ["running_max", "running_min"])
def test_running_extremes_over_several_blocks(device, name):
    x = np.random.default_rng(1).integers(0, 10**6, 9000).astype(np.float32)
    both(device, name, x, dim=0)
    both(device, name, -np.abs(np.arange(9000.0) - 5000), dim=0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "bool"])
def test_order_statistics(device, dtype):
    rng = np.random.default_rng(2)
    for shape, dim in [((9,), 0), ((4, 30), 1), ((30, 4), 0), ((3, 20, 2), 1)]:
        x = random(shape, dtype)
        for count in (1, 5):
            size = [count if d == dim else n for d, n in enumerate(shape)]
            ranks = rng.integers(-shape[dim], shape[dim], size)
            both(device, "order_statistic", x, ranks, dim=dim)
            both(device, "order_statistic", x[::-1], ranks[::-1], dim=dim)


def test_ranks_outside_are_refused(device):
    operator = plugrad.ops.order_statistic
    with pytest.raises(IndexError):
        device.run(kernel_for(operator), np.zeros(3), np.array([3]), dim=0)
