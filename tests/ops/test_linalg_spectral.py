"""Eigenvalues, singular values, QR and determinants: values, and gradients where values are equal or a matrix is singular."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, linalg

RNG = np.random.default_rng(7)


def gradient(function, array):
    x = Tensor(np.asarray(array, dtype=np.float64), requires_grad=True)
    (found,) = plugrad.autograd.grad(function(x), [x])
    return found.array


@pytest.mark.parametrize("batch", [(), (0,), (2, 3)])
def test_eigenvectors_and_singular_vectors_rebuild_the_matrix(batch):
    a = RNG.standard_normal((*batch, 4, 4))
    a = a + a.swapaxes(-1, -2)
    values, vectors = (x.array for x in linalg.eigh(Tensor(a)))
    np.testing.assert_allclose(
        (vectors * values[..., None, :]) @ vectors.swapaxes(-1, -2), a, atol=1e-12
    )
    np.testing.assert_allclose(linalg.eigvalsh(Tensor(a)).array, np.linalg.eigvalsh(a))
    for m, n in ((5, 3), (3, 5), (3, 3)):
        b = RNG.standard_normal((*batch, m, n))
        for full in (True, False):
            u, s, vh = (x.array for x in linalg.svd(Tensor(b), full_matrices=full))
            k = min(m, n)
            assert (u.shape[-1], vh.shape[-2]) == ((m, n) if full else (k, k))
            np.testing.assert_allclose(
                (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], b, atol=1e-12
            )


def test_the_gradient_of_values_is_finite_where_they_are_equal():
    for function in (
        lambda x: (linalg.eigvalsh(x) ** 2).sum(),
        lambda x: (linalg.eigh(x).eigenvalues ** 2).sum(),
        lambda x: (linalg.svdvals(x) ** 2).sum(),
        lambda x: (linalg.svd(x).S ** 2).sum(),
    ):
        np.testing.assert_allclose(gradient(function, np.eye(3)), 2 * np.eye(3), atol=1e-14)


def test_a_vector_whose_value_is_not_repeated_has_a_gradient():
    a = np.diag([1.0, 2.0, 2.0])
    got = gradient(lambda x: (linalg.eigh(x).eigenvectors[:, 0] ** 3).sum().abs(), a)
    assert np.isfinite(got).all()
    got = gradient(lambda x: (linalg.eigh(x).eigenvectors ** 3).sum(), a)
    assert not np.isfinite(got).all()


def test_a_second_derivative_through_equal_values_is_not_made_up():
    x = Tensor(np.eye(2), requires_grad=True)
    (first,) = plugrad.autograd.grad((linalg.eigvalsh(x) ** 2).sum(), [x], create_graph=True)
    (second,) = plugrad.autograd.grad(first.sum(), [x])
    assert np.isnan(second.array).any()


def test_the_symmetric_part_counts_whatever_triangle_is_named():
    a = np.array([[1.0, 4.0], [0.0, 2.0]])
    wanted = np.linalg.eigvalsh((a + a.T) / 2)
    for name in ("L", "U"):
        np.testing.assert_allclose(linalg.eigvalsh(Tensor(a), name).array, wanted)
    with pytest.raises(ValueError, match="UPLO must be 'L' or 'U'"):
        linalg.eigh(Tensor(a), "lower")


def test_matrices_that_are_not_finite_are_named():
    broken = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    for function in (linalg.eigh, linalg.svd):
        with pytest.raises(
            linalg.LinAlgError, match="batch element 1: the iteration did not converge"
        ):
            function(Tensor(broken))


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3), (0, 3), (3, 0)])
def test_qr_in_every_mode(shape):
    a = RNG.standard_normal(shape)
    for mode in ("reduced", "complete"):
        q, r = (x.array for x in linalg.qr(Tensor(a), mode=mode))
        np.testing.assert_allclose(q @ r, a, atol=1e-12)
        eye = np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1]))
        np.testing.assert_allclose(q.swapaxes(-1, -2) @ q, eye, atol=1e-12)
    q, only = linalg.qr(Tensor(a), mode="r")
    assert q.shape == (0,)
    np.testing.assert_allclose(only.array, linalg.qr(Tensor(a)).R.array)


def test_what_of_qr_has_no_gradient_says_so():
    x = Tensor(RNG.standard_normal((3, 2)), requires_grad=True)
    with pytest.raises(RuntimeError, match="mode='complete' has no gradient for more rows"):
        linalg.qr(x, mode="complete").Q.sum().backward()
    with pytest.raises(RuntimeError, match="the gradient needs Q, which mode='r' leaves out"):
        linalg.qr(x, mode="r").R.sum().backward()


# ---- determinants --------------------------------------------------------------------------------------------


def cofactors(a):
    """By definition."""
    n = len(a)
    out = np.zeros_like(a)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(a, i, 0), j, 1)
            out[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return out


@pytest.mark.parametrize("rank", [4, 3, 2, 1, 0])
def test_the_gradient_of_a_determinant_is_its_cofactors_whatever_the_rank(rank):
    a = RNG.standard_normal((4, rank)) @ RNG.standard_normal((rank, 4))
    np.testing.assert_allclose(gradient(linalg.det, a), cofactors(a), atol=1e-12)


@pytest.mark.parametrize("rank", [3, 2, 1])
def test_the_second_derivative_of_a_determinant_too(rank):
    a = RNG.standard_normal((3, rank)) @ RNG.standard_normal((rank, 3))
    x = Tensor(a, requires_grad=True)
    weights = RNG.standard_normal((3, 3))
    (first,) = plugrad.autograd.grad(linalg.det(x), [x], create_graph=True)
    (second,) = plugrad.autograd.grad((first * Tensor(weights)).sum(), [x])
    step, wanted = 1e-6, np.zeros((3, 3))
    for at in np.ndindex(3, 3):
        shift = np.zeros((3, 3))
        shift[at] = step
        wanted[at] = (weights * (cofactors(a + shift) - cofactors(a - shift))).sum() / (2 * step)
    np.testing.assert_allclose(second.array, wanted, atol=1e-8)


def test_logarithms_of_determinants():
    a = np.stack([np.diag([2.0, 3.0]), np.diag([-2.0, 3.0]), np.zeros((2, 2))])
    found = linalg.slogdet(Tensor(a))
    np.testing.assert_array_equal(found.sign.array, [1.0, -1.0, 0.0])
    np.testing.assert_allclose(found.logabsdet.array, [math.log(6), math.log(6), -math.inf])
    np.testing.assert_array_equal(plugrad.logdet(Tensor(a)).array[1:], [np.nan, -np.inf])
    big = Tensor(1e100 * np.eye(8))  # the determinant itself overflows
    np.testing.assert_allclose(big.slogdet().logabsdet.array, 800 * math.log(10))


# ---- made of singular values ---------------------------------------------------------------------------------


def test_pseudoinverse_of_lower_rank_and_its_cutoffs():
    a = np.diag([2.0, 1e-3, 0.0])
    np.testing.assert_allclose(linalg.pinv(Tensor(a)).array, np.diag([0.5, 1e3, 0.0]))
    np.testing.assert_allclose(linalg.pinv(Tensor(a), rtol=1e-2).array, np.diag([0.5, 0.0, 0.0]))
    np.testing.assert_allclose(linalg.pinv(Tensor(a), atol=1e-4).array, np.diag([0.5, 1e3, 0.0]))
    assert linalg.matrix_rank(Tensor(a)).item() == 2
    assert linalg.matrix_rank(Tensor(a), atol=0.1).item() == 1
    cutoffs = Tensor(np.array([0.1, 1e-6]))
    assert linalg.matrix_rank(Tensor(np.stack([a, a])), atol=cutoffs).array.tolist() == [1, 2]
    assert linalg.pinv(plugrad.ones(0, 3)).shape == (3, 0)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_matrix_norms_as_numpy(order):
    a = RNG.standard_normal((2, 3, 4))
    got = linalg.matrix_norm(Tensor(a), order).array
    np.testing.assert_allclose(got, np.linalg.norm(a, order, axis=(1, 2)))
    got = linalg.matrix_norm(Tensor(a), order, (2, 0), keepdim=True).array
    np.testing.assert_allclose(got, np.linalg.norm(a, order, axis=(2, 0), keepdims=True))
    square = a[0, :, :3]
    np.testing.assert_allclose(
        linalg.cond(Tensor(square), order).array, np.linalg.cond(square, order)
    )


@pytest.mark.parametrize("order", ["fro", "nuc", 1, 2, math.inf])
def test_matrix_norms_of_zero_have_the_gradient_of_least_norm(order):
    got = gradient(lambda x: linalg.matrix_norm(x, order), np.zeros((2, 3)))
    np.testing.assert_array_equal(got, np.zeros((2, 3)))


def test_a_singular_matrix_has_infinite_condition():
    singular = Tensor(np.array([[1.0, 2.0], [2.0, 4.0]]))
    assert linalg.cond(singular, 1).item() == math.inf
    assert linalg.cond(singular).item() > 1e15


def test_norms_of_what_dim_names():
    a = RNG.standard_normal((3, 4))
    for args in ((), (None,), (2,), (1,), (3, 0), (math.inf, 1), ("fro", (0, 1)), (None, (0, 1))):
        np.testing.assert_allclose(linalg.norm(Tensor(a), *args).array, np.linalg.norm(a, *args))
    assert linalg.norm(Tensor(a), dtype=np.float32).dtype == np.float32
    with pytest.raises(RuntimeError, match="1 or 2 dimensions"):
        linalg.norm(plugrad.ones(2, 2, 2), 2)
    with pytest.raises(RuntimeError, match="needs an element"):
        linalg.matrix_norm(plugrad.ones(0, 2), -2)
