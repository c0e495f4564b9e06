"""Sums without NaN, pairs, distances, covariance, counts, differences and integrals."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, ops

NAN, INF = math.nan, math.inf


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype), requires_grad=True)


def gradient(out, x):
    return plugrad.autograd.grad(out.sum(), [x])[0].tolist()


RNG = np.random.default_rng(11)
MATRIX = RNG.standard_normal((3, 6))

# ---- without NaN ---------------------------------------------------------------------------------------------


def test_sums_and_means_without_nan():
    x = leaf([[1.0, NAN, 3.0], [NAN, NAN, NAN]])
    assert x.nansum().item() == 4.0
    assert plugrad.nansum(x, 1, keepdim=True).tolist() == [[4.0], [0.0]]
    assert x.nanmean().item() == 2.0
    means = plugrad.nanmean(x, dim=1).tolist()
    assert means[0] == 2.0
    assert math.isnan(means[1])
    assert gradient(x.nansum(), x) == [[1, 0, 1], [0, 0, 0]]
    assert plugrad.nansum(plugrad.tensor([True, True])).item() == 2
    with pytest.raises(RuntimeError, match="must be floating, got int64"):
        plugrad.nanmean(plugrad.tensor([1]))


def test_count_nonzero():
    x = leaf([[0.0, 1.0, NAN], [-0.0, 0.0, 2.0]])
    assert plugrad.count_nonzero(x).item() == 3
    assert x.count_nonzero(dim=(0,)).tolist() == [0, 1, 2]
    assert x.count_nonzero(1).dtype == np.int64


# ---- two at once ---------------------------------------------------------------------------------------------


def test_pairs():
    x = leaf(MATRIX)
    low, high = plugrad.aminmax(x, dim=1)
    np.testing.assert_array_equal(low.array, MATRIX.min(1))
    assert x.aminmax().max.item() == MATRIX.max()
    assert high.shape == (3,)
    for name, spread in (("var_mean", np.var), ("std_mean", np.std)):
        first, second = getattr(plugrad, name)(x, 1, correction=0, keepdim=True)
        np.testing.assert_allclose(first.array, spread(MATRIX, 1, keepdims=True), rtol=1e-13)
        np.testing.assert_allclose(second.array, MATRIX.mean(1, keepdims=True), rtol=1e-13)
        np.testing.assert_allclose(getattr(plugrad, name)(x, False)[0].array, spread(MATRIX))


# ---- norms ---------------------------------------------------------------------------------------------------


def test_norms_by_name_and_distances():
    x, y = leaf([3.0, 0.0]), leaf([0.0, 4.0])
    assert plugrad.norm(x, "fro").item() == 3.0
    assert plugrad.dist(x, y).item() == 5.0
    assert x.dist(y, INF).item() == 4.0
    assert gradient(plugrad.dist(x, x.detach(), 0.5), x) == [0, 0]
    with pytest.raises(ValueError, match="'nuc'"):
        plugrad.norm(x, "nuc")


def test_renorm_scales_what_is_too_long():
    x = leaf([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    out = x.renorm(2, 0, 1.0)
    np.testing.assert_allclose(out.array, [[0.6, 0.8], [0.3, 0.4], [0, 0]], rtol=1e-7)
    assert np.isfinite(gradient(out, x)).all()
    with pytest.raises(RuntimeError, match="2 dimensions"):
        plugrad.renorm(leaf([1.0]), 2, 0, 1.0)


# ---- covariance ----------------------------------------------------------------------------------------------


def test_covariances_agree_with_numpy():
    x, often = leaf(MATRIX), np.array([1, 2, 1, 3, 1, 2])
    weights = RNG.uniform(0.5, 2, 6)
    for given in ({}, {"fweights": often}, {"aweights": weights}, {"fweights": often, "aweights": weights}):  # fmt: skip
        tensors = {name: Tensor(value) for name, value in given.items()}
        for ddof in (0, 1):
            out = plugrad.cov(x, correction=ddof, **tensors)
            np.testing.assert_allclose(out.array, np.cov(MATRIX, ddof=ddof, **given), rtol=1e-12)
    assert plugrad.cov(leaf(MATRIX[0])).shape == ()
    with pytest.raises(RuntimeError, match="at most 2 dimensions"):
        plugrad.cov(leaf(np.zeros((2, 2, 2))))


def test_correlations_stay_within_one():
    out = plugrad.corrcoef(leaf(MATRIX)).array
    np.testing.assert_allclose(out, np.corrcoef(MATRIX), rtol=1e-12)
    assert np.all(np.abs(out) <= 1)
    assert plugrad.corrcoef(leaf(MATRIX[0])).item() == 1.0


# ---- counts --------------------------------------------------------------------------------------------------


def test_bincount():
    x = plugrad.tensor([1, 3, 1])
    assert x.bincount().tolist() == [0, 2, 0, 1]
    assert plugrad.bincount(x, minlength=6).shape == (6,)
    weights = leaf([0.5, 1.0, 2.0])
    out = plugrad.bincount(x, weights)
    assert out.tolist() == [0, 2.5, 0, 1]
    assert gradient(out * out, weights) == [5, 2, 5]
    with pytest.raises(RuntimeError, match="negative, got -1"):
        plugrad.bincount(plugrad.tensor([-1]))
    with pytest.raises(RuntimeError, match="one and the same dimension"):
        plugrad.bincount(x, weights[:2])


def test_histc_agrees_with_numpy():
    x = np.append(RNG.standard_normal(50), [-1.0, 1.0, NAN])
    for low, high in ((-1, 1), (0, 2), (-3, 0.5)):
        expected = np.histogram(x[:-1], 7, (low, high))[0]
        assert plugrad.histc(leaf(x), 7, low, high).tolist() == expected.tolist()
    whole = plugrad.histc(leaf(x[:-1]), 5)
    assert whole.tolist() == np.histogram(x[:-1], 5)[0].tolist()
    assert plugrad.histc(leaf([2.0, 2.0]), 4).tolist() == [0, 0, 2, 0]


# ---- differences and integrals -------------------------------------------------------------------------------


def test_differences():
    x = leaf(MATRIX)
    for n, dim in ((1, -1), (2, 1), (1, 0), (0, 0), (9, 1)):
        assert x.diff(n, dim).tolist() == np.diff(MATRIX, n, dim).tolist()
    ends = leaf(np.ones((3, 2)))
    out = plugrad.diff(x, prepend=ends, append=ends)
    assert out.tolist() == np.diff(MATRIX, prepend=ends.array, append=ends.array).tolist()
    assert plugrad.diff(plugrad.tensor([True, True, False])).tolist() == [False, True]
    assert plugrad.diff(plugrad.tensor([1, 4, 2])).tolist() == [3, -2]
    with pytest.raises(RuntimeError, match="at least 0"):
        x.diff(-1)


def test_integrals():
    x, points = leaf(MATRIX), np.sort(RNG.uniform(0, 3, 6))
    rule = np.trapezoid
    np.testing.assert_allclose(plugrad.trapezoid(x).array, rule(MATRIX), rtol=1e-13)
    np.testing.assert_allclose(plugrad.trapezoid(x, dx=0.5, dim=0).array, rule(MATRIX, dx=0.5, axis=0), rtol=1e-13)  # fmt: skip
    np.testing.assert_allclose(plugrad.trapz(x, Tensor(points)).array, rule(MATRIX, points), rtol=1e-12)  # fmt: skip
    running = plugrad.cumulative_trapezoid(x, Tensor(points))
    assert running.shape == (3, 5)
    np.testing.assert_allclose(running[:, -1].array, rule(MATRIX, points), rtol=1e-12)
    assert plugrad.trapezoid(plugrad.tensor([1, 2, 3])).item() == 4.0
    with pytest.raises(RuntimeError, match="give x or dx"):
        plugrad.trapezoid(x, Tensor(points), dx=1.0)
    with pytest.raises(RuntimeError, match="x has 2 points, y has 6 values"):
        plugrad.trapezoid(x, Tensor(points[:2]))


def test_products_are_differentiable_at_zeros_at_any_order():
    x = leaf([[2.0, 0.0, 0.0]])
    (first,) = plugrad.autograd.grad(ops.prod(x, dim=1), [x], create_graph=True)
    (second,) = plugrad.autograd.grad(first[0, 1], [x], create_graph=True)
    (third,) = plugrad.autograd.grad(second[0, 2], [x])
    assert (first.tolist(), second.tolist(), third.tolist()) == (
        [[0, 0, 0]],
        [[0, 0, 2]],
        [[1, 0, 0]],
    )
