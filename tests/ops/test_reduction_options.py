"""Reductions of other dtypes than their results, of NaN and of nothing; the most frequent element."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import tensor


def test_mean_of_integers_needs_a_dtype():
    x = tensor([1, 2])
    assert x.mean(dtype=plugrad.float64).item() == 1.5
    assert plugrad.mean(x, dtype=plugrad.float32).dtype == plugrad.float32
    with pytest.raises(TypeError, match=r"mean.*floating, got int64"):
        x.mean()


def test_logsumexp_of_integers_is_float32():
    out = plugrad.logsumexp(tensor([0, 1]), 0)
    assert out.dtype == plugrad.float32
    np.testing.assert_allclose(out.item(), np.logaddexp(0, 1), rtol=1e-6)


def test_norm_in_another_dtype():
    x = tensor([3.0, 4.0], requires_grad=True)
    out = plugrad.norm(x, dtype=plugrad.float64)
    assert out.dtype == plugrad.float64 and out.item() == 5
    out.backward()
    assert x.grad.dtype == plugrad.float32
    with pytest.raises(RuntimeError, match="dtype must be floating.*float64"):
        plugrad.norm(tensor(np.ones(2)), dtype=plugrad.float32)


@pytest.mark.parametrize("p", [math.inf, -math.inf, -1])
def test_norms_that_nothing_has_are_refused(p):
    for dim in (None, 0):
        with pytest.raises(RuntimeError, match="no elements"):
            plugrad.norm(plugrad.zeros(0, 3), p=p, dim=dim)
    assert plugrad.norm(plugrad.zeros(0, 3), p=p, dim=1).shape == (0,)


def test_other_norms_of_nothing_are_zero():
    assert [plugrad.norm(plugrad.zeros(0), p=p).item() for p in (0, 1, 2)] == [0, 0, 0]


def test_correction_none_is_one():
    x = tensor([1.0, 2.0, 4.0])
    assert x.var(correction=None).item() == x.var().item()
    assert x.std(correction=None).item() == x.std().item()


def test_a_narrower_product_has_the_gradient_of_a_wider_input():
    x = tensor(np.array([1.1, 2.2, 3.3]), requires_grad=True)
    plugrad.prod(x, dtype=plugrad.float32).backward()
    np.testing.assert_allclose(x.grad.numpy(), [7.26, 3.63, 2.42], rtol=1e-14)


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min"])
def test_elements_that_are_nan_share_the_gradient_of_nan(name):
    x = tensor([1.0, math.nan, 2.0, math.nan], requires_grad=True)
    getattr(plugrad, name)(x).backward()
    assert x.grad.tolist() == [0, 0.5, 0, 0.5]
    y = tensor([[1.0, math.nan], [3.0, 2.0]], requires_grad=True)
    getattr(plugrad, f"a{name.removeprefix('a')}")(y, dim=1).sum().backward()
    assert y.grad[0].tolist() == [0, 1]
    assert y.grad[1].sum().item() == 1


def test_mode():
    found = plugrad.mode(tensor([[3, 1, 1, 3, 2], [5, 4, 4, 5, 5]]), dim=1)
    assert (found.values.tolist(), found.indices.tolist()) == ([1, 5], [2, 4])
    x = tensor([2.0, 1.0, 2.0, 3.0], requires_grad=True)
    values, indices = x.mode(keepdim=True)
    values.sum().backward()
    assert (values.tolist(), indices.tolist()) == ([2], [2])
    assert x.grad.tolist() == [0, 0, 1, 0]


def test_mode_of_little():
    assert tuple(t.item() for t in plugrad.mode(tensor(4.0))) == (4, 0)
    assert plugrad.mode(tensor([1.0, math.nan, math.nan])).values.item() == 1
    assert plugrad.mode(plugrad.zeros(0, 3), dim=1).values.shape == (0,)
    with pytest.raises(RuntimeError, match="no elements"):
        plugrad.mode(plugrad.zeros(0, 3), dim=0)


def test_covariance_of_one_variable_and_of_integers():
    out = plugrad.cov(tensor([[1, 2, 4]]))
    assert out.shape == () and out.dtype == plugrad.float32
    np.testing.assert_allclose(out.item(), 7 / 3, rtol=1e-6)
    assert plugrad.corrcoef(tensor([[1, 2, 4]])).item() == 1
    assert plugrad.cov(tensor([[1, 2, 4], [1, 1, 2]])).shape == (2, 2)
