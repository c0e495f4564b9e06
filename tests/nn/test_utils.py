"""Clipping of gradients."""

import math

import numpy as np
import pytest

import plugrad
from plugrad.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm


def with_grad(grad, dtype=np.float64):
    grad = np.asarray(grad, dtype)
    p = plugrad.Tensor(np.zeros_like(grad), requires_grad=True)
    p.grad = plugrad.Tensor(grad.copy())
    return p


def test_the_norm_is_that_of_all_gradients_together():
    a, b, none = with_grad([3.0]), with_grad([[4.0]]), plugrad.ones(1, requires_grad=True)
    assert clip_grad_norm_([a, none, b], 1.0).item() == pytest.approx(5.0)
    assert a.grad.item() == pytest.approx(0.6, rel=1e-6)
    assert b.grad.item() == pytest.approx(0.8, rel=1e-6)


def test_a_norm_below_the_bound_changes_nothing():
    p = with_grad([3.0, 4.0])
    clip_grad_norm_(p, 6.0)
    assert p.grad.tolist() == [3, 4]


def test_nothing_to_clip():
    assert clip_grad_norm_([], 1.0).item() == 0
    assert clip_grad_norm_([with_grad(np.zeros((0, 2)))], 1.0).item() == 0
    p = with_grad([0.0, 0.0])
    assert clip_grad_norm_([p], 1.0).item() == 0
    assert p.grad.tolist() == [0, 0]


@pytest.mark.parametrize("norm_type", [0.5, 1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_as_pytorch(norm_type, dtype):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    grads = [rng.standard_normal(shape).astype(dtype) for shape in ((3, 4), (5,), ())]
    ours = [with_grad(g, dtype) for g in grads]
    theirs = []
    for g in grads:
        p = torch.zeros(g.shape, dtype=getattr(torch, dtype), requires_grad=True)
        p.grad = torch.tensor(g)
        theirs.append(p)
    found = clip_grad_norm_(ours, 1.5, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(theirs, 1.5, norm_type)
    assert found.dtype == np.dtype(dtype)
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    for p, q in zip(ours, theirs):
        np.testing.assert_allclose(p.grad.array, q.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "size"), [("float16", 6e4), ("float32", 3e38), ("float64", 1e300)]
)
def test_squares_do_not_overflow(dtype, size):
    a, b = with_grad([size], dtype), with_grad([size], dtype)
    clip_grad_norm_([a, b], size)
    assert a.grad.item() / size == pytest.approx(math.sqrt(0.5), rel=1e-3)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e-30), ("float64", 1e-200)])
def test_squares_do_not_vanish(dtype, size):
    norm = get_total_norm([with_grad([size, size], dtype).grad]).item()
    assert norm == pytest.approx(math.sqrt(2) * size, rel=1e-6, abs=0)


def test_values_are_clipped_in_place():
    p = with_grad([-3.0, 0.5, 3.0])
    buffer = p.grad.array
    clip_grad_value_([p], 1.0)
    assert p.grad.array is buffer
    assert p.grad.tolist() == [-1, 0.5, 1]


def test_a_saved_gradient_is_found_changed():
    p = plugrad.ones(2, requires_grad=True)
    (p * p * p).sum().backward(create_graph=True)
    again = (p.grad * p.grad).sum()
    clip_grad_norm_([p], 0.1)
    with pytest.raises(RuntimeError, match="in-place"):
        again.backward()
    p.grad = None


def test_a_total_norm_that_is_not_finite():
    with pytest.raises(RuntimeError, match="inf"):
        get_total_norm([plugrad.tensor([math.inf])], error_if_nonfinite=True)
