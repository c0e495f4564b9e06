"""CUDA kernels that expressions of one line do not describe: whole numbers, replaced infinities, bounds of logit."""

import numpy as np
import pytest

import plugrad
from plugrad.registry.cuda import kernel_for

WHOLE = [0, 1, 2, 3, 7, 12, 63, 64, 100, -1, -2, -12, -100]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
@pytest.mark.parametrize("name", ["gcd", "lcm", "bitwise_left_shift", "bitwise_right_shift"])
def test_whole_numbers_of_every_width(device, name, dtype):
    limits = np.iinfo(dtype)
    values = [v for v in WHOLE if v >= limits.min] + [limits.max]
    a, b = (x.reshape(-1) for x in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))
    operator = getattr(plugrad.ops, name)
    got = device.run(kernel_for(operator), a, b)
    assert got.dtype == a.dtype
    np.testing.assert_array_equal(got, operator.function(a, b))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_infinities_are_replaced_by_the_limits_of_the_dtype(device, dtype):
    operator = plugrad.ops.nan_to_num
    x = np.array([np.nan, np.inf, -np.inf, 1.5], dtype)
    for constants in ({}, {"nan": 2.0, "posinf": 3.0}, {"neginf": -1.0}):
        every = {**operator.schema.defaults, **constants}
        got = device.run(kernel_for(operator), x, **every)
        np.testing.assert_array_equal(got, operator.function(x, **every))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logit_between_bounds(device, dtype):
    operator = plugrad.ops.logit
    x = np.array([-1.0, 0.0, 0.1, 0.5, 0.9, 1.0, np.nan], dtype)
    for eps in (None, 0.1, 0.4):
        got = device.run(kernel_for(operator), x, eps=eps)
        with np.errstate(all="ignore"):
            wanted = operator.function(x, eps=eps)
        np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(dtype).eps, atol=1e-7)


@pytest.mark.parametrize("order", [0, 1, 2, 5])
@pytest.mark.parametrize("name", ["polygamma_of_order", "sinc_derivative", "bessel_i"])
def test_families_of_functions(device, name, order):
    operator = getattr(plugrad.ops, name)
    x = np.array([0.3, -0.3, 1.0, 2.5, -7.7, 30.0])
    got = device.run(kernel_for(operator), x, **{**operator.schema.defaults, "order": order})
    wanted = operator.function(x, **{**operator.schema.defaults, "order": order})
    np.testing.assert_allclose(got, wanted, rtol=1e-14)
    with pytest.raises(ValueError, match="0 or greater"):
        device.run(kernel_for(operator), x, order=-1)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_divisors_of_the_least_integer(cuda, name, dtype):
    least = np.iinfo(dtype).min
    left = np.array([least, least, least, 7, 0], dtype)
    right = np.array([7, least, 0, least, least], dtype)
    found = getattr(plugrad, name)(*(plugrad.tensor(x, device="cuda") for x in (left, right)))
    np.testing.assert_array_equal(found.cpu().numpy(), getattr(np, name)(left, right))
