"""Cross entropy over class indices, compiled: the numbers of NumPy in float64, for sizes about those of its blocks."""

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, ops

SEED = int(np.random.default_rng().integers(2**31))

# Rows and classes: few and many of either, about 128 rows and 2048 elements, which are taken together.
SIZES = [
    (1, 1),
    (3, 2),
    (32, 10),
    (130, 7),
    (129, 16),
    (7, 31),
    (5, 33),
    (2, 1024),
    (3, 2048),
    (3, 2049),
    (2, 6000),
]


def expected(x, target, ignored, reduction, smoothing):
    """Losses and the gradient of their sum or mean, in float64."""
    x = x.astype(np.float64)
    rows, classes = np.arange(len(x)), x.shape[1]
    shifted = x - x.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    kept = target != ignored
    at = np.where(kept, target, 0)
    wanted = np.full(x.shape, smoothing / classes)
    wanted[rows, at] += 1 - smoothing
    losses = np.where(kept, -(wanted * logs).sum(1), 0)
    gradient = np.where(kept[:, None], np.exp(logs) - wanted, 0)
    if reduction == "none":
        return losses, gradient
    divisor = kept.sum() if reduction == "mean" else 1
    return losses.sum() / divisor, gradient / divisor


def measured(x, target, **options):
    logits = Tensor(x, requires_grad=True)
    loss = ops.cross_entropy(logits, Tensor(target), **options)
    loss.backward(plugrad.ones_like(loss.detach()))
    return loss.detach().array, logits.grad.array


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_as_numpy(size, reduction, smoothing, dtype):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    x = (5 * rng.standard_normal(size)).astype(dtype)
    target = rng.integers(0, size[1], size[0])
    target[1::5] = -100
    loss, gradient = measured(x, target, reduction=reduction, label_smoothing=smoothing)
    wanted_loss, wanted_gradient = expected(x, target, -100, reduction, smoothing)
    assert loss.dtype == gradient.dtype == dtype
    close = 2e-6 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(loss, wanted_loss, rtol=close, atol=close)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=close * 10, atol=close)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_threads_change_nothing(reduction):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    x, target = rng.standard_normal((3000, 50)).astype("f4"), rng.integers(0, 50, 3000)
    threads = plugrad.get_num_threads()
    try:
        found = []
        for n in (1, 3):
            plugrad.set_num_threads(n)
            found.append(measured(x, target, reduction=reduction))
    finally:
        plugrad.set_num_threads(threads)
    for one, three in zip(*found):
        np.testing.assert_array_equal(one, three)
    wanted_loss, wanted_gradient = expected(x, target, -100, reduction, 0.0)
    np.testing.assert_allclose(found[0][0], wanted_loss, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0][1], wanted_gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("classes", [3, 40, 5000])
def test_values_that_are_no_numbers_stay_in_their_row(classes):
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((6, classes)).astype("f4")
    x[0, 0] = np.nan
    x[1, classes - 1] = np.nan
    x[2, 1] = np.inf
    x[3, 1:] = -np.inf
    x[4, :] = -np.inf
    target = np.zeros(6, np.int64)
    loss, gradient = measured(x, target, reduction="none")
    assert np.isnan(loss[:3]).all()
    assert loss[3] == 0
    assert np.isnan(loss[4])
    wanted_loss, wanted_gradient = expected(x[5:], target[5:], -100, "none", 0.0)
    np.testing.assert_allclose(loss[5:], wanted_loss, rtol=2e-6)
    np.testing.assert_allclose(gradient[5:], wanted_gradient, rtol=2e-5, atol=1e-7)
    assert np.isnan(gradient[:3]).all()
    assert (gradient[3] == 0).all()


def test_logits_far_from_zero():
    x = np.array([[1000.0, 1001.0], [-1000.0, -1002.0]], "f4")
    loss, _ = measured(x, np.array([0, 0]), reduction="none")
    np.testing.assert_allclose(loss, [np.log1p(np.e), np.log1p(np.exp(-2))], rtol=1e-6)


def test_a_long_row_of_equal_logits_is_summed_exactly():
    classes = 1 << 21
    loss, gradient = measured(np.zeros((1, classes), "f4"), np.array([5]))
    assert loss == np.float32(np.log(classes))
    assert gradient[0, 0] == np.float32(1 / classes)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("layout", ["C", "turned", "sliced"])
def test_layouts_and_dtypes_make_no_difference(layout, dtype):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    x, target = rng.standard_normal((9, 6)), rng.integers(0, 6, 9)
    given = {
        "C": x,
        "turned": np.asfortranarray(x),
        "sliced": np.repeat(x, 2, 1)[:, ::2],
    }[layout]
    loss, gradient = measured(given, target.astype(dtype))
    wanted_loss, wanted_gradient = expected(x, target, -100, "mean", 0.0)
    np.testing.assert_allclose(loss, wanted_loss, rtol=1e-13)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("classes", [2, 40, 5000])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_infinite_logit_leaves_no_probabilities_whichever_class_is_wanted(classes, dtype):
    x = np.zeros((3, classes), dtype)
    x[0, 0] = x[1, 1] = np.inf
    logits = Tensor(x, requires_grad=True)
    loss = ops.softmax_cross_entropy(logits, plugrad.tensor([1, 1, 0]), reduction="none")
    loss.sum().backward()
    assert np.isnan(loss.detach().numpy()).tolist() == [True, True, False]
    assert np.isnan(logits.grad.numpy()).all(1).tolist() == [True, True, False]
