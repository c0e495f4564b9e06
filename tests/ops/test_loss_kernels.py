"""Compiled kernels of losses against float64 NumPy: layouts, lengths, special values, threads."""

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, ops
from plugrad.backends.parallel import get_num_threads, set_num_threads

DTYPES = (np.float32, np.float64)
REDUCTIONS = ("mean", "sum", "none")


def reduce(loss, reduction):
    return loss if reduction == "none" else getattr(np, reduction)(loss)


def huber(error, delta):
    near = np.minimum(np.abs(error), delta)
    return near * (np.abs(error) - near / 2)


ERRORS = {
    "mse_loss": ({}, np.square, lambda e: 2 * e),
    "l1_loss": ({}, np.abs, np.sign),
    "huber_loss": ({"delta": 0.4}, lambda e: huber(e, 0.4), lambda e: np.clip(e, -0.4, 0.4)),
}
# Some that do not fill a block, and some of several pieces.
SHAPES = [(), (1,), (7,), (5, 9), (513,), (3, 171, 2), (200, 300)]


def layouts(x, y):
    """Pairs of these values that lie in memory in several ways."""
    yield x, y
    yield np.asfortranarray(x), np.asfortranarray(y)
    yield x, np.asfortranarray(y)
    wide = np.zeros((*x.shape, 2), x.dtype)
    wide[..., 0] = x
    yield wide[..., 0], y


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_every_layout(name, reduction, dtype):
    constants, value, slope = ERRORS[name]
    rng = np.random.default_rng(0)
    tol = 1e-6 if dtype == np.float32 else 1e-13
    for shape in SHAPES:
        x, y = rng.standard_normal((2, *shape)).astype(dtype)
        error = x.astype(np.float64) - y
        for a, b in layouts(x, y):
            a, b = Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)
            out = getattr(ops, name)(a, b, reduction=reduction, **constants)
            grad = rng.standard_normal(out.shape).astype(dtype)
            wanted = grad * slope(error) / (error.size if reduction == "mean" else 1)
            got_a, got_b = plugrad.autograd.grad(out, [a, b], Tensor(grad))
            assert out.dtype == got_a.dtype == dtype
            np.testing.assert_allclose(
                out.array, reduce(value(error), reduction), rtol=tol, atol=tol
            )
            np.testing.assert_allclose(got_a.array, wanted, rtol=tol, atol=tol)
            np.testing.assert_array_equal(got_b.array, -got_a.array)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ERRORS)
def test_errors_that_are_not_finite(name, dtype):
    x = Tensor(np.array([np.nan, np.inf, np.inf, 1.0, -np.inf], dtype), requires_grad=True)
    y = Tensor(np.array([1.0, 0.0, np.inf, 1.0, 1.0], dtype))
    out = getattr(ops, name)(x, y, reduction="none")
    np.testing.assert_array_equal(out.array, np.array([np.nan, np.inf, np.nan, 0.0, np.inf]))
    (grad,) = plugrad.autograd.grad(out.sum(), [x])
    (rule,) = plugrad.autograd.grad(
        getattr(ops, name)(x, y, reduction="sum"), [x], create_graph=True
    )
    np.testing.assert_array_equal(grad.array, rule.array)


def test_means_of_nothing_are_nan_and_sums_zero():
    for name in ERRORS:
        for dtype in DTYPES:
            empty = Tensor(np.zeros((0, 3), dtype))
            assert np.isnan(getattr(ops, name)(empty, empty).item())
            assert getattr(ops, name)(empty, empty, reduction="sum").item() == 0


def test_long_sums_keep_their_digits():
    ones = Tensor(np.ones(3 << 24, np.float32))  # a running sum would stop at 2**24
    assert (
        ops.l1_loss(ones, Tensor(np.zeros(3 << 24, np.float32)), reduction="sum").item() == 3 << 24
    )


# ---- element by element --------------------------------------------------------------------------------------


def logistic(x, t):
    return np.where(x > 0, x * (1 - t), -x * t) + np.log1p(np.exp(-np.abs(x)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", DTYPES)
def test_entropies_and_divergences(dtype):
    rng = np.random.default_rng(1)
    tol = 3e-6 if dtype == np.float32 else 1e-13
    p, t = rng.uniform(0.001, 0.999, (2, 60, 70)).astype(dtype)
    x = (10 * rng.standard_normal((60, 70))).astype(dtype)
    wide = [a.astype(np.float64) for a in (p, t, x)]
    cases = [
        ("logistic_loss", x, t, logistic(wide[2], wide[1]), 1 / (1 + np.exp(-wide[2])) - wide[1], -wide[2]),
        ("binary_entropy", p, t, -(wide[1] * np.log(wide[0]) + (1 - wide[1]) * np.log1p(-wide[0])),
         (1 - wide[1]) / (1 - wide[0]) - wide[1] / wide[0], np.log1p(-wide[0]) - np.log(wide[0])),
        ("divergence", x, t, wide[1] * (np.log(wide[1]) - wide[2]), -wide[1], np.log(wide[1]) + 1 - wide[2]),
        ("divergence_of_logs", x, t, np.exp(wide[1]) * (wide[1] - wide[2]), -np.exp(wide[1]),
         np.exp(wide[1]) * (wide[1] - wide[2] + 1)),
    ]  # fmt: skip
    for name, first, second, value, by_input, by_target in cases:
        for a, b in layouts(first, second):
            leaves = [Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)]
            out = getattr(ops, name)(*leaves)
            np.testing.assert_allclose(out.array, value, rtol=tol, atol=tol)
            # The gradient of a mean is one number, repeated.
            for got, wanted in zip(
                plugrad.autograd.grad(out.mean(), leaves), (by_input, by_target)
            ):
                np.testing.assert_allclose(
                    got.array * out.numel(), wanted, rtol=10 * tol, atol=10 * tol
                )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", DTYPES)
def test_entropies_at_the_ends(dtype):
    x = np.array([0, -np.inf, np.inf, -800, 800, np.nan], dtype)
    for target in (0.0, 0.5, 1.0):
        t = np.full(x.shape, target, dtype)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                ops.logistic_loss(Tensor(x), Tensor(t)).array, logistic(x, t), rtol=1e-6
            )
    certain = Tensor(np.array([0, 1, 0, 1], dtype), requires_grad=True)
    out = ops.binary_entropy(certain, Tensor(np.array([0, 1, 1, 0], dtype)))
    np.testing.assert_array_equal(out.array, [0, 0, 100, 100])
    (grad,) = plugrad.autograd.grad(out.sum(), [certain])
    np.testing.assert_allclose(grad.array, [1, -1, -1e12, 1e12], rtol=1e-6)
    impossible = ops.divergence(
        Tensor(np.array([-1.0, -1.0], dtype)), Tensor(np.array([0.0, 1.0], dtype))
    )
    np.testing.assert_array_equal(impossible.array, [0, 1])
    nothing = ops.divergence_of_logs(
        Tensor(np.array([-1.0], dtype)), Tensor(np.array([-np.inf], dtype))
    )
    np.testing.assert_array_equal(nothing.array, [0])


# ---- classes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(5,), (1, 1), (40, 7), (300, 40), (4, 5, 3), (2, 3, 4, 5)])
def test_nll_of_every_layout(shape, reduction, dtype):
    rng = np.random.default_rng(2)
    dim = 0 if len(shape) == 1 else 1
    for order in "CF":
        x = np.asarray(rng.standard_normal(shape).astype(dtype), order=order)
        target = np.array(rng.integers(0, shape[dim], shape[:dim] + shape[dim + 1 :]))
        target[rng.random(target.shape) < 0.2] = -100
        kept = target != -100
        picked = np.take_along_axis(x, np.expand_dims(np.where(kept, target, 0), dim), dim).squeeze(
            dim
        )
        loss = np.where(kept, -picked, 0).astype(np.float64)
        leaf = Tensor(x, requires_grad=True)
        out = ops.nll_loss(leaf, Tensor(target), reduction=reduction)
        grad = rng.standard_normal(out.shape).astype(dtype)
        divisor = kept.sum() if reduction == "mean" else 1
        with np.errstate(all="ignore"):
            wanted = loss if reduction == "none" else loss.sum() / divisor
            np.testing.assert_allclose(out.array, wanted, rtol=1e-6, atol=1e-6)
            (found,) = plugrad.autograd.grad(out, [leaf], Tensor(grad))
            each = np.broadcast_to(np.where(kept, -grad / dtype(divisor), 0), kept.shape)
        slopes = np.zeros(shape, dtype)
        np.put_along_axis(
            slopes, np.expand_dims(np.where(kept, target, 0), dim), np.expand_dims(each, dim), dim
        )
        np.testing.assert_allclose(found.array, slopes, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [1, 2])
def test_margins_of_every_length(p, dtype):
    rng = np.random.default_rng(3)
    for rows, classes in [(1, 1), (3, 2), (50, 33), (200, 2100)]:
        for order in "CF":
            x = np.asarray(rng.standard_normal((rows, classes)).astype(dtype), order=order)
            target = rng.integers(0, classes, rows)
            at = target[:, None]
            lack = np.maximum(0.3 - np.take_along_axis(x, at, 1).astype(np.float64) + x, 0)
            np.put_along_axis(lack, at, 0, 1)
            leaf = Tensor(x, requires_grad=True)
            out = ops.multi_margin_loss(leaf, Tensor(target), p=p, margin=0.3)
            np.testing.assert_allclose(
                out.item(), (lack**p).sum() / classes / rows, rtol=1e-5, atol=1e-7
            )
            (found,) = plugrad.autograd.grad(out, [leaf])
            (rule,) = plugrad.autograd.grad(
                ops.multi_margin_loss(leaf, Tensor(target), p=p, margin=0.3),
                [leaf],
                create_graph=True,
            )
            np.testing.assert_allclose(found.array, rule.array, rtol=1e-4, atol=1e-7)


def test_margins_where_scores_are_not_finite():
    x = Tensor(
        np.array([[np.inf, 0.0, 1.0], [0.0, np.inf, 1.0], [np.nan, 0.0, 5.0]]), requires_grad=True
    )
    out = ops.multi_margin_loss(x, Tensor(np.array([0, 0, 2])), reduction="none")
    np.testing.assert_array_equal(out.array, [0, np.inf, np.nan])


# ---- threads -------------------------------------------------------------------------------------------------


def test_the_number_of_threads_changes_nothing():
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((2, 300, 500)).astype(np.float32)
    target = Tensor(rng.integers(0, 500, 300))
    calls = {
        "errors": lambda a: ops.mse_loss(a, Tensor(y)),
        "logistic": lambda a: ops.logistic_loss(a, Tensor(y)).mean(),
        "nll": lambda a: ops.nll_loss(a, target),
        "margins": lambda a: ops.multi_margin_loss(a, target, p=2),
        "dropout": lambda a: ops.dropout(
            a, generator=plugrad.Generator().manual_seed(3).draw()
        ).sum(),
    }
    before = get_num_threads()
    try:
        for name, call in calls.items():
            results = []
            for threads in (1, 2, 5):
                set_num_threads(threads)
                leaf = Tensor(x, requires_grad=True)
                out = call(leaf)
                (grad,) = plugrad.autograd.grad(out, [leaf])
                results.append((out.array.tobytes(), grad.array.tobytes()))
            assert results[0] == results[1] == results[2], name
    finally:
        set_num_threads(before)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("target", [0.0, [0.0] * 4])
def test_the_gradient_of_a_mean_does_not_overflow_before_it_is_divided(target, create_graph):
    x = Tensor(np.full(4, 3e38, np.float32), requires_grad=True)
    ops.mse_loss(x, Tensor(np.array(target, np.float32))).backward(create_graph=create_graph)
    np.testing.assert_allclose(x.grad.detach().numpy(), [1.5e38] * 4, rtol=1e-6)
