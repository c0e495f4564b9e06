"""Fills, choices and dropout on the CPU: which numbers they take, their distributions, gradients and errors."""

import math
import threading

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import ops
from plugrad.random import Stream

SEED = 20240607
MANY = 200_000


@pytest.fixture(autouse=True)
def seeded():
    with plugrad.random.fork_rng():
        plugrad.manual_seed(SEED)
        print("seed", SEED)
        yield


def leaf(values, dtype=np.float64):
    return plugrad.tensor(values, dtype=dtype, requires_grad=True)


def near(values, expected, spread, times=5):
    """Whether a mean is within some standard errors of what it should be."""
    return abs(np.mean(values) - expected) < times * spread / len(values) ** 0.5


# ---- fills -------------------------------------------------------------------------------------------------


def test_fills_take_the_numbers_of_the_stream_in_c_order():
    stream = Stream(3, 4)
    x = plugrad.zeros(5, 7).t()
    x.uniform_(generator=stream)
    np.testing.assert_array_equal(x.array, stream.uniform((7, 5)))
    x.normal_(2.0, 0.5, generator=stream)
    np.testing.assert_allclose(x.array, stream.normal((7, 5)) * 0.5 + 2, rtol=1e-6)
    x.exponential_(4.0, generator=stream)
    np.testing.assert_allclose(x.array, stream.exponential((7, 5)) / 4, rtol=1e-6)
    x.bernoulli_(0.25, generator=stream)
    np.testing.assert_array_equal(x.array, stream.chance((7, 5), 0.25))
    x.random_(-3, 4, generator=stream)
    np.testing.assert_array_equal(x.array, stream.integers((7, 5), -3, 4))
    x.log_normal_(0.5, 0.25, generator=stream)
    np.testing.assert_allclose(x.array, np.exp(stream.normal((7, 5)) * 0.25 + 0.5), rtol=1e-6)


def test_uniform_fills_the_half_open_interval():
    x = plugrad.empty(MANY)
    x.uniform_(-3, 5)
    assert x.array.min() >= -3 and x.array.max() < 5
    assert near(x.array, 1, 8 / 12**0.5)
    assert plugrad.empty(3).uniform_(2, 2).tolist() == [2, 2, 2]
    # From 2**23 on floats are whole: rounding would reach the end.
    assert plugrad.empty(1000).uniform_(2**23, 2**23 + 1).array.max() == 2**23
    half = plugrad.empty(MANY, dtype=np.float16).uniform_()
    assert half.array.max() < 1


def test_random_fills_what_the_dtype_holds():
    assert set(plugrad.empty(50, dtype=bool).random_().tolist()) == {False, True}
    assert set(plugrad.empty(200).random_(4).tolist()) == {0, 1, 2, 3}
    bytes_ = plugrad.empty(5000, dtype=np.uint8).random_()
    assert (bytes_.array.min(), bytes_.array.max()) == (0, 255)
    small = plugrad.empty(5000, dtype=np.int8).random_()
    assert (small.array.min(), small.array.max()) == (0, 127)
    large = plugrad.empty(100, dtype=np.int64).random_()
    assert large.array.min() >= 0 and large.array.max() > 2**62
    floats = plugrad.empty(1000).random_()
    assert 2**23 < floats.array.max() <= 2**24
    np.testing.assert_array_equal(floats.array, np.rint(floats.array))


def test_distributions_of_fills():
    counts = plugrad.empty(MANY, dtype=np.int64).geometric_(0.3)
    assert counts.array.min() == 1
    assert near(counts.array, 1 / 0.3, 0.7**0.5 / 0.3)
    assert plugrad.empty(5).geometric_(1.0).tolist() == [1] * 5
    cauchy = plugrad.empty(MANY).cauchy_(2.0, 3.0).array
    assert near(cauchy < 2, 0.5, 0.5)
    assert near(cauchy < 5, 0.75, 0.45)
    assert near(np.log(plugrad.empty(MANY).log_normal_(0.5, 0.25).array), 0.5, 0.25)
    assert near(plugrad.empty(MANY).exponential_(2.0).array, 0.5, 0.5)


def test_what_is_filled_has_no_gradient():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 2
    y.uniform_()
    (y * y).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="leaf"):
        x.normal_()
    with plugrad.no_grad():
        assert x.normal_() is x


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: x.uniform_(2, 1), RuntimeError, "exceed"),
        (lambda x: x.uniform_(0, math.inf), RuntimeError, "finite"),
        (lambda x: x.normal_(0, -1), RuntimeError, "std"),
        (lambda x: x.exponential_(0), RuntimeError, "lambd"),
        (lambda x: x.cauchy_(0, 0), RuntimeError, "sigma"),
        (lambda x: x.log_normal_(0, -1), RuntimeError, "std"),
        (lambda x: x.geometric_(0.0), RuntimeError, "p must be"),
        (lambda x: x.bernoulli_(1.5), RuntimeError, "p must be"),
        (lambda x: x.bernoulli_(math.nan), RuntimeError, "p must be"),
        (lambda x: x.random_(5, 5), RuntimeError, "below"),
        (lambda x: x.random_(0, 2**30), RuntimeError, "not within"),
        (lambda x: x.long().uniform_(), TypeError, "floating"),
        (lambda x: x.expand(2, 3).uniform_(), RuntimeError, "share memory"),
    ],
)
def test_errors_of_fills(call, error, words):
    with pytest.raises(error, match=words):
        call(plugrad.zeros(3))


# ---- choices -----------------------------------------------------------------------------------------------


def test_bernoulli():
    p = plugrad.tensor([0.0, 1.0, 0.25], requires_grad=True).expand(MANY, 3)
    coins = plugrad.bernoulli(p)
    assert coins.dtype == np.float32
    assert not coins.requires_grad
    means = coins.array.mean(0)
    assert means[:2].tolist() == [0, 1]
    assert near(coins.array[:, 2], 0.25, 0.44)
    assert near(plugrad.zeros(MANY).bernoulli(0.7).array, 0.7, 0.46)
    whole = plugrad.bernoulli(plugrad.zeros(5, dtype=np.int32), 1.0)
    assert (whole.dtype, whole.tolist()) == (np.int32, [1] * 5)
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(RuntimeError, match="0 to 1"):
            plugrad.bernoulli(plugrad.tensor([0.5, wrong]))
    with pytest.raises(TypeError, match="int64"):
        plugrad.bernoulli(plugrad.tensor([1, 0]))


def test_multinomial_with_replacement():
    weights = plugrad.tensor([[0.0, 1.0, 3.0, 0.0], [2.0, 0.0, 0.0, 2.0]])
    picks = plugrad.multinomial(weights, MANY, replacement=True)
    assert (picks.dtype, picks.shape) == (np.int64, (2, MANY))
    first, second = (np.bincount(row, minlength=4) / MANY for row in picks.array)
    assert first[[0, 3]].tolist() == second[[1, 2]].tolist() == [0, 0]
    assert near(picks.array[0] == 2, 0.75, 0.44)
    assert near(picks.array[1] == 0, 0.5, 0.5)
    assert plugrad.multinomial(weights[0], 3, True).shape == (3,)


def test_multinomial_without_replacement():
    weights = plugrad.tensor([1.0, 2.0, 0.0, 7.0]).expand(MANY, 4)
    picks = weights.multinomial(2).array
    assert (picks[:, 0] != picks[:, 1]).all()
    assert not (picks == 2).any()
    assert near(picks[:, 0] == 3, 0.7, 0.46)
    # Second after 3 with what is left: 1 to 2.
    assert near(picks[picks[:, 0] == 3, 1] == 1, 2 / 3, 0.48)
    assert sorted(plugrad.multinomial(plugrad.ones(5), 5).tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("weights", "count", "replacement", "words"),
    [
        ([1.0, -1.0], 1, True, "not negative"),
        ([1.0, math.inf], 1, True, "finite"),
        ([1.0, math.nan], 1, False, "finite"),
        ([[1.0, 2.0], [0.0, 0.0]], 1, True, "all 0"),
        ([1.0, 2.0], 3, False, "do not fit"),
        ([1.0, 0.0], 2, False, "positive weight"),
        ([1.0, 2.0], 0, True, "> 0"),
        ([[[1.0]]], 1, True, "one row of weights or several"),
    ],
)
def test_errors_of_multinomial(weights, count, replacement, words):
    with pytest.raises(RuntimeError, match=words):
        plugrad.multinomial(plugrad.tensor(weights), count, replacement)


# ---- dropout -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dropout_is_the_mask_of_its_stream(dtype):
    stream = Stream(3, 1)
    values = np.random.default_rng(0).normal(size=(33, 70)).astype(dtype)
    kept = ~stream.chance(values.shape, 0.25)
    wide = np.float32 if dtype == np.float16 else dtype
    expected = np.where(kept, values.astype(wide) * wide(1 / 0.75), 0).astype(dtype)
    x = plugrad.from_numpy(values)
    out = ops.dropout(x, p=0.25, generator=stream)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.array, expected)
    turned = ops.dropout(plugrad.from_numpy(np.asfortranarray(values)), p=0.25, generator=stream)
    np.testing.assert_array_equal(turned.array, expected)


def test_the_gradient_of_dropout_has_the_same_mask_at_every_order():
    x = leaf(np.arange(1.0, 41.0))
    y = F.dropout(x * x, 0.5)
    mask = y.detach().array / np.arange(1.0, 41.0) ** 2
    assert set(mask.tolist()) == {0.0, 2.0}
    (first,) = plugrad.autograd.grad(y.sum(), x, create_graph=True)
    np.testing.assert_array_equal(first.detach().array, 2 * x.detach().array * mask)
    (second,) = plugrad.autograd.grad(first.sum(), x)
    np.testing.assert_array_equal(second.array, 2 * mask)


def test_nothing_is_saved_of_a_dropout():
    x = leaf(np.ones(1000))
    before = plugrad.graph_stats()
    y = F.dropout(x, 0.5)
    assert plugrad.graph_stats().saved_bytes == before.saved_bytes
    del y


def test_dropout_keeps_the_mean():
    for p in (0.1, 0.5, 0.9):
        out = F.dropout(plugrad.ones(MANY), p)
        assert set(np.unique(out.array).tolist()) == {0.0, float(np.float32(1 / (1 - p)))}
        assert near(out.array, 1, (p / (1 - p)) ** 0.5)


def test_the_ends_of_dropout():
    x = plugrad.tensor([1.0, math.inf, math.nan, -2.0])
    assert F.dropout(x, 0.5, training=False) is x
    np.testing.assert_array_equal(F.dropout(x, 0.0).array, x.array)
    np.testing.assert_array_equal(F.dropout(x, 1e-60).array, x.array)
    assert F.dropout(x, 1.0).tolist() == [0, 0, 0, 0]
    assert F.dropout(plugrad.zeros(0, 3)).shape == (0, 3)
    z = leaf(2.0)
    F.dropout(z, 1.0).backward()
    assert z.grad.item() == 0
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="from 0 to 1"):
            F.dropout(x, wrong)
    assert F.dropout(x, 1.0, inplace=True) is x
    assert x.tolist() == [0, 0, 0, 0]


def test_dropout_does_not_depend_on_threads():
    x, found = plugrad.ones(50_001), [None] * 4
    stream = Stream(1, 2)

    def work(i):
        found[i] = ops.dropout(x, generator=stream).array

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(out, found[0]) for out in found)


@pytest.mark.parametrize(
    ("function", "shape", "channels"),
    [
        (F.dropout1d, (40, 30, 3), (40, 30)),
        (F.dropout1d, (500, 3), (500,)),
        (F.dropout2d, (40, 30, 2, 3), (40, 30)),
        (F.dropout2d, (40, 30, 3), (40, 30)),
        (F.dropout3d, (40, 30, 2, 1, 3), (40, 30)),
        (F.dropout3d, (500, 2, 1, 3), (500,)),
    ],
)
def test_whole_channels_are_dropped(function, shape, channels):
    x = leaf(np.ones(shape))
    out = function(x, 0.25)
    flat = out.detach().array.reshape(*channels, -1)
    assert (flat == flat[..., :1]).all()
    assert set(np.unique(flat).tolist()) == {0.0, 1 / 0.75}
    assert near((flat[..., 0] == 0).ravel(), 0.25, 0.44)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.array, out.detach().array)
    assert function(x, 0.25, training=False) is x


def test_channels_need_dimensions():
    with pytest.raises(RuntimeError, match=r"dropout2d.*\(3,\)"):
        F.dropout2d(plugrad.ones(3))
    with pytest.raises(RuntimeError, match="channels are dimension 1"):
        F.feature_alpha_dropout(plugrad.ones(3), training=True)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_alpha_dropout_keeps_mean_and_variance(p):
    x = plugrad.randn(MANY)
    for out in (
        F.alpha_dropout(x, p, training=True).array,
        F.feature_alpha_dropout(x.reshape(1, MANY), p, training=True).array[0],
    ):
        assert near(out, 0, 1)
        assert near(out**2, 1, 3)
    assert F.alpha_dropout(x, p) is x
    assert F.alpha_dropout(plugrad.ones(3), 1.0, training=True).tolist() == [0, 0, 0]


# ---- random slopes and categories --------------------------------------------------------------------------


def test_rrelu():
    x = leaf(np.concatenate([np.full(MANY, -2.0), np.full(10, 3.0)]))
    out = F.rrelu(x, 0.2, 0.6, training=True)
    slopes = out.detach().array[:MANY] / -2
    assert slopes.min() >= 0.2 and slopes.max() <= 0.6
    assert near(slopes, 0.4, 0.4 / 12**0.5)
    assert out.tolist()[MANY:] == [3] * 10
    out.sum().backward()
    np.testing.assert_allclose(x.grad.array[:MANY], slopes)
    np.testing.assert_allclose(
        F.rrelu(plugrad.tensor([-2.0, 3.0]), 0.2, 0.6).array, [-0.8, 3.0], rtol=1e-6
    )
    with pytest.raises(RuntimeError, match="exceed"):
        F.rrelu(x, 0.5, 0.2)


def test_gumbel_softmax():
    logits = plugrad.log(plugrad.tensor([0.2, 0.3, 0.5])).expand(MANY // 4, 3).requires_grad_()
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.detach().array.sum(-1), 1, rtol=1e-5)
    chosen = soft.detach().array.argmax(-1)
    for i, p in enumerate((0.2, 0.3, 0.5)):
        assert near(chosen == i, p, 0.5)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_hard_gumbel_softmax_has_the_gradient_of_the_soft_one(dim):
    values = np.random.default_rng(1).normal(size=(3, 4))
    grads = []
    for hard in (False, True):
        plugrad.manual_seed(4)
        logits = leaf(values)
        out = F.gumbel_softmax(logits, hard=hard, dim=dim)
        (out * plugrad.tensor(np.arange(12.0).reshape(3, 4))).sum().backward()
        grads.append(logits.grad.array)
    np.testing.assert_allclose(out.detach().array.sum(dim), 1, rtol=1e-12)
    assert np.count_nonzero(np.abs(out.detach().array) > 1e-9) == out.numel() // out.shape[dim]
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-12)
