"""Order statistics, medians and quantiles: values, ties, NaN, gradients, what bad input says."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, ops

NAN = math.nan


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype), requires_grad=True)


def gradient(out, x):
    return plugrad.autograd.grad(out.sum(), [x])[0].tolist()


# ---- by rank -------------------------------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_few_and_many_ranks_are_those_of_a_stable_sort(data):
    rows, n = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 40))
    numbers = st.sampled_from([0.0, 1.0, 2.0, 2.0, -1.0, NAN, math.inf])
    x = np.array(data.draw(st.lists(numbers, min_size=rows * n, max_size=rows * n))).reshape(
        rows, n
    )
    count = data.draw(st.integers(1, 6))
    ranks = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=rows * count, max_size=rows * count)))  # fmt: skip
    ranks = ranks.reshape(rows, count)
    values, indices = ops.order_statistic(Tensor(x), Tensor(ranks), dim=1)
    order = np.argsort(x, axis=1, kind="stable")
    np.testing.assert_array_equal(indices.array, np.take_along_axis(order, ranks, 1))
    np.testing.assert_array_equal(values.array, np.take_along_axis(np.sort(x, 1), ranks, 1))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_one_rank_is_found_in_any_layout(dtype):
    rng = np.random.default_rng(7)
    for shape in [(1,), (50,), (6, 40), (40, 6), (3, 30, 4), (300, 200)]:
        for kinds in (5, 10**6):  # many ties, and hardly any
            x = rng.integers(0, kinds, shape).astype(dtype)
            x[rng.random(shape) < 0.1] = NAN
            for layout in (x, np.asfortranarray(x), x[::-1], np.repeat(x, 2, axis=-1)[..., ::2]):
                for dim in range(x.ndim):
                    n = shape[dim]
                    ranks = rng.integers(-n, n, [1 if d == dim else m for d, m in enumerate(shape)])
                    found = ops.order_statistic(plugrad.from_numpy(layout), Tensor(ranks), dim=dim)
                    expected = ops.order_statistic.function(layout, ranks, dim=dim)
                    for a, b in zip(found, expected, strict=True):
                        np.testing.assert_array_equal(a.array, b, strict=True)


@pytest.mark.parametrize("row", [np.zeros, np.arange, lambda n: -abs(np.arange(n) - n / 2)])
def test_no_order_of_the_elements_takes_long(row):
    x = np.asarray(
        row(200_000), np.float64
    )  # where time grew with the square this would take minutes
    assert ops.median(Tensor(x), 0).values.item() == np.sort(x)[(x.size - 1) // 2]


def test_ranks_outside_are_refused_for_one_as_for_many():
    for rank in (4, -5):
        with pytest.raises(IndexError, match="between -4 and 3"):
            ops.order_statistic(leaf(range(4)), Tensor(np.array([rank])), dim=0)


def test_kthvalue():
    x = leaf([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
    found = x.kthvalue(2)
    assert found.values.tolist() == [2.0, 5.0]
    assert found.indices.tolist() == [2, 2]
    assert gradient(found.values, x) == [[0, 0, 1], [0, 0, 1]]
    assert plugrad.kthvalue(x, 1, 0, keepdim=True).values.tolist() == [[3.0, 1.0, 2.0]]
    assert plugrad.kthvalue(plugrad.tensor(7), 1).values.tolist() == 7
    with pytest.raises(RuntimeError, match="k must lie between 1 and 3, .* got 4"):
        plugrad.kthvalue(x, 4)


# ---- medians -------------------------------------------------------------------------------------------------


def test_median_takes_the_lower_middle():
    x = leaf([[4.0, 1.0, 3.0, 2.0]])
    assert x.median().item() == 2.0
    values, indices = x.median(1)
    assert (values.tolist(), indices.tolist()) == ([2.0], [3])
    assert plugrad.median(x, dim=-1, keepdim=True).values.shape == (1, 1)


def test_ties_share_the_gradient_of_the_whole_median_only():
    x = leaf([1.0, 2.0, 2.0, 3.0])
    assert gradient(x.median(), x) == [0, 0.5, 0.5, 0]
    assert gradient(x.median(0).values, x) == [0, 1, 0, 0]


def test_a_median_with_nan_is_nan_and_its_gradient_goes_there():
    x = leaf([[1.0, NAN, NAN], [3.0, 1.0, 2.0]])
    values, indices = x.median(1)
    assert math.isnan(values.tolist()[0])
    assert indices.tolist() == [1, 2]
    assert gradient(x.median(), x) == [[0, 0.5, 0.5], [0, 0, 0]]


def test_nanmedian_leaves_nan_out():
    x = leaf([[5.0, NAN, 3.0, 4.0, 9.0], [NAN, 1.0, NAN, NAN, NAN], [NAN] * 5])
    values, indices = x.nanmedian(1)
    assert values.tolist()[:2] == [4.0, 1.0]
    assert math.isnan(values.tolist()[2])
    assert indices.tolist()[:2] == [3, 1]
    assert x.nanmedian().item() == 4.0


def test_medians_of_integers_are_integers():
    x = plugrad.tensor([5, 1, 4, 2])
    assert x.median().dtype == np.int64
    assert (x.median().item(), x.median(0).values.item(), x.nanmedian().item()) == (2, 2, 2)


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_there_must_be_something_to_choose_from(name):
    x = Tensor(np.zeros((0, 3)))
    with pytest.raises(RuntimeError, match="no elements"):
        getattr(plugrad, name)(x)
    with pytest.raises(RuntimeError, match=f"{name}.*no elements in dim=0"):
        getattr(plugrad, name)(x, 0)
    assert getattr(plugrad, name)(x, 1).values.shape == (0,)


# ---- quantiles -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
@pytest.mark.parametrize("q", [0.0, 0.2, 0.37, 0.5, 1.0])
def test_quantiles_agree_with_numpy(method, q):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((4, 6))
    for dim in (None, 0, -1):
        out = plugrad.quantile(Tensor(x), q, dim, interpolation=method)
        np.testing.assert_allclose(
            out.array, np.quantile(x, q, axis=dim, method=method), rtol=1e-13
        )
    x[1, :3], x[2] = NAN, NAN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of a row of NaN
        expected = np.nanquantile(x, q, axis=1, method=method)
    out = plugrad.nanquantile(Tensor(x), q, 1, interpolation=method)
    np.testing.assert_allclose(out.array, expected, rtol=1e-13)
    assert np.isnan(plugrad.quantile(Tensor(x), q, 1).array).tolist() == [False, True, True, False]


def test_several_quantiles_stand_in_front():
    x, q = leaf([[0.0, 10.0], [4.0, 20.0], [1.0, 30.0]]), leaf([0.25, 0.5, 0.75])
    out = x.quantile(q, dim=0)
    assert out.tolist() == [[0.5, 15.0], [1.0, 20.0], [2.5, 25.0]]
    assert plugrad.quantile(x, q, 0, keepdim=True).shape == (3, 1, 2)
    assert plugrad.quantile(x, q, keepdim=True).shape == (3, 1, 1)
    assert plugrad.quantile(x, 0.5, keepdim=True).shape == (1, 1)
    assert gradient(out[0], x) == [[0.5, 0.5], [0, 0.5], [0.5, 0]]


def test_quantiles_are_differentiable_in_their_share():
    x, q = leaf([0.0, 10.0, 30.0]), leaf(0.75)
    assert gradient(plugrad.quantile(x, q), q) == 2 * 20.0


def test_quantile_refuses():
    x = leaf([1.0, 2.0])
    for q in (1.5, -0.1, NAN, leaf([0.5, 2.0])):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            plugrad.quantile(x, q)
    with pytest.raises(RuntimeError, match="at most 1 dimension"):
        plugrad.quantile(x, leaf([[0.5]]))
    with pytest.raises(RuntimeError, match="must be floating, got int64"):
        plugrad.quantile(plugrad.tensor([1, 2]), 0.5)
    with pytest.raises(RuntimeError, match="interpolation must be one of linear"):
        plugrad.quantile(x, 0.5, interpolation="cubic")
