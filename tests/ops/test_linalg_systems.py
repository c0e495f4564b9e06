"""Inverses, systems, triangular systems, Cholesky and LU: values, stacks, large matrices, and matrices that fail."""

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, linalg
from plugrad_ops.linalg import blocks

RNG = np.random.default_rng(3)


def regular(*shape):
    return RNG.standard_normal(shape) + 3 * np.eye(shape[-1])


def definite(*shape):
    a = RNG.standard_normal(shape)
    return a @ a.swapaxes(-1, -2) + np.eye(shape[-1])


@pytest.mark.parametrize("batch", [(), (0,), (3,), (2, 3)])
def test_inverse_and_solution_undo_the_product(batch):
    a, b = regular(*batch, 4, 4), RNG.standard_normal((*batch, 4, 2))
    np.testing.assert_allclose(
        linalg.inv(Tensor(a)).array @ a, np.broadcast_to(np.eye(4), a.shape), atol=1e-12
    )
    np.testing.assert_allclose(a @ linalg.solve(Tensor(a), Tensor(b)).array, b, atol=1e-12)
    right = b.swapaxes(-1, -2)
    np.testing.assert_allclose(
        linalg.solve(Tensor(a), Tensor(right), left=False).array @ a, right, atol=1e-12
    )


def test_what_counts_as_a_vector():
    a, b = regular(3, 3, 3), RNG.standard_normal((3, 3))
    got = linalg.solve(Tensor(a), Tensor(b)).array  # one vector for each matrix
    np.testing.assert_allclose(np.einsum("bij,bj->bi", a, got), b, atol=1e-12)
    got = linalg.solve(Tensor(a[0]), Tensor(b)).array  # three right-hand sides
    np.testing.assert_allclose(a[0] @ got, b, atol=1e-12)
    assert linalg.solve(Tensor(a), Tensor(b[0])).shape == (3, 3)


@pytest.mark.parametrize("n", [1, 2, 47, 48, 49, 130])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems_of_every_size(n, upper, unit):
    a = 0.1 * RNG.standard_normal((2, n, n)) + 2 * np.eye(n)
    b = RNG.standard_normal((2, n, 3))
    triangle = np.triu(a) if upper else np.tril(a)
    if unit:
        triangle = triangle - triangle * np.eye(n) + np.eye(n)
    x = linalg.solve_triangular(Tensor(a), Tensor(b), upper=upper, unitriangular=unit).array
    np.testing.assert_allclose(triangle @ x, b, atol=1e-9)
    y = linalg.solve_triangular(
        Tensor(a), Tensor(b.swapaxes(1, 2).copy()), upper=upper, left=False, unitriangular=unit
    ).array
    np.testing.assert_allclose(y @ triangle, b.swapaxes(1, 2), atol=1e-9)


def test_a_zero_on_the_diagonal_of_a_triangle_makes_infinities():
    a = np.array([[0.0, 1.0], [0.0, 1.0]])
    x = linalg.solve_triangular(Tensor(a), Tensor(np.array([[2.0], [1.0]])), upper=True).array
    assert x.tolist() == [[np.inf], [1.0]]


@pytest.mark.parametrize(
    "shape", [(3, 3), (2, 5, 3), (2, 3, 5), (60, 60), (2, 70, 50), (50, 70), (0, 2), (2, 0)]
)
def test_lu_factors_multiply_to_the_matrix(shape):
    a = RNG.standard_normal(shape)
    p, lower, upper = (x.array for x in linalg.lu(Tensor(a)))
    np.testing.assert_allclose(p @ lower @ upper, a, atol=1e-10)
    np.testing.assert_array_equal(lower, np.tril(lower))
    np.testing.assert_array_equal(upper, np.triu(upper))
    assert np.abs(lower).max(initial=1) == 1  # pivots are the largest of their column
    if shape[-1] == shape[-2]:
        factors, pivots = linalg.lu_factor(Tensor(a))
        b = RNG.standard_normal((*shape[:-1], 2))
        np.testing.assert_allclose(
            a @ linalg.lu_solve(factors, pivots, Tensor(b)).array, b, atol=1e-9
        )
        turned = linalg.lu_solve(factors, pivots, Tensor(b), adjoint=True).array
        np.testing.assert_allclose(a.swapaxes(-1, -2) @ turned, b, atol=1e-9)


def test_panels_note_the_first_pivot_that_is_zero():
    a = np.eye(100)
    a[70, 70] = a[90, 90] = 0
    assert blocks.lu_factor(a)[2] == 71


def test_cholesky_factors_and_what_is_solved_with_them():
    a, b = definite(2, 4, 4), RNG.standard_normal((2, 4, 3))
    lower, upper = linalg.cholesky(Tensor(a)), linalg.cholesky(Tensor(a), upper=True)
    np.testing.assert_allclose(lower.array, np.linalg.cholesky(a))
    np.testing.assert_allclose(upper.array, np.linalg.cholesky(a).swapaxes(1, 2))
    for factor, flag in ((lower, False), (upper, True)):
        np.testing.assert_allclose(
            a @ plugrad.cholesky_solve(Tensor(b), factor, flag).array, b, atol=1e-10
        )
        np.testing.assert_allclose(
            plugrad.cholesky_inverse(factor, flag).array, np.linalg.inv(a), atol=1e-10
        )


def test_cholesky_takes_the_symmetric_part():
    a = np.array([[2.0, 1.0], [0.0, 2.0]])
    x = Tensor(a, requires_grad=True)
    out = linalg.cholesky(x)
    np.testing.assert_allclose(out.array, np.linalg.cholesky((a + a.T) / 2))
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.array, x.grad.array.T)


SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


@pytest.mark.parametrize(
    "name, call",
    [
        ("inv", lambda a: linalg.inv(a)),
        ("inv", lambda a: linalg.inv_ex(a, check_errors=True)),
        ("solve", lambda a: linalg.solve(a, plugrad.ones(2, 1, dtype=plugrad.float64))),
        (
            "solve",
            lambda a: linalg.solve_ex(
                a, plugrad.ones(2, 1, dtype=plugrad.float64), check_errors=True
            ),
        ),
        ("lu_factor", lambda a: linalg.lu_factor(a)),
        ("inv", lambda a: linalg.matrix_power(a, -2)),
    ],
)
def test_a_singular_matrix_is_named(name, call):
    with pytest.raises(
        linalg.LinAlgError, match=rf"linalg_{name}: the matrix is singular: its pivot 2"
    ):
        call(Tensor(SINGULAR))
    with pytest.raises(linalg.LinAlgError, match=rf"linalg_{name}: batch element 1: the matrix is"):
        call(Tensor(np.stack([np.eye(2), SINGULAR])))
    with pytest.raises(linalg.LinAlgError, match=r"batch element \(1, 0\)"):
        call(Tensor(np.stack([np.eye(2), SINGULAR])[:, None]))


def test_the_order_of_the_minor_that_is_not_positive_is_named():
    a = np.diag([1.0, 2.0, -1.0, 3.0])
    with pytest.raises(
        linalg.LinAlgError, match="not positive definite: its leading minor of order 3"
    ):
        linalg.cholesky(Tensor(a))
    factor, info = linalg.cholesky_ex(Tensor(np.stack([np.eye(4), a])))
    assert info.array.tolist() == [0, 3]
    np.testing.assert_array_equal(factor.array[0], np.eye(4))
    assert np.isnan(factor.array[1]).all()


def test_info_of_a_stack_in_which_some_are_singular():
    stack = Tensor(np.stack([2 * np.eye(2), SINGULAR]))
    found = linalg.inv_ex(stack)
    assert found.info.array.tolist() == [0, 2]
    np.testing.assert_array_equal(found.inverse.array[0], np.eye(2) / 2)
    assert np.isnan(found.inverse.array[1]).all()
    result, info = linalg.solve_ex(stack, Tensor(np.ones((3, 1, 2, 1))))
    assert (result.shape, info.array.tolist()) == ((3, 2, 2, 1), [0, 2])


def test_half_precision_is_computed_in_float32_and_rounded():
    a = definite(3, 3).astype(np.float16)
    for function in (linalg.inv, linalg.cholesky, linalg.det, linalg.pinv, linalg.svdvals):
        got = function(Tensor(a))
        wanted = function(Tensor(a.astype(np.float32))).array.astype(np.float16)
        assert got.dtype == np.float16
        np.testing.assert_array_equal(got.array, wanted)


def test_matrices_must_be_square():
    with pytest.raises(
        RuntimeError, match=r"linalg_inv: the matrices must be square, got shape \(2, 3\)"
    ):
        linalg.inv(plugrad.ones(2, 3))
    with pytest.raises(RuntimeError, match="linalg_det: expected a matrix"):
        linalg.det(plugrad.ones(2))
    with pytest.raises(RuntimeError, match=r"do not fit in A X = B"):
        linalg.solve(plugrad.eye(3), plugrad.ones(2, 2))


def test_least_squares_of_full_and_of_lower_rank():
    a, b = RNG.standard_normal((5, 3)), RNG.standard_normal((5, 2))
    wanted, residuals, rank, values = np.linalg.lstsq(a, b)
    got = linalg.lstsq(Tensor(a), Tensor(b), driver="gelsd")
    np.testing.assert_allclose(got.solution.array, wanted)
    np.testing.assert_allclose(got.residuals.array, residuals)
    np.testing.assert_allclose(got.singular_values.array, values)
    assert got.rank.item() == rank
    low = np.outer(a[:, 0], a[0])
    got = linalg.lstsq(Tensor(low), Tensor(b), driver="gelsd")
    np.testing.assert_allclose(got.solution.array, np.linalg.lstsq(low, b)[0], atol=1e-12)
    assert (got.residuals.shape, got.rank.item()) == ((0,), 1)


def test_tensors_as_linear_maps():
    a = RNG.standard_normal((2, 3, 6))
    b = RNG.standard_normal((2, 3))
    np.testing.assert_allclose(linalg.tensorinv(Tensor(a)).array, np.linalg.tensorinv(a))
    np.testing.assert_allclose(
        linalg.tensorsolve(Tensor(a), Tensor(b)).array, np.linalg.tensorsolve(a, b)
    )
