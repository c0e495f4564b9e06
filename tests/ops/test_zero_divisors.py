"""A zero that is divided by within a compiled loop gives infinity or NaN there, and the rest of the result is right."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_cross_entropy_of_a_row_without_finite_logits(dtype, reduction):
    x = np.array([[-np.inf] * 3, [0, 1, 2], [0, 0, 0]], dtype)
    a = plugrad.tensor(x, requires_grad=True)
    loss = F.cross_entropy(a, plugrad.tensor([1, 1, 2]), reduction=reduction)
    loss.backward(plugrad.ones_like(loss))
    soft = np.exp(x[1:]) / np.exp(x[1:]).sum(1, keepdims=True)
    soft[[0, 1], [1, 2]] -= 1
    assert np.isnan(a.grad.numpy()[0]).all()
    np.testing.assert_allclose(
        a.grad.numpy()[1:], soft / (3 if reduction == "mean" else 1), rtol=1e-5, atol=1e-6
    )
    if reduction == "none":
        assert np.isnan(loss.detach().numpy()[0]) and np.isfinite(loss.detach().numpy()[1:]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_layer_norm_of_a_constant_row_without_eps(dtype, weighted):
    x = plugrad.tensor(np.array([[1, 1, 1], [1, 2, 3], [4, 4, 4]], dtype), requires_grad=True)
    weight = plugrad.tensor(np.ones(3, dtype), requires_grad=True) if weighted else None
    out = F.layer_norm(x, (3,), weight, eps=0.0)
    root = 1.5**0.5
    expected = [[np.nan] * 3, [-root, 0, root], [np.nan] * 3]
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-6, atol=1e-6)
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[np.nan] * 3, [0, 0, 0], [np.nan] * 3], atol=1e-6)
    if weighted:
        assert np.isnan(weight.grad.numpy()).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_of_a_zero_row_without_eps(dtype):
    x = plugrad.tensor(np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2]], dtype), requires_grad=True)
    out = F.rms_norm(x, (3,), eps=0.0)
    np.testing.assert_allclose(out.detach().numpy(), [[np.nan] * 3, [1] * 3, [1] * 3], rtol=1e-6)
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[np.nan] * 3, [0] * 3, [0] * 3], atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_group_norm_of_a_constant_group_without_eps(dtype):
    x = np.array([[1, 1, 2, 3], [1, 2, 3, 5]], dtype).reshape(2, 4, 1)
    out = F.group_norm(plugrad.tensor(x), 2, eps=0.0).numpy().reshape(2, 4)
    np.testing.assert_allclose(out, [[np.nan, np.nan, -1, 1], [-1, 1, -1, 1]], rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batch_norm_of_a_channel_without_variance_or_eps(dtype):
    x = np.array([[1, 1], [2, 5]], dtype)
    mean, var = plugrad.tensor(np.zeros(2, dtype)), plugrad.tensor(np.array([0, 4], dtype))
    out = F.batch_norm(plugrad.tensor(x), mean, var, training=False, eps=0.0).numpy()
    assert not np.isfinite(out[:, 0]).any()
    np.testing.assert_allclose(out[:, 1], [0.5, 2.5])


@pytest.mark.parametrize("dtype", DTYPES)
def test_solve_of_a_singular_triangle_among_others(dtype):
    a = plugrad.tensor(np.array([[[0, 2], [0, 1]], [[1, 2], [0, 2]]], dtype))
    b = plugrad.tensor(np.ones((2, 2, 1), dtype))
    out = plugrad.linalg.solve_triangular(a, b, upper=True).numpy()
    assert np.isinf(out[0, 0, 0]) and out[0, 1, 0] == 1
    np.testing.assert_allclose(out[1, :, 0], [0, 0.5])


@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_of_a_singular_matrix_among_others(dtype):
    a = np.array([[[0, 0], [0, 0]], [[1, 2], [3, 4]]], dtype)
    lu = plugrad.linalg.lu_factor_ex(plugrad.tensor(a))[0].numpy()
    np.testing.assert_array_equal(lu[0], 0)
    np.testing.assert_allclose(lu[1], [[3, 4], [1 / 3, 2 / 3]], rtol=1e-6)
