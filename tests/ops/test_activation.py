"""Activation functions: values against float64 formulas, kinks, overflow, dtypes, softmax with infinities."""

import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, ops

ERFC = np.vectorize(math.erfc, otypes=[np.float64])


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def gradient(function, x):
    """Gradient of the sum of ``function(x)``, as an array."""
    return plugrad.autograd.grad(function(x).sum(), [x])[0].array


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


FORMULAS = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "gelu": lambda x: x * 0.5 * ERFC(-x / math.sqrt(2)),
    "silu": lambda x: x * sigmoid(x),
    "logsigmoid": lambda x: -np.log1p(np.exp(-x)),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "relu6": lambda x: np.clip(x, 0, 6),
}


@pytest.mark.parametrize("name", FORMULAS)
@given(
    x=hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_side=6), elements=st.floats(-15, 15))
)
@settings(max_examples=30, deadline=None)
def test_values(name, x):
    out = getattr(ops, name)(Tensor(x))
    np.testing.assert_allclose(out.array, FORMULAS[name](x), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("length", [4, 5000])
def test_every_path_gives_the_same(name, length):
    """Loops for short and long arrays, strided input and float32 agree with each other."""
    x = np.random.default_rng(0).normal(size=2 * length) * 3
    operator = getattr(ops, name)
    expected = operator(Tensor(x)).array
    np.testing.assert_allclose(
        operator(Tensor(x[::2])).array, expected[::2], rtol=1e-14, atol=1e-300
    )
    np.testing.assert_allclose(operator(Tensor(x[:4])).array, expected[:4], rtol=1e-14, atol=1e-300)
    narrow = operator(Tensor(x.astype(np.float32)))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow.array, expected, rtol=2e-5, atol=1e-6)


def test_gelu_tanh_form():
    x = np.linspace(-5, 5, 41)
    np.testing.assert_allclose(
        ops.gelu(Tensor(x), approximate="tanh").array, gelu_tanh(x), rtol=1e-12, atol=1e-15
    )
    with pytest.raises(ValueError, match="approximate"):
        ops.gelu(Tensor(x), approximate="erf")


def test_constants():
    x = np.array([-2.0, -0.5, 0.5, 2.0])
    t = Tensor(x)
    np.testing.assert_allclose(ops.leaky_relu(t, 0.2).array, np.where(x > 0, x, 0.2 * x))
    np.testing.assert_allclose(ops.elu(t, alpha=0.5).array, np.where(x > 0, x, 0.5 * np.expm1(x)))
    np.testing.assert_allclose(ops.softplus(t, beta=2).array, np.log1p(np.exp(2 * x)) / 2)
    np.testing.assert_allclose(
        ops.softplus(t, threshold=1.0).array, np.where(x > 1, x, np.log1p(np.exp(x)))
    )
    np.testing.assert_allclose(ops.hardtanh(t, -1, 0.25).array, np.clip(x, -1, 0.25))


# ------------------------------------------------------------------------------ gradients


def test_kinks():
    assert gradient(ops.relu, leaf([-1, 0, 1])).tolist() == [0, 0, 1]
    assert gradient(ops.relu6, leaf([-1, 0, 3, 6, 7])).tolist() == [0, 0, 1, 0, 0]
    assert gradient(ops.hardtanh, leaf([-2, -1, 0, 1, 2])).tolist() == [0, 0, 1, 0, 0]
    assert gradient(lambda x: ops.leaky_relu(x, 0.1), leaf([-1, 0, 1])).tolist() == [0.1, 0.1, 1]
    assert gradient(ops.elu, leaf([0.0])).tolist() == [1]


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nothing_overflows(name, dtype):
    far = float(np.finfo(dtype).max) / 8
    x = leaf([-far, -1e3, 1e3, far], dtype)
    operator = getattr(ops, name)
    out = operator(x)
    assert out.dtype == dtype
    assert np.isfinite(out.array).all()
    slopes = gradient(operator, x)
    assert slopes.dtype == dtype
    ends = {"sigmoid": (0, 0), "tanh": (0, 0), "logsigmoid": (1, 0), "leaky_relu": (0.01, 1),
            "hardtanh": (0, 0), "relu6": (0, 0)}.get(name, (0, 1))  # fmt: skip
    np.testing.assert_allclose(slopes, [ends[0], ends[0], ends[1], ends[1]], rtol=1e-3)


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "relu", "silu", "gelu"])
def test_the_fused_backward_is_the_rule(name):
    x = leaf(np.random.default_rng(0).normal(size=(3, 5)))
    operator = getattr(ops, name)
    fused = gradient(operator, x)
    (rule,) = plugrad.autograd.grad(operator(x).sum(), [x], create_graph=True)
    np.testing.assert_allclose(fused, rule.array, rtol=1e-14)


# -------------------------------------------------------------------------------- softmax


@given(
    x=hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=3, max_side=5),
        elements=st.floats(-80, 80),
    ),
    dim=st.integers(-2, 1),
)
@settings(max_examples=40, deadline=None)
def test_softmax_values(x, dim):
    expected = np.exp(x) / np.exp(x).sum(axis=dim, keepdims=True)
    np.testing.assert_allclose(ops.softmax(Tensor(x), dim=dim).array, expected, rtol=1e-12)
    np.testing.assert_allclose(
        ops.log_softmax(Tensor(x), dim).array, np.log(expected), rtol=1e-12, atol=1e-12
    )


def test_softmax_with_minus_infinity():
    x = leaf([0, -math.inf, 1])
    log = ops.log_softmax(x, dim=0)[0]
    np.testing.assert_allclose(log.item(), -1.3132616875182228, rtol=1e-15)
    np.testing.assert_allclose(
        plugrad.autograd.grad(log, [x])[0].array,
        [0.7310585786300049, 0, -0.7310585786300049],
        rtol=1e-15,
    )
    share = ops.softmax(x, dim=0)[0]
    np.testing.assert_allclose(share.item(), 0.26894142136999516, rtol=1e-15)
    np.testing.assert_allclose(
        plugrad.autograd.grad(share, [x])[0].array,
        [0.19661193324148185, 0, -0.19661193324148188],
        rtol=1e-15,
    )


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_errors_and_edges(name):
    operator = getattr(ops, name)
    with pytest.raises(IndexError, match="dim"):
        operator(Tensor(np.ones((2, 3))), dim=2)
    assert operator(Tensor(np.ones((0, 3))), dim=1).shape == (0, 3)
    assert operator(Tensor(np.ones((2, 0))), dim=1).shape == (2, 0)
    assert operator(Tensor(np.array(5.0)), dim=0).shape == ()
    assert operator(Tensor(np.ones(3, np.float32)), dim=0).dtype == np.float32
