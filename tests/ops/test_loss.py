"""Losses against plain NumPy in float64; large logits, ignored targets, weights; what bad input says."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, ops

FLOATS = st.floats(-20.0, 20.0, allow_subnormal=False)
REDUCTIONS = ("mean", "sum", "none")


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def reduce(losses, reduction):
    return losses if reduction == "none" else getattr(np, reduction)(losses)


def log_softmax(x, axis):
    x = x - x.max(axis=axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


# --------------------------------------------------------------------------------- regression


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("name", "error"), [("mse_loss", np.square), ("l1_loss", np.abs)])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_errors(name, error, reduction, data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
    a, b = (
        data.draw(hnp.arrays(np.float64, shape, elements=FLOATS)) for shape in shapes.input_shapes
    )
    out = getattr(ops, name)(Tensor(a), Tensor(b), reduction=reduction)
    np.testing.assert_allclose(out.array, reduce(error(a - b), reduction), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"), [("mse_loss", [1.0, 0.0, -2.0]), ("l1_loss", [0.5, 0.0, -0.5])]
)
def test_gradients_of_errors(name, expected):
    x, t = leaf([2.0, 1.0, 1.0]), leaf([1.0, 1.0, 3.0])
    loss = getattr(ops, name)(x, t)
    scale = 2 / 3
    grad_x, grad_t = plugrad.autograd.grad(loss, [x, t])
    np.testing.assert_allclose(grad_x.array, scale * np.array(expected))
    np.testing.assert_allclose(grad_t.array, -scale * np.array(expected))


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss"])
def test_errors_keep_float16_and_do_not_overflow_in_the_sum(name):
    x = Tensor(np.full(4000, 5.0, np.float16))
    out = getattr(ops, name)(x, Tensor(np.zeros(4000, np.float16)))
    assert out.dtype == np.float16
    assert out.item() == {"mse_loss": 25.0, "l1_loss": 5.0}[name]


# -------------------------------------------------------------------------- class probabilities


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 3, 4), (2, 3, 2, 2)])
def test_cross_entropy_of_indices(shape, weighted, smoothing, reduction):
    rng = np.random.default_rng(0)
    axis = 0 if len(shape) == 1 else 1
    logits = rng.standard_normal(shape)
    target = rng.integers(0, 3, shape[:axis] + shape[axis + 1 :])
    if target.size > 2:
        target.flat[1] = -100
    weight = rng.uniform(0.5, 2.0, 3) if weighted else np.ones(3)
    kept = target != -100
    logs = np.moveaxis(log_softmax(logits, axis), axis, -1)
    factor = np.where(kept, weight[np.where(kept, target, 0)], 0.0)
    own = -np.take_along_axis(logs, np.where(kept, target, 0)[..., None], -1)[..., 0] * factor
    even = np.where(kept, -(logs * weight).sum(-1), 0.0) / 3
    losses = (1 - smoothing) * own + smoothing * even
    wanted = losses if reduction == "none" else losses.sum()
    if reduction == "mean":
        wanted = wanted / factor.sum()
    out = ops.cross_entropy(
        leaf(logits),
        Tensor(target),
        Tensor(weight) if weighted else None,
        reduction=reduction,
        label_smoothing=smoothing,
    )
    np.testing.assert_allclose(out.array, wanted, rtol=1e-12)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_of_probabilities(weighted, reduction):
    rng = np.random.default_rng(0)
    logits, target = rng.standard_normal((4, 3, 2)), rng.uniform(0, 1, (4, 3, 2))
    weight = rng.uniform(0.5, 2.0, 3) if weighted else np.ones(3)
    losses = -(log_softmax(logits, 1) * target * weight[:, None]).sum(1)
    x, t = leaf(logits), leaf(target)
    w = Tensor(weight) if weighted else None
    out = ops.cross_entropy(x, t, w, reduction=reduction)
    np.testing.assert_allclose(out.array, reduce(losses, reduction), rtol=1e-12)
    grad_x, grad_t = plugrad.autograd.grad(out.sum(), [x, t])
    assert grad_x.shape == grad_t.shape == (4, 3, 2)


def test_one_hot_probabilities_are_indices():
    rng = np.random.default_rng(0)
    x, target = leaf(rng.standard_normal((4, 3))), rng.integers(0, 3, 4)
    for smoothing in (0.0, 0.3):
        first = ops.cross_entropy(x, Tensor(target), label_smoothing=smoothing)
        second = ops.cross_entropy(x, Tensor(np.eye(3)[target]), label_smoothing=smoothing)
        np.testing.assert_allclose(first.item(), second.item(), rtol=1e-12)
        for a, b in zip(*(plugrad.autograd.grad(loss, [x]) for loss in (first, second))):
            np.testing.assert_allclose(a.array, b.array, atol=1e-12)


def test_gradient_of_cross_entropy_with_and_without_a_recorded_backward():
    rng = np.random.default_rng(0)
    x, target = leaf(rng.standard_normal((4, 3))), np.array([0, 2, -100, 1])
    probabilities = np.exp(log_softmax(x.array, 1))
    kept = target != -100
    expected = (probabilities - np.eye(3)[np.where(kept, target, 0)]) * kept[:, None] / 3
    for create_graph in (False, True):
        loss = ops.cross_entropy(x, Tensor(target))
        (found,) = plugrad.autograd.grad(loss, [x], create_graph=create_graph)
        np.testing.assert_allclose(found.array, expected, atol=1e-15)


def test_large_logits_neither_overflow_nor_lose_the_loss():
    x = leaf([[1000.0, -1000.0], [0.0, 800.0]])
    loss = ops.cross_entropy(x, Tensor(np.array([1, 0])), reduction="none")
    np.testing.assert_array_equal(loss.array, [2000, 800])
    loss.sum().backward()
    np.testing.assert_array_equal(x.grad.array, [[1, -1], [-1, 1]])


def test_cross_entropy_of_impossible_classes():
    x = leaf([[0.0, -np.inf, 1.0]])
    loss = ops.cross_entropy(x, Tensor(np.array([0])))
    np.testing.assert_allclose(loss.item(), 1.3132616875182228)
    loss.backward()
    np.testing.assert_allclose(x.grad.array, [[-0.7310585786300049, 0, 0.7310585786300049]])


def test_nothing_kept_is_nan_in_the_mean_and_zero_in_the_sum():
    x, target = leaf(np.zeros((2, 3))), Tensor(np.array([-100, -100]))
    assert np.isnan(ops.cross_entropy(x, target).item())
    assert ops.cross_entropy(x, target, reduction="sum").item() == 0.0


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_losses_keep_the_dtype(dtype):
    x = leaf([[1.0, 2.0], [0.5, 0.25]], dtype)
    for target in (Tensor(np.array([0, 1])), Tensor(np.full((2, 2), 0.5, dtype))):
        loss = ops.cross_entropy(x, target)
        assert loss.dtype == dtype
        (found,) = plugrad.autograd.grad(loss, [x])
        assert found.dtype == dtype


def test_nll_loss_is_cross_entropy_of_logarithms():
    rng = np.random.default_rng(0)
    logits, target = leaf(rng.standard_normal((5, 3))), Tensor(rng.integers(0, 3, 5))
    weight = leaf(rng.uniform(0.5, 2.0, 3))
    for reduction in REDUCTIONS:
        for w in (None, weight):
            first = ops.nll_loss(ops.log_softmax(logits, dim=1), target, w, reduction=reduction)
            second = ops.cross_entropy(logits, target, w, reduction=reduction)
            np.testing.assert_allclose(first.array, second.array, rtol=1e-12)


# ------------------------------------------------------------------------- binary cross entropy


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy(reduction):
    rng = np.random.default_rng(0)
    logits, target = rng.standard_normal((3, 2)), rng.uniform(0, 1, (3, 2))
    weight, positive = rng.uniform(0.5, 2, (3, 2)), rng.uniform(0.5, 2, 2)
    p = 1 / (1 + np.exp(-logits))
    losses = -(target * np.log(p) + (1 - target) * np.log(1 - p))
    found = ops.binary_cross_entropy(Tensor(p), Tensor(target), reduction=reduction)
    np.testing.assert_allclose(found.array, reduce(losses, reduction), rtol=1e-12)
    found = ops.binary_cross_entropy_with_logits(
        Tensor(logits), Tensor(target), reduction=reduction
    )
    np.testing.assert_allclose(found.array, reduce(losses, reduction), rtol=1e-12)
    losses = -weight * (positive * target * np.log(p) + (1 - target) * np.log(1 - p))
    found = ops.binary_cross_entropy_with_logits(
        Tensor(logits), Tensor(target), Tensor(weight), reduction, Tensor(positive)
    )
    np.testing.assert_allclose(found.array, reduce(losses, reduction), rtol=1e-12)


def test_binary_cross_entropy_of_large_logits():
    x = leaf([-1000.0, 1000.0, 0.0])
    loss = ops.binary_cross_entropy_with_logits(
        x, Tensor(np.array([1.0, 1.0, 0.5])), reduction="none"
    )
    np.testing.assert_allclose(loss.array, [1000, 0, np.log(2)])
    loss.sum().backward()
    np.testing.assert_allclose(x.grad.array, [-1, 0, 0])


def test_binary_cross_entropy_of_certain_probabilities_is_finite():
    x = leaf([0.0, 1.0, 0.0, 1.0])
    loss = ops.binary_cross_entropy(x, Tensor(np.array([0.0, 1.0, 1.0, 0.0])), reduction="none")
    np.testing.assert_allclose(loss.array, [0, 0, 100, 100])
    loss.sum().backward()
    np.testing.assert_allclose(x.grad.array, [1, -1, -1e12, 1e12])


# ------------------------------------------------------------------------------------ bad input

LOGITS, INDICES = np.zeros((2, 3)), np.array([0, 1])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x, t: ops.cross_entropy(x, Tensor(np.array([0, 3]))), IndexError, "target 3 is out of bounds for 3 classes"),
        (lambda x, t: ops.cross_entropy(x, Tensor(np.array([0, -1]))), IndexError, "target -1 is out of bounds"),
        (lambda x, t: ops.cross_entropy(x, Tensor(np.array([0]))), RuntimeError, r"\(2, 3\) takes class indices of shape \(2,\), got \(1,\)"),
        (lambda x, t: ops.cross_entropy(x, Tensor(np.zeros((3, 2)))), RuntimeError, "shape of input"),
        (lambda x, t: ops.cross_entropy(x, t, reduction="avg"), ValueError, "'mean', 'sum' or 'none', got 'avg'"),
        (lambda x, t: ops.cross_entropy(x, t, label_smoothing=2.0), RuntimeError, "label_smoothing must lie between 0 and 1"),
        (lambda x, t: ops.cross_entropy(x, t, Tensor(np.ones(2))), RuntimeError, r"weight must have shape \(3,\), got \(2,\)"),
        (lambda x, t: ops.cross_entropy(Tensor(np.array(1.0)), t), RuntimeError, "0-d"),
        (lambda x, t: ops.nll_loss(x, Tensor(np.array([0, 3]))), IndexError, "out of bounds"),
        (lambda x, t: ops.mse_loss(x, Tensor(np.zeros(2))), RuntimeError, r"mse_loss: .*\(2, 3\).*\(2,\) do not broadcast"),
        (lambda x, t: ops.l1_loss(x, x, reduction="x"), ValueError, "l1_loss: reduction"),
        (lambda x, t: ops.binary_cross_entropy(x + 2, x), RuntimeError, "between 0 and 1, got 2"),
        (lambda x, t: ops.binary_cross_entropy_with_logits(x, Tensor(np.zeros(3))), RuntimeError, "one shape"),
    ],
)  # fmt: skip
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(Tensor(LOGITS), Tensor(INDICES))


def test_binary_cross_entropy_of_infinite_logits():
    x, t = plugrad.tensor([np.inf, -np.inf]), plugrad.tensor([0.0, 1.0])
    loss = ops.binary_cross_entropy_with_logits(x, t, reduction="none")
    assert loss.tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, np.inf])
def test_cdist_is_the_norm_of_every_difference(p):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 3)), rng.normal(size=(5, 3))
    out = plugrad.cdist(plugrad.tensor(a), plugrad.tensor(b), p)
    differences = a[:, :, None] - b
    np.testing.assert_allclose(out.numpy(), np.linalg.norm(differences, p, axis=-1))  # fmt: skip


def test_cdist_where_rows_coincide_has_the_gradient_0():
    x = plugrad.ones(2, 3, requires_grad=True)
    plugrad.cdist(x, x.detach()).sum().backward()
    assert x.grad.tolist() == [[0.0] * 3] * 2
    assert plugrad.cdist(plugrad.ones(2, 0), plugrad.ones(3, 0)).tolist() == [[0.0] * 3] * 2
