"""Connectionist temporal classification: against a sum over all alignments, gradients, lengths, infinite losses, errors."""

import itertools
import math

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, ops
from plugrad.nn.functional import ctc_loss

RNG = np.random.default_rng(0)


def logs(*shape):
    x = RNG.standard_normal(shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def collapsed(path, blank):
    """The labels of an alignment: repetitions are one label, blanks are none."""
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


def by_enumeration(log_probs, target, blank=0):
    times, classes = log_probs.shape
    total = sum(
        math.exp(sum(log_probs[t, k] for t, k in enumerate(path)))
        for path in itertools.product(range(classes), repeat=times)
        if collapsed(path, blank) == tuple(target)
    )
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("target", [(), (1,), (1, 1), (3, 1), (1, 3, 1)])
def test_the_sum_over_all_alignments(target, blank):
    x = logs(5, 4)
    loss = ctc_loss(
        Tensor(x), Tensor(np.array(target, np.int64)), (5,), (len(target),), blank, "none"
    )
    np.testing.assert_allclose(loss.item(), by_enumeration(x, target, blank), rtol=1e-12)


X = logs(5, 3, 4)
TARGETS = np.array([[1, 2, 2], [3, 0, 0], [1, 3, 0]])
LENGTHS = (5, 4, 3), (3, 1, 2)


def test_a_batch_of_sequences_of_several_lengths():
    wanted = [by_enumeration(X[:t, n], TARGETS[n, :s]) for n, (t, s) in enumerate(zip(*LENGTHS))]
    found = ctc_loss(Tensor(X), Tensor(TARGETS), *LENGTHS, reduction="none")
    np.testing.assert_allclose(found.array, wanted, rtol=1e-12)
    joined = Tensor(np.array([1, 2, 2, 3, 1, 3]))
    again = ctc_loss(Tensor(X), joined, *(Tensor(np.array(v)) for v in LENGTHS), reduction="none")
    np.testing.assert_array_equal(again.array, found.array)
    mean = ctc_loss(Tensor(X), joined, *LENGTHS)
    np.testing.assert_allclose(mean.item(), np.mean(np.array(wanted) / LENGTHS[1]), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_gradient_is_minus_what_alignments_take_of_each_class(dtype):
    x = Tensor(X.astype(dtype), requires_grad=True)
    ctc_loss(x, Tensor(TARGETS), *LENGTHS, reduction="sum").backward()
    shares = -x.grad.array.astype(np.float64).sum(-1)
    inside = np.arange(5)[:, None] < np.array(LENGTHS[0])
    np.testing.assert_allclose(shares, inside, atol={2: 2e-3, 4: 1e-5, 8: 1e-12}[x.dtype.itemsize])


def test_a_sequence_that_is_too_short():
    x = Tensor(X, requires_grad=True)
    loss = ctc_loss(x, Tensor(TARGETS), (3, 4, 3), (3, 1, 2), reduction="none")
    assert np.isinf(loss.array).tolist() == [True, False, False]
    (grad,) = plugrad.autograd.grad(loss.sum(), [x])
    assert np.isnan(grad.array[:3, 0]).all()
    assert np.isfinite(grad.array[:, 1:]).all()
    loss = ctc_loss(x, Tensor(TARGETS), (3, 4, 3), (3, 1, 2), zero_infinity=True, reduction="none")
    assert loss.array[0] == 0
    for create_graph in (False, True):
        (grad,) = plugrad.autograd.grad(
            loss.sum(), [x], create_graph=create_graph, retain_graph=True
        )
        assert not grad.array[:, 0].any()
        assert np.isfinite(grad.array).all()


def test_nothing_to_read_and_nothing_to_say():
    loss = ctc_loss(Tensor(X), Tensor(TARGETS), (0, 0, 3), (0, 1, 0), reduction="none")
    assert loss.tolist()[:2] == [0, math.inf]
    np.testing.assert_allclose(loss.array[2], -X[:3, 2, 0].sum(), rtol=1e-14)


def test_probabilities_of_zero():
    x = np.full((3, 1, 3), -np.inf)
    x[[0, 1, 2], 0, [0, 1, 0]] = 0.0
    leaf = Tensor(x, requires_grad=True)
    loss = ops.ctc_losses(leaf, *(Tensor(np.array(v)) for v in ([[1]], [3], [1])))
    assert loss.tolist() == [0]
    (grad,) = plugrad.autograd.grad(loss.sum(), [leaf])
    np.testing.assert_array_equal(grad.array, np.where(np.isinf(x), 0.0, -1.0))


@pytest.mark.parametrize(
    ("targets", "inputs", "lengths", "blank", "words"),
    [
        (TARGETS, (6, 4, 3), (3, 1, 2), 0, "input_lengths must be from 0 to 5"),
        (TARGETS, (5, 4, 3), (4, 1, 2), 0, "target_lengths must be from 0 to 3"),
        (TARGETS, (5, 4), (3, 1, 2), 0, "input_lengths must belong to the 3 sequences"),
        (TARGETS, (5, 4, 3), (3, 1, 2), 7, "blank must be one of the 4 classes"),
        (TARGETS + 1, (5, 4, 3), (3, 1, 2), 0, "without the blank 0, got 4"),
        (TARGETS, (5, 4, 3), (3, 2, 2), 0, "without the blank 0, got 0"),
        (np.array([1, 2]), (5, 4, 3), (3, 1, 2), 0, "as many labels as target_lengths together, 6"),
        (TARGETS.astype(float), (5, 4, 3), (3, 1, 2), 0, "targets must be integers"),
    ],
)
def test_errors(targets, inputs, lengths, blank, words):
    with pytest.raises(RuntimeError, match=words):
        ctc_loss(Tensor(X), Tensor(targets), inputs, lengths, blank)


def test_logarithms_that_cannot_be_written_to():
    logs = np.log(np.full((3, 1, 2), 0.5))
    logs.flags.writeable = False
    given = Tensor(logs, requires_grad=True)
    loss = ctc_loss(given, plugrad.tensor([[1]]), plugrad.tensor([3]), plugrad.tensor([1]))
    loss.backward()
    np.testing.assert_allclose(loss.item(), -np.log(6 / 8), rtol=1e-12)
    np.testing.assert_allclose(given.grad.numpy().sum(), -3, rtol=1e-12)
