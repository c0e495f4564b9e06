"""Normalisation: values against float64 formulas, large means, running statistics, sizes without elements, errors."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor, ops

RNG = np.random.default_rng(0)


def normalized(x, axes, eps=1e-5):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def gradients(function, *arrays):
    """The gradients of the weighted sum of a result, and those of the same rule when it is recorded."""
    leaves = [Tensor(x, requires_grad=True) for x in arrays]
    out = function(*leaves)
    seed = Tensor(np.random.default_rng(1).standard_normal(out.shape).astype(out.dtype))
    fused = plugrad.autograd.grad(out, leaves, seed, retain_graph=True)
    recorded = plugrad.autograd.grad(out, leaves, seed, create_graph=True)
    return [g.array for g in fused], [g.array for g in recorded]


# ---- values ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4), (2, 40), (5, 1030), (2, 3, 33)])
def test_layer_norm(shape):
    x, weight, bias = RNG.standard_normal(shape), *RNG.standard_normal((2, shape[-1]))
    out = F.layer_norm(Tensor(x), shape[-1:], Tensor(weight), Tensor(bias))
    np.testing.assert_allclose(out.array, normalized(x, -1) * weight + bias, rtol=1e-12, atol=1e-12)
    out = F.layer_norm(Tensor(x), shape[1:])
    axes = tuple(range(1, x.ndim))
    np.testing.assert_allclose(out.array, normalized(x, axes), rtol=1e-12, atol=1e-12)


def test_rms_norm_has_the_spacing_of_its_dtype_as_eps():
    x = RNG.standard_normal((3, 5)) * 1e-4
    out = F.rms_norm(Tensor(x.astype(np.float32)), (5,)).array
    wanted = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + np.finfo(np.float32).eps)
    np.testing.assert_allclose(out, wanted, rtol=1e-5)
    weighted = F.rms_norm(Tensor(x), (5,), Tensor(np.arange(5.0)), eps=1e-8).array
    wanted = np.arange(5.0) * x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-8)
    np.testing.assert_allclose(weighted, wanted, rtol=1e-12)


@pytest.mark.parametrize("tail", [(), (3,), (5, 7)])
def test_group_norm(tail):
    x, weight, bias = RNG.standard_normal((2, 6, *tail)), *RNG.standard_normal((2, 6))
    shape = (1, 6, *(1 for _ in tail))
    out = F.group_norm(Tensor(x), 3, Tensor(weight), Tensor(bias))
    wanted = normalized(x.reshape(2, 3, -1), 2).reshape(x.shape)
    wanted = wanted * weight.reshape(shape) + bias.reshape(shape)
    np.testing.assert_allclose(out.array, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tail", [(), (1,), (3,), (5, 7)])
def test_batch_norm_in_training(tail):
    x, weight, bias = RNG.standard_normal((4, 3, *tail)), *RNG.standard_normal((2, 3))
    shape = (1, 3, *(1 for _ in tail))
    mean, var = Tensor(np.zeros(3)), Tensor(np.ones(3))
    out = F.batch_norm(
        Tensor(x), mean, var, Tensor(weight), Tensor(bias), training=True, momentum=0.25
    )
    axes = (0, *range(2, x.ndim))
    wanted = normalized(x, axes) * weight.reshape(shape) + bias.reshape(shape)
    np.testing.assert_allclose(out.array, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mean.array, 0.25 * x.mean(axes), rtol=1e-12)
    np.testing.assert_allclose(var.array, 0.75 + 0.25 * x.var(axes, ddof=1), rtol=1e-12)


def test_batch_norm_in_evaluation_uses_what_is_given():
    x, mean, var = RNG.standard_normal((4, 3, 2)), RNG.standard_normal(3), np.array([1.0, 2, 3])
    running = Tensor(mean.copy()), Tensor(var.copy())
    out = F.batch_norm(Tensor(x), *running)
    wanted = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-5)
    np.testing.assert_allclose(out.array, wanted, rtol=1e-12)
    np.testing.assert_array_equal(running[0].array, mean)
    np.testing.assert_array_equal(running[1].array, var)


def test_instance_norm_and_its_running_statistics():
    x = RNG.standard_normal((2, 3, 5))
    mean, var = Tensor(np.zeros(3)), Tensor(np.ones(3))
    out = F.instance_norm(Tensor(x), mean, var, momentum=0.5)
    np.testing.assert_allclose(out.array, normalized(x, 2), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mean.array, 0.5 * x.mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(var.array, 0.5 + 0.5 * x.var(2, ddof=1).mean(0), rtol=1e-12)
    used = F.instance_norm(Tensor(x), mean, var, use_input_stats=False).array
    wanted = (x - mean.array[:, None]) / np.sqrt(var.array[:, None] + 1e-5)
    np.testing.assert_allclose(used, wanted, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_local_response_norm(size):
    x = RNG.standard_normal((2, 4, 3))
    square = np.pad(x * x, ((0, 0), (size // 2, (size - 1) // 2), (0, 0)))
    total = sum(square[:, i : i + 4] for i in range(size))
    wanted = x / (2.0 + 0.5 / size * total) ** 0.75
    out = F.local_response_norm(Tensor(x), size, alpha=0.5, k=2.0)
    np.testing.assert_allclose(out.array, wanted, rtol=1e-12)


# ---- accuracy ----------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "first"), [(0.0, 0.0), (1e4, 0.0), (0.0, 100.0), (1e5, -30.0)])
def test_neither_a_large_mean_nor_a_far_first_element_costs_digits(mean, first):
    x = RNG.standard_normal((3, 5000)) + mean
    x[:, 0] += first
    x = x.astype(np.float32)
    wanted = normalized(x, 1)
    for out in (
        F.layer_norm(Tensor(x), (5000,)),
        F.group_norm(Tensor(x.reshape(3, 5, 1000)), 1),
        F.instance_norm(Tensor(x[None])),
        F.batch_norm(Tensor(x[None]), None, None, training=True),
        ops.transpose(F.batch_norm(Tensor(x.T), None, None, training=True), dim0=0, dim1=1),
    ):
        assert out.dtype == np.float32
        # What is far may itself be large, so that its own rounding counts.
        np.testing.assert_allclose(out.array.reshape(x.shape), wanted, rtol=3e-6, atol=3e-6)


def test_half_precision_is_rounded_once():
    x = RNG.standard_normal((3, 600)).astype(np.float16)
    out = F.layer_norm(Tensor(x), (600,))
    assert out.dtype == np.float16
    np.testing.assert_allclose(out.array, normalized(x, 1), rtol=1e-3, atol=1e-4)


def test_a_constant_row_becomes_zero():
    x = Tensor(np.full((2, 5), 7.0), requires_grad=True)
    out = F.layer_norm(x, (5,))
    assert not out.array.any()
    out.backward(Tensor(RNG.standard_normal((2, 5))))
    assert np.isfinite(x.grad.array).all()


# ---- gradients ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("function", "shape", "channels"),
    [
        (lambda x, w, b: F.layer_norm(x, (40,), w, b), (70, 40), 40),
        (lambda x, w, b: F.group_norm(x, 2, w, b), (20, 6, 50), 6),
        (lambda x, w, b: F.group_norm(x, 2, w, b), (40, 6), 6),
        (lambda x, w, b: F.instance_norm(x, None, None, w, b), (3, 4, 2000), 4),
        (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (50, 6), 6),
        (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (5, 6, 70), 6),
    ],
)
def test_fused_gradients_are_the_rules(function, shape, channels, dtype):
    arrays = [RNG.standard_normal(s).astype(dtype) for s in (shape, channels, channels)]
    fused, recorded = gradients(function, *arrays)
    tolerance = 1e-10 if dtype == np.float64 else 2e-4
    for found, wanted in zip(fused, recorded):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_strided_inputs_and_gradients():
    x, weight = RNG.standard_normal((6, 10)), RNG.standard_normal(6)
    turned = ops.transpose(Tensor(x), dim0=0, dim1=1).detach().requires_grad_()
    straight = Tensor(x.T.copy(), requires_grad=True)
    seed = RNG.standard_normal((6, 10)).T
    for leaf in (turned, straight):
        F.layer_norm(leaf, (6,), Tensor(weight[::-1])).backward(Tensor(seed))
    np.testing.assert_allclose(turned.grad.array, straight.grad.array, rtol=1e-13, atol=1e-15)


def test_no_elements():
    weight, bias = (Tensor(np.ones(3), requires_grad=True) for _ in range(2))
    x = Tensor(np.zeros((0, 3)), requires_grad=True)
    F.layer_norm(x, (3,), weight, bias).sum().backward()
    assert x.grad.shape == (0, 3)
    assert weight.grad.tolist() == bias.grad.tolist() == [0, 0, 0]
    assert F.layer_norm(Tensor(np.zeros((2, 0))), (0,)).shape == (2, 0)
    running = Tensor(np.ones(3))
    out = F.batch_norm(x, running, running, weight, training=True)
    assert out.shape == (0, 3)
    assert running.tolist() == [1, 1, 1]
    assert F.group_norm(Tensor(np.zeros((2, 4, 0))), 2).shape == (2, 4, 0)


def test_inf_and_nan_stay_in_their_row():
    x = np.array([[1.0, 2, 3], [np.inf, 1, 2], [np.nan, 1, 2]])
    out = F.layer_norm(Tensor(x), (3,)).array
    assert np.isfinite(out[0]).all()
    assert np.isnan(out[1:]).all()


# ---- errors ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: F.batch_norm(x((1, 3)), None, None, training=True), ValueError, "more than 1 value per channel"),
        (lambda x: F.instance_norm(x((2, 3, 1))), ValueError, "more than 1 spatial element"),
        (lambda x: F.group_norm(x((1, 3)), 3), ValueError, "more than 1 value per channel"),
        (lambda x: F.group_norm(x((2, 3)), 2), RuntimeError, "must divide the 3 channels"),
        (lambda x: F.batch_norm(x((2, 3)), None, None, training=True, eps=0.0), ValueError, "eps must be positive"),
        (lambda x: F.batch_norm(x((2, 3)), None, None), RuntimeError, "running_mean and running_var are needed"),
        (lambda x: F.batch_norm(x((2, 3)), x(2), x(3)), RuntimeError, r"running_mean must have shape \(3,\)"),
        (lambda x: F.layer_norm(x((2, 3)), (2,)), RuntimeError, "must be the last dimensions of input"),
        (lambda x: F.layer_norm(x((2, 3)), (3,), x(2)), RuntimeError, "weight must have the shape"),
        (lambda x: F.local_response_norm(x((2, 3)), 2), ValueError, "3 dimensions"),
    ],
)  # fmt: skip
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call(lambda shape: Tensor(np.ones(shape)))


# ---- layouts and threads ---------------------------------------------------------------------------------------------

LAYERS = {
    "layer": lambda x, w, b: F.layer_norm(
        x, x.shape[-1:], *(ops.sum(t) * plugrad.ones_like(x[0, 0]) for t in (w, b))
    ),
    "group": lambda x, w, b: F.group_norm(x, 2, w, b),
    "batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "given": lambda x, w, b: F.batch_norm(x, w.detach(), w.detach() * w.detach(), w, b, False),
}


def everything(name, x, weight, bias):
    """The result and all gradients."""
    leaves = [plugrad.from_numpy(a).requires_grad_() for a in (x, weight, bias)]
    out = LAYERS[name](*leaves)
    seed = Tensor(np.random.default_rng(1).standard_normal(x.shape).astype(x.dtype))
    return [out.detach().numpy(), *(g.numpy() for g in plugrad.autograd.grad(out, leaves, seed))]


@pytest.mark.parametrize("dtype, close", [("f4", 2e-4), ("f8", 1e-10)])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("shape", [(5, 4, 7), (3, 40, 1), (2, 6, 100), (70, 8, 3), (1, 4, 5)])
def test_any_layout_gives_the_same(name, shape, dtype, close):
    if name == "layer" and shape[-1] == 1:
        shape = (*shape[:-1], 9)  # a row of one number is all rounding
    rng = np.random.default_rng(9)
    x = rng.standard_normal(shape).astype(dtype)
    weight, bias = (rng.random((2, shape[1])) + 0.5).astype(dtype)
    expected = everything(name, *(a.astype("f8") for a in (x, weight, bias)))
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)]
    arrays = [np.ascontiguousarray(x.transpose(o)).transpose(np.argsort(o)) for o in orders]
    for array in (*arrays, x[::-1].copy()[::-1], np.repeat(x, 2, axis=2)[..., ::2]):
        for found, wanted in zip(everything(name, array, weight, bias), expected):
            assert found.dtype == x.dtype
            np.testing.assert_allclose(
                found, wanted, rtol=0, atol=close * (1 + np.abs(wanted).max())
            )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("shape", [(300, 16, 40), (40, 16, 300), (4000, 40, 1), (2, 8, 9000)])
def test_threads_do_not_change_a_bit(name, shape, dtype):
    rng = np.random.default_rng(10)
    x = rng.standard_normal(shape).astype(dtype)
    weight, bias = (rng.random((2, shape[1])) + 0.5).astype(dtype)
    before, found = plugrad.get_num_threads(), []
    try:
        for n in (1, 2, 3, 2):
            plugrad.set_num_threads(n)
            found.append(everything(name, x, weight, bias))
    finally:
        plugrad.set_num_threads(before)
    for others in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(others, found[0]))


def test_given_statistics_with_infinities():
    x = np.array([[1.0, np.inf], [2.0, -np.inf]])
    leaf = Tensor(x, requires_grad=True)
    out = F.batch_norm(
        leaf, plugrad.zeros(2, dtype=x.dtype), plugrad.ones(2, dtype=x.dtype), eps=0.0
    )
    assert out.tolist() == x.tolist()
    (grad,) = plugrad.autograd.grad(out, [leaf], Tensor(np.full((2, 2), 3.0)))
    assert grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]


# ---- rows and channels of one element; the ends of the range -----------------------------------


@pytest.mark.parametrize(
    "function, shape, weights",
    [
        (lambda x, *w: ops.layer_norm(x, (1,), *w, eps=1e-12), (3, 1), 1),
        (lambda x, *w: ops.group_norm(x, 2, *w, eps=1e-12), (3, 2), 2),
        (lambda x, *w: ops.instance_norm(x, *w, eps=1e-12), (3, 2, 1), 2),
        (lambda x, *w: ops.normalize_batch(x, *w, eps=1e-12)[0], (1, 3), 3),
    ],
)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_one_element_alone_has_gradient_zero(function, shape, weights, dtype):
    x = (5 + RNG.standard_normal(shape)).astype(dtype)
    weight, bias = RNG.standard_normal((2, weights)).astype(dtype)
    for given in ([x], [x, weight, bias]):
        for found in gradients(function, *given):
            np.testing.assert_array_equal(found[0], 0)
    x.flat[0] = np.nan
    fused = gradients(lambda x: ops.layer_norm(x, (1,)), x.reshape(-1, 1))[0][0]
    assert np.isnan(fused[0])
    assert not fused[1:].any()


@pytest.mark.parametrize("tail", [(), (3,), (80,)])
def test_a_channel_whose_variance_leaves_the_range_has_gradient_zero(tail):
    x = RNG.standard_normal((2, 2, *tail)).astype(np.float32)
    x[:, 0] *= 1e20
    for found in gradients(lambda x: F.batch_norm(x, None, None, training=True), x):
        np.testing.assert_array_equal(found[0][:, 0], 0)
        assert np.isfinite(found[0]).all()
        assert found[0][:, 1].any() or not tail


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.layer_norm(x, (8,)),
        lambda x: ops.group_norm(x, 2),
        lambda x: ops.instance_norm(x),
        lambda x: ops.normalize_batch(x)[0],
    ],
)
def test_a_large_mean_costs_a_recorded_gradient_no_digits(function):
    x = (1e4 + 0.05 * RNG.standard_normal((3, 6, 8))).astype(np.float32)
    recorded = gradients(function, x)[1][0]
    # The weights of the sum are those of float32.
    leaf = Tensor(x.astype(np.float64), requires_grad=True)
    seed = np.random.default_rng(1).standard_normal(x.shape).astype(np.float32)
    (expected,) = plugrad.autograd.grad(function(leaf), [leaf], Tensor(seed.astype(np.float64)))
    expected = expected.array
    np.testing.assert_allclose(recorded, expected, rtol=1e-4, atol=1e-6 * abs(expected).max())
