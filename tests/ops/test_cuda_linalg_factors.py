"""Kernels of factorisations on the emulated device: sizes around those of a block's threads, stacks, and what fails."""

import numpy as np
import pytest

import plugrad
from plugrad import linalg
from plugrad_ops.linalg import blocks

ERROR = {"float32": 2e-4, "float64": 1e-11}


@pytest.fixture
def factors(cuda):
    from plugrad_ops.linalg import factors_cuda

    return factors_cuda


def normal(*shape, dtype="float64"):
    return np.random.default_rng(list(shape)).standard_normal(shape).astype(dtype)


def up(array):
    return plugrad.tensor(array, device="cuda")


@pytest.mark.parametrize("dtype", ERROR)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3, 3), (2, 17, 9), (9, 17), (35, 35)])
def test_lu_and_qr_are_lapacks(factors, device, shape, dtype):
    a = normal(*shape, dtype=dtype)
    close = {"rtol": ERROR[dtype], "atol": ERROR[dtype]}
    wanted, pivots, _ = blocks.lu_factor(a)
    found, own, info = map(device.down, factors.lu_factor(device.up(a)))
    np.testing.assert_allclose(found, wanted, **close)
    np.testing.assert_array_equal(own, pivots + 1)
    assert not info.any()
    for mode in ("reduced", "complete"):
        q, r = map(device.down, factors.qr(device.up(a), mode=mode))
        wanted = np.linalg.qr(a, mode=mode)
        np.testing.assert_allclose(q, wanted[0], **close)  # the signs, too
        np.testing.assert_allclose(r, wanted[1], **close)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
def test_triangular_systems_of_strided_matrices(factors, device, left, upper):
    a = (normal(2, 20, 20) + 6 * np.eye(20)).swapaxes(1, 2)
    b = normal(2, 20, 4) if left else normal(2, 4, 20)
    for matrix in (a, a[0]):
        x = device.run(factors.solve_triangular, matrix, b, upper=upper, left=left)
        triangle = np.triu(matrix) if upper else np.tril(matrix)
        np.testing.assert_allclose(triangle @ x if left else x @ triangle, b, atol=1e-11)


def test_many_systems_take_a_thread_each(factors, device, monkeypatch):
    monkeypatch.setattr(factors, "MANY", 1)
    a, b = normal(3, 5, 5) + 3 * np.eye(5), normal(3, 5, 4)
    x = device.run(factors.solve_triangular, a, b, upper=False)
    np.testing.assert_allclose(np.tril(a) @ x, b, atol=1e-12)


@pytest.mark.parametrize("dtype", ERROR)
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_rotations_find_the_values_and_orthonormal_vectors(cuda, n, dtype):
    a = normal(2, n, n, dtype=dtype)
    symmetric = a + a.swapaxes(1, 2)
    close = {"rtol": ERROR[dtype], "atol": 20 * ERROR[dtype]}
    values, vectors = (x.to("cpu").array for x in linalg.eigh(up(symmetric)))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(symmetric), **close)
    np.testing.assert_allclose(
        (vectors * values[:, None]) @ vectors.swapaxes(1, 2), symmetric, **close
    )
    u, s, vh = (x.to("cpu").array for x in linalg.svd(up(a)))
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), **close)
    np.testing.assert_allclose((u * s[:, None]) @ vh, a, **close)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("full", [True, False])
def test_singular_vectors_are_orthonormal_whatever_the_rank(cuda, shape, full):
    for a in (np.ones(shape), np.zeros(shape), np.eye(*shape)):
        u, s, vh = (x.to("cpu").array for x in linalg.svd(up(a), full_matrices=full))
        k = min(shape)
        np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), atol=1e-13)
        np.testing.assert_allclose(vh @ vh.T, np.eye(len(vh)), atol=1e-13)
        np.testing.assert_allclose((u[:, :k] * s) @ vh[:k], a, atol=1e-13)


def test_large_and_small_elements_do_not_leave_the_range(cuda):
    for scale in (1e200, 1e-200):
        a = scale * np.array([[2.0, 1.0], [1.0, 3.0]])
        for function in (linalg.eigvalsh, linalg.svdvals):
            np.testing.assert_allclose(
                function(up(a)).to("cpu").array, function(plugrad.tensor(a)).array
            )
        r = linalg.qr(up(a)).R.to("cpu").array
        np.testing.assert_allclose(r, np.linalg.qr(a)[1], rtol=1e-12, atol=1e-14 * scale)


def test_what_fails_is_named_as_on_the_cpu(cuda):
    singular = np.stack([np.eye(2), [[1.0, 2.0], [2.0, 4.0]]])
    indefinite = np.diag([1.0, 1.0, -1.0])
    broken = np.array([[np.nan, 1.0], [1.0, 2.0]])
    for function, a in (
        (linalg.inv, singular),
        (linalg.lu_factor, singular),
        (linalg.cholesky, indefinite),
        (linalg.eigh, broken),
        (linalg.svd, np.full((2, 2), np.inf)),
    ):
        said = []
        for tensor in (plugrad.tensor(a), up(a)):
            with pytest.raises(linalg.LinAlgError) as error:
                function(tensor)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_an_iteration_that_wanders_over_a_large_matrix_ends(cuda):
    a = normal(40, 40, dtype="float32")
    s = linalg.svdvals(up(a)).to("cpu").array
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), rtol=1e-4)
