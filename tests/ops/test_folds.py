"""Compiled reductions and their gradients, in any layout: against NumPy in float64, and against the recorded rules."""

import itertools
import math

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, get_num_threads, ops, set_num_threads

INF, NAN = math.inf, math.nan

REFERENCES = {
    "sum": np.sum,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
    "prod": np.prod,
    "var": lambda x, **options: np.var(x, ddof=1, **options),
    "std": lambda x, **options: np.std(x, ddof=1, **options),
    "norm": lambda x, **options: np.sqrt(np.sum(x * x, **options)),
}
SHAPES = [(9,), (40,), (3000,), (7, 9), (100, 70), (3, 2000), (2000, 3), (4, 5, 6), (5, 1, 7)]


def layouts(x):
    yield x
    yield np.asfortranarray(x)
    yield x[::-1]
    yield np.repeat(x, 2, axis=-1)[..., ::2]


def dims_of(x):
    several = (itertools.combinations(range(x.ndim), n) for n in range(1, x.ndim + 1))
    return [None, *itertools.chain.from_iterable(several)]


def backward_of(name, x, dim=None, seed=0, **options):
    """The result, its gradient on arrays, and that of the rule."""
    leaf = plugrad.from_numpy(x).requires_grad_()
    out = getattr(ops, name)(leaf, dim=dim, **options)
    grad = Tensor(np.random.default_rng(seed).standard_normal(out.shape).astype(x.dtype))
    (fused,) = plugrad.autograd.grad(out, [leaf], grad, retain_graph=True)
    (recorded,) = plugrad.autograd.grad(out, [leaf], grad, create_graph=True)
    return out.detach().numpy(), fused.numpy(), recorded.detach().numpy()


@pytest.fixture
def threads():
    before = get_num_threads()
    yield set_num_threads
    set_num_threads(before)


@pytest.mark.parametrize("dtype, close", [("f4", 1e-5), ("f8", 1e-12)])
@pytest.mark.parametrize("name", REFERENCES)
def test_any_dimensions_of_any_layout(name, dtype, close):
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        x = rng.standard_normal(shape)
        if name == "prod":
            x = 1 + 0.01 * x
        for array in layouts(x.astype(dtype)):
            for dim in dims_of(array):
                if name in ("var", "std") and dim == (1,) and shape == (5, 1, 7):
                    continue  # of one number: NaN
                expected = REFERENCES[name](array.astype("f8"), axis=dim, keepdims=True)
                out, fused, recorded = backward_of(name, array, dim, keepdim=True)
                assert out.dtype == array.dtype
                np.testing.assert_allclose(out, expected, rtol=close, atol=close * np.sqrt(x.size))
                scale = np.max(np.abs(recorded))
                np.testing.assert_allclose(fused, recorded, rtol=0, atol=20 * close * scale)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", REFERENCES)
def test_threads_do_not_change_a_bit(name, dtype, threads):
    rng = np.random.default_rng(2)
    for shape in ((200_000,), (3, 50_000), (50_000, 3), (400, 500)):
        x = (1 + 1e-3 * rng.standard_normal(shape)).astype(dtype)
        for array in (x, np.asfortranarray(x)):
            for dim in dims_of(array):
                found = []
                for n in (1, 2, 3, 2):
                    threads(n)
                    found.append(backward_of(name, array, dim)[:2])
                for out, grad in found[1:]:
                    assert np.array_equal(out, found[0][0])
                    assert np.array_equal(grad, found[0][1])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_extremes_with_nan_infinities_and_ties(name, dtype):
    rng = np.random.default_rng(3)
    marks = [(), (NAN,), (INF, INF), (-INF,), (INF, -INF, NAN, NAN), (NAN, 1.0)]
    for shape in ((5,), (9,), (70,), (300,), (7, 9), (100, 70), (70, 100)):
        for mark in marks:
            x = rng.standard_normal(shape).astype(dtype)
            x.reshape(-1)[rng.integers(0, x.size, len(mark))] = mark
            for array in (x, np.asfortranarray(x)):
                for dim in dims_of(array):
                    top = REFERENCES[name](array, axis=dim, keepdims=True)
                    out, fused, recorded = backward_of(name, array, dim, keepdim=True)
                    np.testing.assert_array_equal(out, top)
                    hit = (array == top) | (np.isnan(array) & np.isnan(top))
                    assert np.array_equal(fused != 0, hit)
                    np.testing.assert_allclose(fused, recorded, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_of_all_equal_elements_each_has_its_share(dtype):
    x = np.full((1000, 7), 3.0, dtype)
    _, fused, _ = backward_of("amax", x, 0)
    assert len({*fused[:, 0].tolist()}) == 1
    _, total, _ = backward_of("sum", x, 0)
    np.testing.assert_allclose(fused.sum(0), total[0], rtol=1e-4)


@pytest.mark.parametrize("dtype, mean", [("f4", 1e4), ("f8", 1e9)])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_a_large_mean_costs_a_variance_no_digits(dtype, mean, dim):
    x = (mean + np.random.default_rng(4).standard_normal((3000, 40))).astype(dtype)
    for array in (x, np.asfortranarray(x)):
        expected = np.var(x.astype("f8") - mean, axis=dim, ddof=1)
        out = ops.var(Tensor(array), dim=dim).numpy()
        np.testing.assert_allclose(out, expected, rtol=1e-6 if dtype == "f4" else 1e-9)


def test_variances_without_a_degree_of_freedom_are_nan():
    x = np.ones((1, 3))
    for name in ("var", "std"):
        out, fused, _ = backward_of(name, x, 0)
        assert np.isnan(out).all() and np.isnan(fused).all()
        out, _, _ = backward_of(name, x, 1, correction=3)
        assert np.isnan(out).all()


def test_the_deviation_of_equal_numbers_has_gradient_zero():
    _, fused, recorded = backward_of("std", np.ones((4, 3)), 1)
    assert not fused.any() and not recorded.any()


@pytest.mark.parametrize("size", [1e-200, 1e200, 0.0])
def test_norms_at_the_ends_of_the_range(size):
    x = np.array([[3.0, 4.0], [1.0, 0.0]]) * size
    out, fused, recorded = backward_of("norm", x, 1)
    np.testing.assert_allclose(out, [5 * size, size], rtol=1e-14)
    np.testing.assert_allclose(fused, recorded, rtol=1e-14)
    assert np.isfinite(fused).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "values",
    [
        [2.0, 0.0, 4.0],
        [0.0, 0.0, 3.0],
        [1e200, 1e-200, 3.0],
        [1e-30, 1e-30, 1e30],
        [INF, 2.0, 3.0],
        [NAN, 2.0, 3.0],
        [1e30, 1e30, 1e-30],
    ],
)
def test_products_with_zeros_and_at_the_ends_of_the_range(values, dtype):
    if dtype == "f4" and max(values) in (1e200,):
        pytest.skip("not a float32")
    x = np.array([values, [1.0, 2.0, 3.0]], dtype)
    with np.errstate(all="ignore"):
        out, fused, recorded = backward_of("prod", x, 1)
        exact = np.multiply.reduce(x.astype("f8"), axis=1)
        np.testing.assert_allclose(out, exact.astype(dtype), rtol=1e-6)
    np.testing.assert_allclose(fused, recorded, rtol=1e-5)


def test_products_of_long_runs_stay_in_range_where_neighbours_leave_it():
    x = np.tile([1e200, 1e-200], 500)
    assert ops.prod(Tensor(x)).item() == pytest.approx(1.0)


@pytest.mark.parametrize("name", REFERENCES)
def test_gradients_lie_as_their_tensor_does(name):
    x = np.asfortranarray(np.random.default_rng(5).random((30, 40)) + 0.5)
    leaf = plugrad.from_numpy(x).requires_grad_()
    getattr(ops, name)(leaf, dim=1).sum().backward()
    assert leaf.grad.numpy().strides == x.strides


def test_gradients_that_repeat_an_element():
    x = np.random.default_rng(6).random((6, 5))
    for name in REFERENCES:
        leaf = Tensor(x, requires_grad=True)
        getattr(ops, name)(
            leaf, dim=0
        ).sum().backward()  # the gradient of `sum` is one number, expanded
        other = Tensor(x, requires_grad=True)
        getattr(ops, name)(other, dim=0).backward(plugrad.ones(5, dtype=np.float64))
        np.testing.assert_array_equal(leaf.grad.numpy(), other.grad.numpy())


# ---- the ends of float32's range -------------------------------------------------------------

RUNS = [4, 7, 40, 200, 5000]


def both_ways(values):
    """A row and a column of float32, neighbours and not, and the dimension that they lie along."""
    row = np.array(values, np.float32)
    return [(row[None], 1), (np.repeat(row[:, None], 3, axis=1), 0)]


@pytest.mark.parametrize("n", RUNS)
def test_parts_of_a_sum_may_leave_the_range_of_float32(n):
    large = np.resize([1e38, 3e38, -3e38, -1e38], n)
    large[n // 4 * 4 :] = 1e38
    for x, dim in both_ways(np.roll(large, 3)):
        wide = x.astype(np.float64)
        for name in ("sum", "mean", "std", "norm"):
            out = getattr(ops, name)(Tensor(x), dim=dim).array
            with np.errstate(over="ignore"):
                expected = REFERENCES[name](wide, axis=dim).astype(np.float32)
            np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e31, err_msg=name)


def test_an_infinity_is_no_part_that_left_the_range():
    for fill in (INF, -INF, NAN):
        for n in RUNS:
            for x, dim in both_ways([*np.ones(n - 1), fill]):
                np.testing.assert_array_equal(ops.sum(Tensor(x), dim=dim).array, fill)
                assert np.isnan(ops.var(Tensor(x), dim=dim).array).all()


@pytest.mark.parametrize("scale", [1e-44, 1e-40, 1e-30, 1e-23, 1e-15, 1e19, 1e25, 1e37])
@pytest.mark.parametrize("n", RUNS)
def test_deviations_whose_squares_float32_does_not_hold(n, scale):
    values = np.random.default_rng(n).integers(1, 9, n) * scale
    values[:2] = 3 * scale, 5 * scale
    for x, dim in both_ways(values):
        out, fused, recorded = backward_of("std", x, dim, keepdim=True)
        wide = x.astype(np.float64)
        expected = wide.std(dim, ddof=1, keepdims=True)
        np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-45)
        grad = np.random.default_rng(0).standard_normal(out.shape).astype(np.float32)
        slope = grad / out.astype(np.float64) * (wide - wide.mean(dim, keepdims=True)) / (n - 1)
        if out.min() > 0:
            np.testing.assert_allclose(fused, slope, rtol=2e-6, atol=1e-7 * abs(slope).max())
        if scale > 1e-38:
            close = 1e-5 * abs(slope).max()
            np.testing.assert_allclose(recorded, slope, rtol=1e-5, atol=close)
        variance = expected**2
        out = ops.var(Tensor(x), dim=dim, keepdim=True).array
        if variance.min() > 1e-38 and variance.max() < 3e38:
            np.testing.assert_allclose(out, variance, rtol=1e-6)
        assert (out >= 0).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", RUNS)
def test_elements_that_differ_in_the_last_bit_or_not_at_all(n, dtype):
    for value in (7e-8, 0.1, 3e3):
        equal = np.full(n, value, dtype)
        x = equal.copy()
        x[n // 3] = np.nextafter(x[0], np.asarray(1e9, dtype))
        step = float(x.max()) - float(x.min())
        for axis, shape in ((1, (1, n)), (0, (n, 1))):
            out, fused, _ = backward_of("std", x.reshape(shape), axis)
            np.testing.assert_allclose(out, step / math.sqrt(n), rtol=1e-6)
            if dtype == "f4":
                grad = np.random.default_rng(0).standard_normal(1).astype("f4")
                slope = -grad / (n - 1) / math.sqrt(n)
                np.testing.assert_allclose(np.delete(fused, n // 3), slope.repeat(n - 1), rtol=1e-5)
            out, fused, _ = backward_of("std", equal.reshape(shape), axis)
            assert out == 0
            assert not fused.any()


def test_variances_of_the_largest_float64_are_not_nan():
    for n in (4, 200, 3000):
        for x in ([1.7e308], [1.7e308, 1.7e308, -1.7e308, -1.7e308], [1e200, -2e200, 3e200]):
            for shape, axis in (((1, n), 1), ((n, 1), 0)):
                out = ops.var(Tensor(np.resize(x, n).reshape(shape)), dim=axis).array
                assert out == INF or (out == 0 and len(x) == 1)


@pytest.mark.parametrize("name", ["var", "std"])
def test_gradients_of_variances_far_from_zero(name):
    x = (1e4 + 0.05 * np.random.default_rng(3).standard_normal((9, 40))).astype(np.float32)
    for dim in (0, 1, None):
        expected = backward_of(name, x.astype(np.float64), dim)[1]
        for found in backward_of(name, x, dim)[1:]:
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=3e-6 * abs(expected).max())


@pytest.mark.parametrize("dtype, size", [("f4", 1.5e-21), ("f4", 1e-30), ("f8", 1e-161)])
def test_norms_of_many_elements_whose_squares_lose_digits(dtype, size):
    x = np.full(4000, size, dtype)
    np.testing.assert_allclose(ops.norm(Tensor(x)).item(), float(x[0]) * math.sqrt(4000), rtol=1e-6)


def test_norms_of_other_orders_whose_powers_lose_digits():
    x = np.full(4, 1e-14, np.float32)
    np.testing.assert_allclose(ops.norm(Tensor(x), p=3).item(), 1e-14 * 4 ** (1 / 3), rtol=1e-6)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, 4.0, INF])
def test_the_norm_of_one_element_is_its_size(p):
    leaf = plugrad.from_numpy(np.array([[5], [-7.3], [1e-3]], np.float32)).requires_grad_()
    np.testing.assert_array_equal(
        ops.norm(leaf, p=p, dim=1).detach().numpy(), abs(leaf.array[:, 0])
    )
    out = ops.normalize(leaf, p=p)
    (grad,) = plugrad.autograd.grad(out, [leaf], Tensor(np.full((3, 1), 1.3, np.float32)))
    np.testing.assert_allclose(grad.numpy(), 0, atol=1e-7 / 1e-3)
    np.testing.assert_allclose(grad.numpy()[:2], 0, atol=1e-7)


@pytest.mark.parametrize("scale", [1e-3, 0.7, 1.5, 1e3])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_gradients_of_products_that_leave_the_range(dtype, dim, scale):
    """A product may vanish or overflow where what is left of it without one factor does not."""
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    x = ((1 + 0.1 * rng.standard_normal((300, 50))) * scale).astype(dtype)
    x[0], x[:, 0] = 1e-30, 1e20
    leaf = plugrad.Tensor(x, requires_grad=True)
    plugrad.prod(leaf, dim=dim).backward(plugrad.ones(x.shape[1 - dim], dtype=leaf.dtype))
    with np.errstate(over="ignore", under="ignore"):
        wide = x.astype(np.longdouble)
        expected = (wide.prod(axis=dim, keepdims=True) / wide).astype(dtype)
    close = 1e-4 if dtype == "f4" else 1e-11
    tiny = np.finfo(dtype).tiny * 10
    np.testing.assert_allclose(leaf.grad.array, expected, rtol=close, atol=tiny)
