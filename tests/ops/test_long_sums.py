"""Sums of many float32 numbers, which a running float32 would lose: at 2**24 it no longer grows by 1."""

import random

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import ops

MANY = 2.0**24
ROWS = 1000


@pytest.fixture
def tall():
    """(1 + ROWS, 3): a first row of 2**24, and ones."""
    x = np.ones((1 + ROWS, 3), np.float32)
    x[0] = MANY
    return x


def near(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=2e-7)


@pytest.mark.parametrize(
    "laid",
    [
        lambda x: (x, 0),
        lambda x: (np.asfortranarray(x.T), 1),
        lambda x: (np.repeat(x, 2, axis=1)[:, ::2], 0),
        lambda x: (x[::-1], 0),
        lambda x: (x[:, :, None, None], (0, 2)),
        lambda x: (np.stack([x, x], axis=0), 1),
        lambda x: (x.astype(np.complex64) * (1 + 1j), 0),
    ],
    ids=["rows", "transposed", "strided", "reversed", "one long", "middle", "complex"],
)
def test_sum_over_an_outer_dimension(tall, laid):
    x, dim = laid(tall)
    out = plugrad.tensor(x).sum(dim).numpy()
    assert out.dtype == x.dtype
    near(out, np.broadcast_to((MANY + ROWS) * (1 + 1j if out.dtype.kind == "c" else 1), out.shape))


def test_sum_over_dimensions_around_one_that_stays():
    x = np.ones((1 + ROWS, 2, 3), np.float32)
    x[0, :, 0] = MANY
    near(plugrad.tensor(x).sum((0, 2)).numpy(), [MANY + ROWS * 3 + 2] * 2)


def test_sum_of_a_part_of_each_row(tall):
    near(plugrad.tensor(tall)[:, :2].sum().item(), 2 * (MANY + ROWS))


def test_other_reductions(tall):
    x = plugrad.tensor(tall)
    near(x.mean(0).numpy(), [(MANY + ROWS) / (1 + ROWS)] * 3)
    near(ops.nansum(x, dim=0).numpy(), [MANY + ROWS] * 3)
    near(ops.norm(x, p=1, dim=0).numpy(), [MANY + ROWS] * 3)
    near(ops.norm(x.sqrt(), dim=0).numpy(), [(MANY + ROWS) ** 0.5] * 3)
    near(ops.logsumexp(x.log(), dim=0).numpy(), [np.log(MANY + ROWS)] * 3)
    near(x.var(0).numpy(), tall.astype(float).var(0, ddof=1))


def test_softmax_over_an_outer_dimension(tall):
    out = F.softmax(plugrad.tensor(np.log(tall)), 0).numpy()
    np.testing.assert_allclose(out[0], [MANY / (MANY + ROWS)] * 3, rtol=3e-6)


def test_gradient_of_what_was_broadcast(tall):
    b = plugrad.zeros(3, requires_grad=True)
    (plugrad.zeros(1 + ROWS, 3) + b).backward(plugrad.tensor(tall))
    near(b.grad.numpy(), [MANY + ROWS] * 3)


def test_gradient_of_the_bias_of_linear(tall):
    b = plugrad.zeros(3, requires_grad=True)
    F.linear(plugrad.zeros(1 + ROWS, 2), plugrad.zeros(3, 2), b).backward(plugrad.tensor(tall))
    near(b.grad.numpy(), [MANY + ROWS] * 3)


@pytest.mark.parametrize("dim", [0, 1])
def test_running_sum(tall, dim):
    x = tall if dim == 0 else tall.T
    out = plugrad.tensor(x).cumsum(dim).numpy()
    near(out, np.cumsum(x.astype(float), axis=dim))


def test_running_sum_of_complex_numbers(tall):
    out = plugrad.tensor(tall.astype(np.complex64) * 1j).cumsum(0).numpy()
    assert out.dtype == np.complex64
    near(out.imag, np.cumsum(tall.astype(float), axis=0))


@pytest.mark.parametrize("dim", [0, 1])
def test_running_product(dim):
    x = np.full((2000, 2), 1 - 2.0**-24, np.float32)
    x = x if dim == 0 else x.T
    near(plugrad.tensor(x).cumprod(dim).numpy(), np.cumprod(x.astype(float), axis=dim))


def test_running_logsumexp():
    x = np.zeros((1 + ROWS, 2), np.float32)
    x[0] = np.log(MANY)
    near(ops.logcumsumexp(plugrad.tensor(x), dim=0).numpy()[-1], [np.log(MANY + ROWS)] * 2)


def test_random_shapes_and_layouts_agree_with_double():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    for _ in range(300):
        shape = rng.integers(1, 12, rng.integers(1, 5))
        x = rng.random(shape, np.float32).transpose(rng.permutation(len(shape)))
        x = x[tuple(slice(None, None, rng.choice([1, 1, 2, -1])) for _ in shape)]
        dim = tuple(int(d) for d in range(x.ndim) if rng.random() < 0.5)
        if not dim:
            continue
        keepdim = bool(rng.random() < 0.5)
        out = ops.sum(plugrad.tensor(x), dim=dim, keepdim=keepdim).numpy()
        expected = x.astype(float).sum(dim, keepdims=keepdim)
        assert out.shape == expected.shape and out.dtype == np.float32
        np.testing.assert_allclose(out, expected, rtol=1e-6, err_msg=f"{x.shape} {x.strides} {dim}")


def test_sums_keep_nan_and_infinity():
    x = np.ones((20, 3), np.float32)
    x[3] = np.nan, np.inf, -np.inf
    x[15, 2] = np.inf
    np.testing.assert_array_equal(plugrad.tensor(x).sum(0).numpy(), [np.nan, np.inf, np.nan])
