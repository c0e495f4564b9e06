"""Products over chosen dimensions, added to tensors and of many matrices, against NumPy."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, ops
from plugrad_ops.linalg.functions import _cheapest

RNG = np.random.default_rng(11)


def normal(*shape):
    return RNG.standard_normal(shape)


@pytest.mark.parametrize("dims", [0, 1, 2, ([0], [1]), ([1, -1], [0, 1])])
def test_tensordot_as_numpy(dims):
    a, b = normal(3, 2, 4), normal(2, 4, 3)
    if dims == 1:
        b = normal(4, 5)
    if dims == ([0], [1]):
        b = normal(2, 3)
    got = plugrad.tensordot(Tensor(a), Tensor(b), dims=dims)
    np.testing.assert_allclose(got.array, np.tensordot(a, b, axes=dims), rtol=1e-12)


def test_tensordot_broadcasts_a_length_of_one():
    a, b = normal(2, 1), normal(3, 4)
    got = plugrad.tensordot(Tensor(a), Tensor(b), dims=([1], [0]))
    np.testing.assert_allclose(got.array, a * b.sum(0), rtol=1e-12)


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3, 2)), ((2,), (2, 3)), ((1, 2, 2), (3, 1)), ((), (2,))]
)
def test_kron_as_numpy(shapes):
    a, b = (normal(*shape) for shape in shapes)
    np.testing.assert_allclose(plugrad.kron(Tensor(a), Tensor(b)).array, np.kron(a, b))


def test_inner_and_outer_products():
    a, b = normal(2, 3), normal(4, 3)
    np.testing.assert_allclose(plugrad.inner(Tensor(a), Tensor(b)).array, np.inner(a, b))
    np.testing.assert_allclose(
        plugrad.outer(Tensor(a[0]), Tensor(b[0])).array, np.outer(a[0], b[0])
    )
    np.testing.assert_allclose(Tensor(a[0]).ger(Tensor(b[0])).array, np.outer(a[0], b[0]))
    np.testing.assert_allclose(plugrad.vdot(Tensor(a[0]), Tensor(b[0])).array, a[0] @ b[0])


def test_cross_takes_the_first_dimension_of_length_three():
    a, b = normal(3, 3, 2), normal(3, 3, 2)
    np.testing.assert_allclose(plugrad.cross(Tensor(a), Tensor(b)).array, np.cross(a, b, axis=0))
    np.testing.assert_allclose(
        plugrad.linalg.cross(Tensor(a), Tensor(b), dim=1).array, np.cross(a, b, axis=1)
    )


def test_the_tensor_added_to_a_product_is_not_read_where_beta_is_zero():
    nothing = Tensor(np.full((2, 2), np.nan))
    a, b = normal(2, 3), normal(3, 2)
    got = plugrad.addmm(nothing, Tensor(a), Tensor(b), beta=0, alpha=2)
    np.testing.assert_allclose(got.array, 2 * a @ b)


def test_added_products_scale_both_terms():
    c, a, b = normal(2, 4), normal(5, 2, 3), normal(5, 3, 4)
    c_, a_, b_ = map(Tensor, (c, a, b))
    np.testing.assert_allclose(
        plugrad.addbmm(c_, a_, b_, beta=2, alpha=3).array, 2 * c + 3 * (a @ b).sum(0)
    )
    np.testing.assert_allclose(
        plugrad.baddbmm(c_, a_, b_, beta=2, alpha=3).array, 2 * c + 3 * (a @ b)
    )
    np.testing.assert_allclose(
        plugrad.addmv(c_[:, 0], a_[0], b_[0, :, 0]).array, c[:, 0] + a[0] @ b[0, :, 0]
    )
    np.testing.assert_allclose(
        plugrad.addr(c_, a_[0, :, 0], b_[0, 0]).array, c + np.outer(a[0, :, 0], b[0, 0])
    )


def test_a_tensor_larger_than_the_product_is_refused():
    with pytest.raises(RuntimeError, match="addmm: input must broadcast to the product"):
        plugrad.addmm(plugrad.ones(2, 2, 2), plugrad.ones(2, 3), plugrad.ones(3, 2))


def test_the_order_of_many_products_is_the_cheapest():
    cut = _cheapest((30, 35, 15, 5, 10, 20, 25))  # the textbook's: ((A1 (A2 A3)) ((A4 A5) A6))
    assert (cut[0][5], cut[0][2], cut[3][5]) == (2, 0, 4)
    matrices = [normal(2, 5), normal(5, 3), normal(3, 4), normal(4, 2)]
    got = plugrad.linalg.multi_dot([Tensor(m) for m in matrices])
    np.testing.assert_allclose(got.array, np.linalg.multi_dot(matrices))
    ends = [normal(5), normal(5, 3), normal(3)]
    assert plugrad.linalg.multi_dot([Tensor(m) for m in ends]).shape == ()


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 7])
def test_matrix_power_as_numpy(n):
    a = normal(2, 3, 3) + 3 * np.eye(3)
    got = Tensor(a).matrix_power(n)
    np.testing.assert_allclose(got.array, np.linalg.matrix_power(a, n), rtol=1e-10)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 30.0])
def test_matrix_exp_of_rotations(scale):
    turn = scale * np.array([[0.0, -1.0], [1.0, 0.0]])
    got = plugrad.matrix_exp(Tensor(np.stack([turn, np.zeros((2, 2))]))).array
    c, s = math.cos(scale), math.sin(scale)
    np.testing.assert_allclose(got[0], [[c, -s], [s, c]], atol=1e-13)
    np.testing.assert_array_equal(got[1], np.eye(2))


def test_matrix_exp_in_lower_precision_and_of_infinities():
    for dtype, error in ((np.float32, 1e-5), (np.float16, 1e-2)):
        got = plugrad.matrix_exp(Tensor(np.diag([1.0, 2.0]).astype(dtype)))
        assert got.dtype == dtype
        np.testing.assert_allclose(got.array, np.diag(np.exp([1.0, 2.0])), rtol=error)
    assert np.isnan(plugrad.matrix_exp(Tensor(np.full((2, 2), np.inf))).array).any()


def test_vander_at_zero_has_the_gradient_of_a_polynomial():
    x = Tensor(np.array([0.0, 2.0]), requires_grad=True)
    out = plugrad.linalg.vander(x, N=4)
    np.testing.assert_array_equal(out.array, [[1, 0, 0, 0], [1, 2, 4, 8]])
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.array, [1.0, 1 + 4 + 12])


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("addmm", ((2,), (2, 3), (3, 2))),
        ("addmv", ((2,), (2, 3), (3,))),
        ("addr", ((2, 3), (2,), (3,))),
        ("baddbmm", ((2, 2, 2), (2, 2, 3), (2, 3, 2))),
        ("addbmm", ((2, 2), (2, 2, 3), (2, 3, 2))),
    ],
)
def test_the_tensor_added_with_beta_zero_has_a_gradient_of_zeros(name, shapes):
    a = Tensor(np.full(shapes[0], np.nan), requires_grad=True)
    b, c = (Tensor(normal(*shape)) for shape in shapes[1:])
    out = getattr(ops, name)(a, b, c, beta=0)
    out.sum().backward()
    assert np.isfinite(out.detach().numpy()).all()
    np.testing.assert_array_equal(a.grad.numpy(), np.zeros(shapes[0]))
    whole = [Tensor(np.ones(shape, np.int64)) for shape in shapes]
    assert getattr(ops, name)(*whole, beta=0).dtype == np.int64
