"""Where extremes stand, in any layout: compiled kernels against NumPy, ties, NaN, gradients, any number of threads."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, get_num_threads, ops, set_num_threads

INF, NAN = math.inf, math.nan
SHAPES = [(1,), (9,), (40,), (5000,), (7, 9), (100, 70), (3, 2000), (2000, 3), (4, 5, 6), (5, 1, 7)]


def layouts(x):
    yield x
    yield np.asfortranarray(x)
    yield x[::-1]
    yield np.repeat(x, 2, axis=-1)[..., ::2]
    yield np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0)


def inputs(seed, dtype):
    """Arrays of all shapes and layouts with ties, infinities and, in some lines, NaN."""
    rng = np.random.default_rng(seed)
    for shape in SHAPES:
        x = rng.integers(-50, 50, shape).astype(dtype)
        x[rng.random(shape) < 0.02] = rng.choice([INF, -INF])
        if rng.random() < 0.5:
            x[rng.random(shape) < 0.05] = NAN
        yield from layouts(x)


@pytest.fixture
def threads():
    before = get_num_threads()
    yield set_num_threads
    set_num_threads(before)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_are_those_of_the_first_extreme_or_nan(name, dtype):
    find = getattr(np, name)
    for x in inputs(1, dtype):
        tensor = plugrad.from_numpy(x)
        for dim in (None, *range(-x.ndim, x.ndim)):
            for keepdim in (False, True):
                found = getattr(ops, name)(tensor, dim=dim, keepdim=keepdim)
                expected = find(x, axis=dim, keepdims=keepdim)
                assert found.dtype == np.int64
                np.testing.assert_array_equal(found.array, expected, strict=True)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_values_and_gradients_are_those_at_the_position(name, dtype):
    rng = np.random.default_rng(2)
    for x in inputs(3, dtype):
        for dim in range(x.ndim):
            leaf = plugrad.from_numpy(x).requires_grad_()
            values, indices = getattr(plugrad, name)(leaf, dim, keepdim=True)
            where = getattr(np, f"arg{name}")(x, axis=dim, keepdims=True)
            np.testing.assert_array_equal(indices.array, where)
            np.testing.assert_array_equal(values.array, np.take_along_axis(x, where, dim))
            grad = rng.standard_normal(values.shape).astype(dtype)
            values.backward(Tensor(grad))
            expected = np.zeros(x.shape, dtype)
            np.put_along_axis(expected, where, grad, dim)
            np.testing.assert_array_equal(leaf.grad.array, expected, strict=True)


def test_a_zero_of_either_sign_is_no_greater_than_the_other():
    x = np.array([[-0.0, 0.0], [0.0, -0.0]])
    for order in (x, np.asfortranarray(x)):
        for dim in (0, 1):
            assert ops.argmax(Tensor(order), dim=dim).tolist() == [0, 0]
            assert ops.argmin(Tensor(order), dim=dim).tolist() == [0, 0]
            assert plugrad.cummax(Tensor(order), dim).indices.array.max() == 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("greatest", [True, False])
def test_running_extremes_and_their_gradients_are_those_of_the_reference(greatest, dtype):
    op = ops.running_max if greatest else ops.running_min
    rng = np.random.default_rng(4)
    for x in inputs(5, dtype):
        for dim in range(-x.ndim, x.ndim):
            leaf = plugrad.from_numpy(x).requires_grad_()
            values, indices = op(leaf, dim=dim)
            expected, where = op.function(x, dim=dim)
            np.testing.assert_array_equal(values.array, expected, strict=True)
            np.testing.assert_array_equal(indices.array, where, strict=True)
            grad = Tensor(rng.standard_normal(x.shape).astype(dtype))
            (fused,) = plugrad.autograd.grad(values, [leaf], grad, retain_graph=True)
            (recorded,) = plugrad.autograd.grad(values, [leaf], grad, create_graph=True)
            tolerance = 1e-5 if dtype == "f4" else 1e-12
            np.testing.assert_allclose(fused.array, recorded.detach().array, tolerance, tolerance)


@pytest.mark.parametrize("step", [1, -1])
def test_running_extremes_of_what_ascends_or_descends(step):
    x = np.arange(100.0)[::step].copy()
    values, indices = plugrad.cummax(plugrad.from_numpy(x), 0)
    assert values.array.tolist() == (x if step > 0 else np.full(100, 99.0)).tolist()
    assert indices.array.tolist() == (list(range(100)) if step > 0 else [0] * 100)
    leaf = plugrad.from_numpy(x).requires_grad_()
    plugrad.cummax(leaf, 0).values.sum().backward()
    assert leaf.grad.array.tolist() == ([1.0] * 100 if step > 0 else [100.0] + [0.0] * 99)


def test_the_number_of_threads_changes_nothing(threads):
    x = np.random.default_rng(6).standard_normal((300, 700)).astype("f4")
    found = []
    for count in (1, 3):
        threads(count)
        for layout in (x, np.asfortranarray(x)):
            leaf = plugrad.from_numpy(layout).requires_grad_()
            for dim in (0, 1):
                values, indices = plugrad.cummin(leaf, dim)
                values.sum().backward()
                found.append(ops.argmax(leaf, dim=dim).array)
                found.extend([values.detach().array, indices.array, leaf.grad.array.copy()])
    for one, three in zip(found[: len(found) // 2], found[len(found) // 2 :], strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16"])
def test_other_dtypes_have_positions_too(dtype):
    x = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    for dim in (None, 0, 1):
        assert ops.argmax(Tensor(x), dim=dim).array.tolist() == np.argmax(x, axis=dim).tolist()
        assert ops.argmin(Tensor(x), dim=dim).array.tolist() == np.argmin(x, axis=dim).tolist()


def test_nothing_to_choose_from_is_an_error():
    empty = Tensor(np.zeros((0, 3)))
    for op in (ops.argmax, ops.argmin):
        with pytest.raises(RuntimeError, match="no elements"):
            op(empty, dim=0)
        assert op(empty, dim=1).shape == (0,)
        assert op(Tensor(np.array(3.0)), dim=0, keepdim=True).shape == ()
        with pytest.raises(IndexError, match="out of range"):
            op(empty, dim=2)
    with pytest.raises(RuntimeError, match="no elements"):
        plugrad.max(empty, 0)
