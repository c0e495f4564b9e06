"""Reductions against NumPy in float64; gradients at ties, zeros and infinities; what bad input says."""

import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, ops

FLOATS = st.floats(-50.0, 50.0, allow_subnormal=False)


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def grad(out, *leaves, seed=None):
    seed = None if seed is None else Tensor(np.array(seed, dtype=out.dtype))
    found = plugrad.autograd.grad(out, leaves, seed)
    return found[0].array if len(leaves) == 1 else [g.array for g in found]


def hessian(function, x):
    """Second derivatives of a scalar function at the leaf `x`, row by row."""
    (first,) = plugrad.autograd.grad(function(x), [x], create_graph=True)
    rows = [plugrad.autograd.grad(g, [x], retain_graph=True)[0].array for g in first.reshape(-1)]
    return np.array(rows)


@st.composite
def reductions(draw, min_side=0):
    """An array, dims given in any of the ways there are, the axes NumPy takes for them, and keepdim."""
    array = draw(
        hnp.arrays(
            np.float64, hnp.array_shapes(min_dims=0, max_dims=4, min_side=min_side, max_side=4), elements=FLOATS
        )
    )  # fmt: skip
    axes = draw(st.sets(st.integers(0, array.ndim - 1))) if array.ndim else set()
    keepdim = draw(st.booleans())
    if not axes:
        return array, draw(st.sampled_from([None, ()])), tuple(range(array.ndim)), keepdim
    dim = tuple(axis - draw(st.sampled_from([0, array.ndim])) for axis in axes)
    if len(dim) == 1 and draw(st.booleans()):
        dim = dim[0]
    return array, dim, tuple(axes), keepdim


# ------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sum", np.sum), ("prod", np.prod), ("mean", np.mean), ("all", np.all), ("any", np.any)],
)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_values(name, expected, data):
    array, dim, axes, keepdim = data.draw(reductions(min_side=1 if name == "mean" else 0))
    out = getattr(ops, name)(Tensor(array), dim=dim, keepdim=keepdim)
    wanted = expected(array, axis=axes, keepdims=keepdim)
    assert out.shape == wanted.shape
    np.testing.assert_allclose(out.array, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "expected"), [("amax", np.max), ("amin", np.min)])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_extremes(name, expected, data):
    array, dim, axes, keepdim = data.draw(reductions(min_side=1))
    out = getattr(ops, name)(Tensor(array), dim=dim, keepdim=keepdim)
    np.testing.assert_array_equal(out.array, expected(array, axis=axes, keepdims=keepdim))


@pytest.mark.parametrize(("name", "expected"), [("var", np.var), ("std", np.std)])
@given(data=st.data(), correction=st.sampled_from([0, 1, 0.5]))
@settings(max_examples=40, deadline=None)
def test_variance(name, expected, data, correction):
    array, dim, axes, keepdim = data.draw(reductions(min_side=2))
    if array.ndim == 0:
        return
    out = getattr(ops, name)(Tensor(array), dim=dim, keepdim=keepdim, correction=correction)
    wanted = expected(array, axis=axes, keepdims=keepdim, ddof=correction)
    np.testing.assert_allclose(out.array, wanted, rtol=1e-9, atol=1e-9)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_logsumexp(data):
    array, dim, axes, keepdim = data.draw(reductions(min_side=1))
    out = ops.logsumexp(Tensor(array), dim=dim, keepdim=keepdim)
    wanted = np.log(np.sum(np.exp(array), axis=axes, keepdims=keepdim))
    np.testing.assert_allclose(out.array, wanted, rtol=1e-12, atol=1e-12)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_sum_to_undoes_broadcasting(data):
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=1, base_shape=(2, 3, 4), max_dims=3)
    )
    (small,) = shapes.input_shapes
    array = np.arange(24.0).reshape(2, 3, 4)
    out = ops.sum_to(Tensor(array), shape=small)
    extra = 3 - len(small)
    axes = tuple(range(extra)) + tuple(
        extra + i for i, n in enumerate(small) if n == 1 and (2, 3, 4)[extra + i] != 1
    )
    np.testing.assert_allclose(out.array, array.sum(axis=axes).reshape(small))


@pytest.mark.parametrize("dim", [0, -1, 1])
def test_positions_are_those_of_numpy(dim):
    array = np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 2.0]])
    for name in ("argmax", "argmin"):
        numpy_find = getattr(np, name)
        out = getattr(ops, name)(Tensor(array), dim=dim)
        np.testing.assert_array_equal(out.array, numpy_find(array, axis=dim))
        assert out.dtype == np.int64
        kept = getattr(ops, name)(Tensor(array), dim=dim, keepdim=True)
        assert kept.shape == np.expand_dims(numpy_find(array, axis=dim), dim).shape


def test_argmax_of_everything_and_of_a_scalar():
    assert ops.argmax(Tensor(np.array([[1.0, 5.0], [7.0, 2.0]]))).item() == 2
    assert ops.argmax(Tensor(np.array(3.0)), dim=0).shape == ()


def test_cumsum():
    array = np.arange(6.0).reshape(2, 3)
    for dim in (0, 1, -1):
        np.testing.assert_array_equal(ops.cumsum(Tensor(array), dim=dim).array, array.cumsum(dim))
    assert ops.cumsum(Tensor(np.array(3.0)), dim=0).item() == 3.0
    x = leaf([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(
        grad(ops.cumsum(x, dim=0), x, seed=[1.0, 10.0, 100.0]), [111, 110, 100]
    )


# ------------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
def test_integers_are_summed_in_int64(name, dtype):
    x = Tensor(np.array([1, 1, 0], dtype))
    out = ops.cumsum(x, dim=0) if name == "cumsum" else getattr(ops, name)(x)
    assert out.dtype == np.int64


def test_dtype_of_the_sum_may_be_chosen():
    x = leaf([1.0, 2.0], np.float32)
    out = ops.sum(x, dtype=np.float64)
    assert out.dtype == np.float64
    assert grad(out, x).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std", "amax", "logsumexp"])
def test_floating_dtypes_are_kept(name, dtype):
    x = leaf([[0.5, 1.5], [2.0, 1.0]], dtype)
    out = getattr(ops, name)(x, dim=1)
    assert out.dtype == dtype
    assert grad(ops.sum(out), x).dtype == dtype


def test_float16_is_summed_in_float32():
    ones = Tensor(np.ones(4096, np.float16))
    assert ops.sum(ones).item() == 4096.0  # float16 would stop at 2048
    assert ops.mean(Tensor(np.full((4096, 2), 100.0, np.float16)), dim=0).tolist() == [100.0, 100.0]


# ----------------------------------------------------------------------------------- gradients


def test_gradient_of_sum_and_mean_has_the_shape_of_the_input():
    x = leaf(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(grad(x.sum(), x), np.ones((2, 3)))
    np.testing.assert_array_equal(grad(x.sum(0), x, seed=[1, 2, 3]), [[1, 2, 3]] * 2)
    np.testing.assert_allclose(grad(x.mean(dim=-1), x, seed=[3, 6]), [[1] * 3, [2] * 3])
    kept = x.mean(dim=1, keepdim=True)
    np.testing.assert_allclose(grad(kept, x, seed=[[3], [6]]), [[1] * 3, [2] * 3])


def test_gradient_of_an_empty_sum():
    a, b = leaf(np.zeros((0, 3))), leaf([1.0, 2.0, 3.0])
    total = (a * b).sum()
    assert total.item() == 0.0
    grad_a, grad_b = grad(total, a, b)
    assert grad_a.shape == (0, 3)
    np.testing.assert_array_equal(grad_b, [0, 0, 0])


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        (lambda x: x.max(), [1, 3, 3, 2, 3], [0, 1 / 3, 1 / 3, 0, 1 / 3]),
        (lambda x: ops.amax(x), [1, 3, 3, 2, 3], [0, 1 / 3, 1 / 3, 0, 1 / 3]),
        (lambda x: x.min(), [1, 1, 3], [0.5, 0.5, 0]),
        (lambda x: ops.amin(x), [1, 1, 3], [0.5, 0.5, 0]),
    ],
)
def test_ties_share_the_gradient(function, values, expected):
    x = leaf(values)
    np.testing.assert_allclose(grad(function(x), x), expected, rtol=1e-15)


def test_max_along_a_dimension_has_one_index():
    x = leaf([1, 3, 3, 2, 3])
    values, indices = x.max(dim=0)
    assert (values.item(), indices.item()) == (3.0, 1)
    np.testing.assert_array_equal(grad(values, x), [0, 1, 0, 0, 0])
    found = leaf([[1, 5], [4, 2]]).max(1, keepdim=True)
    assert found.values.tolist() == [[5.0], [4.0]]
    assert found.indices.tolist() == [[1], [0]]
    assert found.indices.dtype == np.int64
    assert not found.indices.requires_grad


def test_max_of_two_tensors_is_maximum():
    a, b = Tensor(np.array([1.0, 5.0])), Tensor(np.array([3.0, 2.0]))
    assert ops.max(a, b).tolist() == ops.max(a, other=b).tolist() == [3.0, 5.0]
    assert ops.min(a, b).tolist() == [1.0, 2.0]


def test_max_of_a_scalar_along_its_dimension():
    x = leaf(2.0)
    values, indices = x.max(0)
    assert values.shape == indices.shape == ()
    assert grad(values, x) == 1.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [([2.0, 3.0, 4.0], [12, 8, 6]), ([2.0, 0.0, 4.0], [0, 8, 0]), ([0.0, 3.0, 0.0], [0, 0, 0])],
)
def test_gradient_of_prod_with_zeros(values, expected):
    x = leaf(values)
    np.testing.assert_array_equal(grad(x.prod(), x), expected)


def test_hessian_of_prod_with_zeros():
    expected = np.zeros((4, 4))
    expected[2, 3] = expected[3, 2] = 6
    np.testing.assert_array_equal(hessian(ops.prod, leaf([2, 3, 0, 0])), expected)
    np.testing.assert_array_equal(
        hessian(ops.prod, leaf([2, 0, 4])), [[0, 4, 0], [4, 0, 2], [0, 2, 0]]
    )


def test_prod_that_underflows_has_a_gradient():
    x = leaf([1e-200, 1e-200, 1e200])
    np.testing.assert_allclose(grad(x.prod(), x), [1, 1, 0], rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "value", "expected"),
    [
        ([-math.inf, -math.inf], -math.inf, [0, 0]),
        ([math.inf, 0.0], math.inf, [1, 0]),
        ([math.inf, math.inf], math.inf, [0.5, 0.5]),
        ([0.0, -math.inf], 0.0, [1, 0]),
        ([1000.0, 1000.0], 1000.0 + math.log(2), [0.5, 0.5]),
    ],
)
def test_logsumexp_at_infinity(values, value, expected):
    x = leaf(values)
    out = ops.logsumexp(x, dim=0)
    assert out.item() == value
    np.testing.assert_allclose(grad(out, x), expected, rtol=1e-12)
    assert np.isfinite(hessian(lambda t: ops.logsumexp(t, dim=0), x)).all()


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, math.inf, -math.inf])
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_norm(p, data):
    array, dim, axes, keepdim = data.draw(reductions(min_side=1))
    out = ops.norm(Tensor(array), p=p, dim=dim, keepdim=keepdim)
    flat = np.moveaxis(array, axes, range(array.ndim - len(axes), array.ndim))
    flat = flat.reshape(*flat.shape[: array.ndim - len(axes)], -1)
    wanted = np.linalg.norm(flat, ord=p, axis=-1)
    np.testing.assert_allclose(out.array, wanted.reshape(out.shape), rtol=1e-9, atol=1e-12)
    assert out.shape == np.sum(array, axis=axes, keepdims=keepdim).shape


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, math.inf])
def test_norm_at_the_zero_vector(p):
    x = leaf([0.0, 0.0])
    out = ops.norm(x, p=p)
    assert out.item() == 0
    np.testing.assert_array_equal(grad(out, x), [0, 0])


def test_hessian_of_the_euclidean_norm():
    np.testing.assert_array_equal(hessian(ops.norm, leaf([0.0, 0.0])), np.zeros((2, 2)))
    np.testing.assert_allclose(
        hessian(ops.norm, leaf([3.0, 4.0])), [[0.128, -0.096], [-0.096, 0.072]], rtol=1e-12
    )


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_norm_of_what_has_no_square(scale):
    x = leaf([3 * scale, -4 * scale])
    out = ops.norm(x)
    assert out.item() == pytest.approx(5 * scale, rel=1e-15)
    np.testing.assert_allclose(grad(out, x), [0.6, -0.8])


def test_normalize_at_the_zero_vector():
    x = leaf([0.0, 0.0])
    out = ops.normalize(x, dim=0)
    np.testing.assert_array_equal(out.array, [0, 0])
    np.testing.assert_array_equal(grad(out[0], x), [0, 0])
    np.testing.assert_allclose(ops.normalize(leaf([3.0, 4.0]), dim=0).array, [0.6, 0.8])


@pytest.mark.parametrize(
    ("values", "seed", "expected"),
    [
        ([2, 0, 3, 4], [1, 1, 1, 1], [1, 32, 0, 0]),
        ([2, 0, 3, 4], [1, 10, 100, 1000], [1, 24620, 0, 0]),
        ([2, 0, 3, 0, 5], [1, 1, 1, 1, 1], [1, 8, 0, 0, 0]),
    ],
)
def test_gradient_of_cumprod_with_zeros(values, seed, expected):
    x = leaf(values)
    out = x.cumprod(0)
    np.testing.assert_array_equal(out.array, np.cumprod(values))
    np.testing.assert_array_equal(grad(out, x, seed=seed), expected)


def test_median_is_the_lower_middle_and_shares_ties():
    x = leaf([1, 2, 2, 3])
    assert x.median().item() == 2
    np.testing.assert_array_equal(grad(x.median(), x), [0, 0.5, 0.5, 0])
    assert math.isnan(Tensor(np.array([1.0, math.nan])).median().item())


def test_std_of_equal_elements_has_a_zero_gradient_of_any_order():
    x = leaf([3.0, 3.0, 3.0])
    np.testing.assert_array_equal(grad(x.std(), x), [0, 0, 0])
    assert np.isfinite(hessian(ops.std, x)).all()


def test_var_takes_unbiased_like_pytorch():
    x = Tensor(np.array([1.0, 2.0, 4.0]))
    assert x.var(unbiased=False).item() == pytest.approx(np.var([1, 2, 4]))
    assert x.var(False).item() == x.var(correction=0).item()
    assert x.var(0, True).item() == x.var().item() == pytest.approx(np.var([1, 2, 4], ddof=1))


def test_var_of_one_element_is_nan_without_a_warning():
    assert math.isnan(Tensor(np.array([3.0])).var().item())
    assert math.isnan(Tensor(np.zeros(0)).mean().item())


def test_var_far_from_zero_keeps_its_digits():
    x = Tensor(np.array([1e8, 1e8 + 1, 1e8 + 2]))
    assert x.var().item() == pytest.approx(1.0, rel=1e-9)


# ------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "argmax", "var", "all", "cumsum"])
def test_dimension_out_of_range(name):
    with pytest.raises(IndexError, match=rf"{name}: dimension out of range.*2 dimensions.*got 2"):
        getattr(ops, name)(Tensor(np.ones((2, 3))), dim=2)


def test_dimension_given_twice():
    with pytest.raises(RuntimeError, match="sum: a dimension appears twice"):
        ops.sum(Tensor(np.ones((2, 3))), dim=(0, -2))


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin", "max", "min"])
def test_extreme_of_nothing(name):
    with pytest.raises(RuntimeError, match=r"shape \(0, 3\) has no elements"):
        getattr(ops, name)(Tensor(np.ones((0, 3))), dim=0)


def test_mean_of_integers():
    with pytest.raises(TypeError, match="mean"):
        ops.mean(Tensor(np.array([1, 2])))


def test_sum_to_a_shape_that_does_not_fit():
    with pytest.raises(RuntimeError, match=r"sum_to: shape \(2, 3\) is no broadcast of \(2,\)"):
        ops.sum_to(Tensor(np.ones((2, 3))), shape=(2,))
