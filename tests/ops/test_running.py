"""Running extremes and logcumsumexp: positions at ties and NaN, infinities, gradients of any order."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, ops

INF, NAN = math.inf, math.nan


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype), requires_grad=True)


def gradient(out, x, seed=None):
    seed = plugrad.ones_like(out) if seed is None else leaf(seed).detach()
    return plugrad.autograd.grad(out, [x], seed)[0].tolist()


def test_of_equal_elements_the_last_counts():
    x = leaf([1.0, 3.0, 3.0, 2.0, 3.0])
    values, indices = x.cummax(0)
    assert values.tolist() == [1, 3, 3, 3, 3]
    assert indices.tolist() == [0, 1, 2, 2, 4]
    assert gradient(values, x) == [1, 1, 2, 0, 1]
    assert plugrad.cummin(-x, 0).indices.tolist() == [0, 1, 2, 2, 4]


def test_from_the_first_nan_on_all_are_nan():
    for function in (plugrad.cummax, plugrad.cummin):
        values, indices = function(leaf([1.0, NAN, 7.0, NAN, -7.0]), 0)
        assert np.isnan(values.array).tolist() == [False, True, True, True, True]
        assert indices.tolist() == [0, 1, 1, 3, 3]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32"])
def test_running_extremes_keep_the_dtype(dtype):
    x = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    for dim in (0, 1, -1):
        values, indices = plugrad.cummax(Tensor(x), dim)
        assert values.dtype == x.dtype
        assert indices.dtype == np.int64
        np.testing.assert_array_equal(values.array, np.maximum.accumulate(x, axis=dim))


def test_running_extremes_of_next_to_nothing():
    assert [t.tolist() for t in plugrad.cummax(leaf(3.0), 0)] == [3.0, 0]
    assert [t.shape for t in plugrad.cummin(leaf(np.zeros((0, 2))), 0)] == [(0, 2)] * 2
    with pytest.raises(IndexError, match="out of range"):
        plugrad.cummax(leaf([1.0]), 1)


# ---- logcumsumexp --------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_logcumsumexp_is_logsumexp_so_far(numbers):
    x = leaf(numbers)
    out = plugrad.logcumsumexp(x, 0)
    parts = [ops.logsumexp(x[: i + 1], dim=0) for i in range(len(numbers))]
    np.testing.assert_allclose(out.array, [p.item() for p in parts], rtol=1e-13, atol=1e-13)
    seed = np.cos(np.arange(len(numbers)))
    wanted = plugrad.autograd.grad(sum(p * float(s) for p, s in zip(parts, seed)), [x])[0]
    np.testing.assert_allclose(gradient(out, x, seed), wanted.array, rtol=1e-11, atol=1e-13)


def test_infinities_share_and_the_empty_sum_has_no_gradient():
    x = leaf([-INF, -INF, 1.0, INF, 2.0, INF])
    out = x.logcumsumexp(0)
    assert out.tolist() == [-INF, -INF, 1.0, INF, INF, INF]
    # at 3 and 4 the one infinity has all of it, at 5 each half
    assert gradient(out, x, [1.0, 10.0, 100.0, 1.0, 10.0, 100.0]) == [0, 0, 100, 61, 0, 50]


def test_second_order_of_logcumsumexp():
    x = leaf([0.3, -INF, 1.0])
    (first,) = plugrad.autograd.grad(plugrad.logcumsumexp(x, 0)[2], [x], create_graph=True)
    (second,) = plugrad.autograd.grad(first[0], [x])
    p = 1 / (1 + math.exp(0.7))
    np.testing.assert_allclose(second.array, [p * (1 - p), 0, -p * (1 - p)], rtol=1e-14)


# ---- sums and products in another dtype, recurrences ---------------------------------------------------------


def test_running_sums_in_another_dtype():
    x = leaf([1.0, 2.0, 3.0], np.float32)
    out = plugrad.cumsum(x, 0, dtype=plugrad.float64)
    assert out.dtype == np.float64
    assert gradient(out, x) == [3, 2, 1]
    assert plugrad.cumprod(plugrad.tensor([2, 3]), 0, dtype=plugrad.float32).tolist() == [2.0, 6.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_recurrence_along_any_dimension(dtype, dim):
    rng = np.random.default_rng(3)
    factor, term = (rng.uniform(-1, 1, (3, 4, 5)).astype(dtype) for _ in range(2))
    out = ops.linear_scan(Tensor(factor.T.copy().T), Tensor(term), dim=dim).array
    assert out.dtype == np.dtype(dtype)
    steps, factors = (np.moveaxis(x.astype(np.float64), dim, 0) for x in (term, factor))
    state, wanted = np.zeros_like(steps[0]), []
    for f, t in zip(factors, steps):
        state = f * state + t
        wanted.append(state)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(np.moveaxis(out, dim, 0), wanted, rtol=4 * eps, atol=4 * eps)


# ---- running sums and products ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(5,), (1, 4), (3, 1), (20, 30), (9, 1500), (1500, 9), (3, 4, 5)])
def test_running_sums_in_any_layout(shape, dtype):
    rng = np.random.default_rng(7)
    x = rng.standard_normal(shape).astype(dtype)
    if x.dtype.kind == "c":
        x += 1j * rng.standard_normal(shape).astype(dtype)
    close = 1e-12 if dtype in (np.float64, np.complex128) else 1e-5
    for array in (x, np.asfortranarray(x), x[::-1], np.swapaxes(x, 0, -1)):
        for dim in range(array.ndim):
            leaf = plugrad.from_numpy(array).requires_grad_()
            out = ops.cumsum(leaf, dim=dim)
            wide = np.cumsum(array.astype(np.complex128), axis=dim)
            np.testing.assert_allclose(out.detach().numpy(), wide, rtol=close, atol=close * 30)
            seed = rng.standard_normal(out.shape).astype(dtype)
            (grad,) = plugrad.autograd.grad(out, [leaf], Tensor(seed))
            back = np.flip(np.cumsum(np.flip(seed.astype(np.complex128), dim), axis=dim), dim)
            np.testing.assert_allclose(grad.numpy(), back, rtol=close, atol=close * 30)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_running_products_in_any_layout(dtype):
    x = (1 + 0.01 * np.random.default_rng(8).standard_normal((40, 30))).astype(dtype)
    for array in (x, np.asfortranarray(x), x[::-1]):
        for dim in (0, 1):
            out = ops.cumprod(plugrad.from_numpy(array), dim=dim).numpy()
            np.testing.assert_allclose(out, np.cumprod(array.astype("f8"), axis=dim), rtol=1e-6)
