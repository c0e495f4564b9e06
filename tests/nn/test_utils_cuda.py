"""Clipping of gradients on a CUDA device: the CPU's numbers, and no way to overflow on the way to them."""

import math

import numpy as np
import pytest

import plugrad
from plugrad.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm

pytestmark = pytest.mark.usefixtures("cuda")

SHAPES = [(3, 4), (), (0, 2), (1000,)]


def draws(dtype, scale=1.0):
    print("seed 0")
    source = np.random.default_rng(0)
    found = []
    for shape in SHAPES:
        values = source.standard_normal(shape)
        if dtype.startswith("complex"):
            values = values + 1j * source.standard_normal(shape)
        found.append(np.asarray(values * scale).astype(dtype))
    return found


def with_grad(grad, device="cuda"):
    p = plugrad.tensor(np.zeros_like(grad), device=device, requires_grad=True)
    p.grad = plugrad.tensor(grad, device=device)
    return p


def host(tensor):
    return tensor.detach().cpu().numpy()


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        ("float16", 0.01),
        ("float32", 1.0),
        ("float32", 1e30),
        ("float32", 1e-40),
        ("float64", 1e280),
        ("float64", 1e-200),
        ("complex64", 1.0),
        ("complex128", 1e200),
    ],
)
def test_norms_are_those_of_the_cpu(p, dtype, scale):
    grads = draws(dtype, scale)
    expected = get_total_norm([plugrad.tensor(g) for g in grads], p)
    found = get_total_norm([plugrad.tensor(g, device="cuda") for g in grads], p)
    assert (found.device, found.dtype, found.shape) == ("cuda", expected.dtype, ())
    rtol = 1e-3 if dtype == "float16" else 1e-6
    np.testing.assert_allclose(host(found), expected.numpy(), rtol=rtol)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_gradients_are_scaled_in_place(dtype, max_norm):
    grads = draws(dtype)
    ours, theirs = [with_grad(g) for g in grads], [with_grad(g, "cpu") for g in grads]
    buffers = [p.grad.array for p in ours]
    norm, expected = clip_grad_norm_(ours, max_norm), clip_grad_norm_(theirs, max_norm)
    assert norm.item() == pytest.approx(expected.item(), rel=1e-6)
    for p, q, buffer in zip(ours, theirs, buffers):
        assert p.grad.array is buffer
        np.testing.assert_allclose(host(p.grad), q.grad.array, rtol=1e-6)


def test_a_factor_that_the_dtype_does_not_hold():
    p = with_grad(np.array([3e37, 0], "f4"))
    clip_grad_norm_(p, 1e-7)
    np.testing.assert_allclose(host(p.grad), [1e-7, 0], rtol=1e-5)


def test_norms_that_are_not_finite():
    for bad in (np.inf, np.nan):
        p = with_grad(np.array([bad, 1.0], "f4"))
        with pytest.raises(RuntimeError, match="not clipped"):
            clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
        assert host(p.grad)[1] == 1
        for norm_type in (1.0, 2.0, math.inf):
            assert not np.isfinite(get_total_norm([p.grad], norm_type).item())


def test_values_are_bounded_and_nan_stays():
    p = with_grad(np.array([-3, 0.5, 3, np.nan, np.inf, -np.inf], "f4"))
    clip_grad_value_([p], 1.0)
    np.testing.assert_equal(host(p.grad), np.array([-1, 0.5, 1, np.nan, 1, -1], "f4"))


def test_a_clipped_gradient_is_noticed():
    p = with_grad(np.array([3.0], "f4"))
    version = p.grad._version
    clip_grad_norm_(p, 1.0)
    clip_grad_value_(p, 0.5)
    assert p.grad._version == version + 2


def test_gradients_on_two_devices_have_one_norm():
    p, q = with_grad(np.array([3.0], "f4")), with_grad(np.array([4.0], "f4"), "cpu")
    norm = clip_grad_norm_([p, q], 1.0)
    assert (norm.device, norm.item()) == ("cuda", 5.0)
    assert host(p.grad)[0] == pytest.approx(0.6, rel=1e-5)
    assert q.grad.item() == pytest.approx(0.8, rel=1e-5)
