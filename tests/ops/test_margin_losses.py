"""Losses with margins, likelihoods and divergences: values against loops or formulas, kinks, overflow, reductions, errors."""

import math

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor

RNG = np.random.default_rng(0)
X, Y, Z = (RNG.standard_normal((3, 4)) for _ in range(3))
SIGNS = np.where(RNG.standard_normal((3, 4)) > 0, 1, -1)


def leaf(values):
    return Tensor(np.array(values, np.float64), requires_grad=True)


def gradient(loss, x):
    return plugrad.autograd.grad(loss, [x])[0].array


def relu(x):
    return np.maximum(x, 0)


def multi_margin(x, target, p=1, margin=1.0, weight=None):
    rows = []
    for row, y in zip(x, target):
        each = [relu(margin - row[y] + row[j]) ** p for j in range(len(row)) if j != y]
        rows.append(sum(each) / len(row) * (1.0 if weight is None else weight[y]))
    return np.array(rows)


def multilabel_margin(x, target):
    rows = []
    for row, labels in zip(x, target):
        own = list(labels[: list(labels).index(-1)] if -1 in labels else labels)
        rest = [i for i in range(len(row)) if i not in own]
        rows.append(sum(relu(1 - (row[j] - row[i])) for j in own for i in rest) / len(row))
    return np.array(rows)


def cosine(x, y):
    return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


def triplet(a, p, n, swap=False):
    def distance(u, v):
        return np.sqrt(((u - v + 1e-6) ** 2).sum(-1))

    negative = np.minimum(distance(a, n), distance(p, n)) if swap else distance(a, n)
    return relu(1 + distance(a, p) - negative)


LABELS, WEIGHT = np.array([0, 3, 1]), np.array([0.5, 1.0, 2.0, 3.0])
LISTS = np.array([[0, 3, -1, 1], [-1, 0, 0, 0], [2, 2, 1, -1]])
CALLS = {
    "huber_loss": (
        (X, Y), {"delta": 0.5}, np.where(abs(X - Y) < 0.5, (X - Y) ** 2 / 2, (abs(X - Y) - 0.25) / 2)
    ),
    "smooth_l1_loss": (
        (X, Y), {"beta": 0.5}, np.where(abs(X - Y) < 0.5, (X - Y) ** 2, abs(X - Y) - 0.25)
    ),
    "kl_div": ((X, np.exp(Y)), {}, np.exp(Y) * (Y - X)),
    "kl_div-log": ((X, Y), {"log_target": True}, np.exp(Y) * (Y - X)),
    "poisson_nll_loss": ((X, np.exp(Y)), {}, np.exp(X) - np.exp(Y) * X),
    "gaussian_nll_loss": ((X, Y, np.exp(Z)), {"full": True}, (Z + (X - Y) ** 2 / np.exp(Z) + math.log(2 * math.pi)) / 2),
    "hinge_embedding_loss": ((X, SIGNS), {"margin": 0.5}, np.where(SIGNS == 1, X, relu(0.5 - X))),
    "margin_ranking_loss": ((X, Y, SIGNS), {"margin": 0.5}, relu(0.5 - SIGNS * (X - Y))),
    "soft_margin_loss": ((X, SIGNS), {}, np.log1p(np.exp(-SIGNS * X))),
    "multi_margin_loss": ((X, LABELS), {}, multi_margin(X, LABELS)),
    "multi_margin_loss-2": ((X, LABELS), {"p": 2, "margin": 0.5, "weight": WEIGHT}, multi_margin(X, LABELS, 2, 0.5, WEIGHT)),
    "multilabel_margin_loss": ((X, LISTS), {}, multilabel_margin(X, LISTS)),
    "multilabel_soft_margin_loss": ((X, SIGNS == 1), {}, np.log1p(np.exp(-SIGNS * X)).mean(-1)),
    "cosine_embedding_loss": ((X, Y, SIGNS[:, 0]), {"margin": 0.1}, np.where(SIGNS[:, 0] == 1, 1 - cosine(X, Y), relu(cosine(X, Y) - 0.1))),
    "triplet_margin_loss": ((X, Y, Z), {}, triplet(X, Y, Z)),
    "triplet_margin_loss-swap": ((X, Y, Z), {"swap": True}, triplet(X, Y, Z, True)),
    "triplet_margin_with_distance_loss": ((X, Y, Z), {}, triplet(X, Y, Z)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_values_under_each_reduction(name):
    arguments, constants, wanted = CALLS[name]
    function = getattr(F, name.split("-")[0])
    tensors = [Tensor(x) for x in arguments]
    constants = {k: Tensor(v) if isinstance(v, np.ndarray) else v for k, v in constants.items()}
    for reduction, reduce in (("none", np.asarray), ("sum", np.sum), ("mean", np.mean)):
        found = function(*tensors, **constants, reduction=reduction)
        np.testing.assert_allclose(found.array, reduce(wanted), rtol=1e-11, atol=1e-14)
    with pytest.raises(ValueError, match="reduction"):
        function(*tensors, **constants, reduction="average")


def test_one_sample_without_batch():
    for loss, target in ((F.multi_margin_loss, 2), (F.multilabel_margin_loss, [2, -1, 0, 0])):
        single = loss(Tensor(X[0]), Tensor(np.array(target)), reduction="none")
        batch = loss(Tensor(X[:1]), Tensor(np.array([target])), reduction="none")
        assert single.shape == ()
        assert single.item() == batch.array[0]


def test_batchmean_divides_by_the_batch():
    total = F.kl_div(Tensor(X), Tensor(np.exp(Y)), reduction="sum").item()
    assert F.kl_div(Tensor(X), Tensor(np.exp(Y)), reduction="batchmean").item() == total / 3


def test_huber_weights():
    found = F.huber_loss(Tensor(X), Tensor(Y), weight=Tensor(abs(Z)))
    each = F.huber_loss(Tensor(X), Tensor(Y), reduction="none").array
    np.testing.assert_allclose(found.item(), (each * abs(Z)).mean(), rtol=1e-14)
    with pytest.raises(ValueError, match="weight must have the shape"):
        F.huber_loss(Tensor(X), Tensor(Y), weight=Tensor(WEIGHT))


# ---- kinks and extremes ------------------------------------------------------------------


def test_gradients_at_the_margin_are_zero():
    x = leaf([1.0, 0.5])
    assert gradient(
        F.hinge_embedding_loss(x, Tensor(np.array([-1, -1])), reduction="sum"), x
    ).tolist() == [0, -1]
    zeros = Tensor(np.zeros(2))
    loss = F.margin_ranking_loss(x, zeros, Tensor(np.ones(2)), margin=1.0, reduction="sum")
    assert gradient(loss, x).tolist() == [0, -1]


def test_gradients_of_linear_errors():
    x, zeros = leaf([-3.0, -0.25, 0.0, 0.25, 3.0]), Tensor(np.zeros(5))
    loss = F.huber_loss(x, zeros, reduction="sum", delta=0.5)
    assert gradient(loss, x).tolist() == [-0.5, -0.25, 0, 0.25, 0.5]
    loss = F.smooth_l1_loss(x, zeros, reduction="sum", beta=0.5)
    assert gradient(loss, x).tolist() == [-1, -0.5, 0, 0.5, 1]
    loss = F.smooth_l1_loss(x, zeros, reduction="sum", beta=0.0)
    assert gradient(loss, x).tolist() == [-1, -1, 0, 1, 1]


def test_nothing_overflows():
    x = leaf([-800.0, 800.0])
    loss = F.soft_margin_loss(x, Tensor(np.array([1, 1])), reduction="none")
    np.testing.assert_allclose(loss.array, [800, 0])
    np.testing.assert_allclose(gradient(loss.sum(), x), [-1, 0])


def test_impossible_events_have_no_divergence():
    x = leaf([-1.0, -2.0])
    for target, logs in (([0.0, 1.0], False), ([-np.inf, 0.0], True)):
        loss = F.kl_div(x, Tensor(np.array(target)), reduction="none", log_target=logs)
        assert loss.tolist() == [0, 2]
        assert gradient(loss.sum(), x).tolist() == [0, -1]


def test_a_variance_below_eps_can_grow():
    var = leaf([1e-9])
    loss = F.gaussian_nll_loss(Tensor(np.array([1.0])), Tensor(np.array([0.0])), var, eps=0.5)
    np.testing.assert_allclose(loss.item(), 0.5 * (math.log(0.5) + 2))
    np.testing.assert_allclose(gradient(loss, var), [0.5 * (2 - 4)])


# ---- distances ---------------------------------------------------------------------------


def test_distances():
    norm = np.abs(X - Y + 1e-6) ** 3
    found = F.pairwise_distance(Tensor(X), Tensor(Y), 3.0, keepdim=True).array
    np.testing.assert_allclose(found, np.cbrt(norm.sum(-1, keepdims=True)), rtol=1e-13)
    np.testing.assert_allclose(F.cosine_similarity(Tensor(X), Tensor(Y)).array, cosine(X, Y))
    found = F.cosine_similarity(Tensor(X), Tensor(Y[0]), dim=0).array
    np.testing.assert_allclose(found, cosine(X.T, np.broadcast_to(Y[0], (3, 4)).T))
    pairs = [np.linalg.norm(X[i] - X[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(F.pdist(Tensor(X)).array, pairs)


def test_vectors_of_length_zero():
    x = Tensor(np.zeros((2, 3)), requires_grad=True)
    out = F.cosine_similarity(x, Tensor(np.ones((2, 3))))
    assert out.tolist() == [0, 0]
    assert not gradient(out.sum(), x).any()
    assert not gradient(F.pdist(x).sum(), x).any()


# ---- errors ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: F.huber_loss(x, x, delta=0.0), RuntimeError, "delta must be positive"),
        (lambda x: F.smooth_l1_loss(x, x, beta=-1.0), RuntimeError, "beta must be at least 0"),
        (lambda x: F.gaussian_nll_loss(x, x, -x * x), ValueError, "must not be negative"),
        (lambda x: F.gaussian_nll_loss(x, x, Tensor(np.ones(2))), ValueError, "var must have the shape"),
        (lambda x: F.margin_ranking_loss(x, x, x[0]), RuntimeError, "equally many dimensions"),
        (lambda x: F.multi_margin_loss(x, Tensor(np.array([0, 4, 1]))), IndexError, "target 4 is out of bounds"),
        (lambda x: F.multi_margin_loss(x, Tensor(LABELS), p=3), ValueError, "p must be 1 or 2"),
        (lambda x: F.multilabel_margin_loss(x, Tensor(np.array([[-2] * 4] * 3))), IndexError, None),
        (lambda x: F.triplet_margin_loss(x, x, x, margin=0.0), ValueError, "margin must be greater than 0"),
        (lambda x: F.cosine_embedding_loss(x, x, Tensor(SIGNS)), RuntimeError, "with target"),
        (lambda x: F.kl_div(x, x, reduction="batch"), ValueError, "reduction"),
    ],
)  # fmt: skip
def test_errors(call, error, words):
    if words is None:  # any negative label ends the list, as -1 does
        assert call(Tensor(X)).item() == 0
        return
    with pytest.raises(error, match=words):
        call(Tensor(X))
