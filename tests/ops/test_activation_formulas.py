"""Activations that are expressions: values, every path of the CPU, kinks, overflow, parameters, errors."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor, ops

SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772
FORMULAS = {
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "selu": lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "hardshrink": lambda x: x * (np.abs(x) > 0.5),
    "threshold": lambda x: x * (x > 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x),
}


def gradient(function, x):
    return plugrad.autograd.grad(function(x).sum(), [x])[0].array


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype), requires_grad=True)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("length", [4, 20_000])
def test_every_path_gives_the_same(name, length):
    x = np.random.default_rng(0).normal(size=2 * length) * 3
    operator, wanted = getattr(ops, name), FORMULAS[name](x)
    np.testing.assert_allclose(operator(Tensor(x)).array, wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(operator(Tensor(x[::2])).array, wanted[::2], rtol=1e-12, atol=1e-14)
    narrow = operator(Tensor(x.astype(np.float32)))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow.array, wanted, rtol=1e-4, atol=1e-5)
    whole, part = leaf(x), leaf(x[:4])
    slopes = gradient(operator, whole)
    (rule,) = plugrad.autograd.grad(operator(whole).sum(), [whole], create_graph=True)
    np.testing.assert_allclose(slopes, rule.array, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradient(operator, part), slopes[:4], rtol=1e-12, atol=1e-14)


def test_kinks_take_the_smaller_slope():
    assert gradient(ops.hardsigmoid, leaf([-3, 3])).tolist() == [0, 0]
    assert gradient(ops.hardswish, leaf([-3, 3])).tolist() == [0, 1]
    assert gradient(ops.selu, leaf([0])).tolist() == [SCALE]
    assert gradient(ops.softshrink, leaf([-0.5, 0, 0.5, 0.75])).tolist() == [0, 0, 0, 1]
    assert gradient(ops.hardshrink, leaf([-0.5, 0.5, 0.75])).tolist() == [0, 0, 1]
    assert gradient(lambda x: ops.threshold(x, 0.5, 2.0), leaf([0.5, 1])).tolist() == [0, 1]
    assert gradient(ops.softsign, leaf([0])).tolist() == [1]


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nothing_overflows(name, dtype):
    far = float(np.finfo(dtype).max) / 8
    x = leaf([-far, -1e3, 1e3, far], dtype)
    out = getattr(ops, name)(x)
    assert out.dtype == dtype
    assert np.isfinite(out.array).all()
    slopes = gradient(getattr(ops, name), x)
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("name", FORMULAS)
def test_nan_stays_nan(name):
    assert np.isnan(getattr(ops, name)(Tensor(np.array([np.nan, 1.0]))).array[0])


def test_small_slopes_keep_their_digits():
    x = np.array([1e-4, 1e-3], np.float32)
    np.testing.assert_allclose(gradient(ops.tanhshrink, leaf(x, np.float32)), x * x, rtol=1e-5)
    far = leaf([1e6], np.float32)
    np.testing.assert_allclose(gradient(ops.softsign, far), [1e-12], rtol=1e-5)


def test_constants():
    x = np.array([-2.0, -0.3, 0.3, 2.0])
    t = Tensor(x)
    np.testing.assert_allclose(F.celu(t, 0.5).array, np.where(x > 0, x, 0.5 * np.expm1(x / 0.5)))
    np.testing.assert_allclose(F.softshrink(t, 0.25).array, [-1.75, -0.05, 0.05, 1.75])
    np.testing.assert_allclose(F.hardshrink(t, 1.0).array, [-2, 0, 0, 2])
    np.testing.assert_allclose(F.threshold(t, 0.3, -1.0).array, [-1, -1, -1, 2])
    with pytest.raises(RuntimeError, match="lambd must be at least 0"):
        F.softshrink(t, -1.0)
    with pytest.raises(RuntimeError, match="alpha must not be 0"):
        F.celu(t, 0.0)


def test_prelu_has_a_weight_per_channel():
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    weight = np.array([0.1, 0.2, 0.3])
    slopes = leaf(weight)
    out = F.prelu(Tensor(x), slopes)
    np.testing.assert_allclose(out.array, np.where(x > 0, x, weight[:, None] * x))
    out.sum().backward()
    np.testing.assert_allclose(slopes.grad.array, np.minimum(x, 0).sum((0, 2)))
    assert F.prelu(Tensor(np.array(-2.0)), Tensor(np.array([0.5]))).item() == -1
    with pytest.raises(RuntimeError, match="one per channel"):
        F.prelu(Tensor(x), Tensor(np.ones(4)))


def test_glu_and_softmin():
    x = np.random.default_rng(0).standard_normal((3, 4))
    np.testing.assert_allclose(F.glu(Tensor(x)).array, x[:, :2] / (1 + np.exp(-x[:, 2:])))
    with pytest.raises(RuntimeError, match="must be even"):
        F.glu(Tensor(x), 0)
    weights = np.exp(-x) / np.exp(-x).sum(1, keepdims=True)
    np.testing.assert_allclose(F.softmin(Tensor(x), 1).array, weights)
    with pytest.raises(TypeError, match="dim is required"):
        F.softmin(Tensor(x))


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_gradient_of_a_closed_gate_does_not_overflow(create_graph):
    x = Tensor(np.array([[3e38, -20.0], [1e38, 0.5]], np.float32), requires_grad=True)
    F.glu(x).backward(Tensor(np.array([[20.0], [5.0]], np.float32)), create_graph=create_graph)
    share = 1 / (1 + np.exp([20.0, -0.5]))
    np.testing.assert_allclose(x.grad.detach().numpy()[:, 0], [20, 5] * share, rtol=1e-5)
    slopes = [20 * 3e38, 5e38] * (share * (1 - share))
    np.testing.assert_allclose(x.grad.detach().numpy()[:, 1], slopes, rtol=1e-5)
