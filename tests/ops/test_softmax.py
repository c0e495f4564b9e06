"""Compiled kernels of softmax, log_softmax and logsumexp against float64 NumPy: layouts, blocks, pieces, special values."""

import itertools

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, ops
from plugrad.backends.parallel import get_num_threads, set_num_threads

NAMES = ("softmax", "log_softmax", "logsumexp")
DTYPES = (np.float32, np.float64)


def expected(name, x, dim):
    """In float64, keeping the reduced dimensions."""
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        top = x.max(axis=dim, keepdims=True)
        if name == "logsumexp":
            top = np.where(np.isfinite(top), top, 0.0)
        e = np.exp(x - top)
        total = e.sum(axis=dim, keepdims=True)
        if name == "softmax":
            return e / total
        return x - top - np.log(total) if name == "log_softmax" else np.log(total) + top


def expected_gradient(name, x, grad, dim):
    y, grad = expected(name, x, dim), grad.astype(np.float64)
    with np.errstate(all="ignore"):
        if name == "softmax":
            return y * (grad - (grad * y).sum(axis=dim, keepdims=True))
        if name == "log_softmax":
            return grad - np.exp(y) * grad.sum(axis=dim, keepdims=True)
        return grad * np.exp(x.astype(np.float64) - y)


def call(name, x, dim):
    return (
        ops.logsumexp(x, dim=dim, keepdim=True)
        if name == "logsumexp"
        else getattr(ops, name)(x, dim=dim)
    )


def check(name, x, dim, rng, *, grad_like=None):
    leaf = Tensor(x, requires_grad=True)
    out = call(name, leaf, dim)
    grad = rng.standard_normal(out.shape).astype(x.dtype)
    if grad_like is not None:
        grad = grad_like(grad)
    (found,) = plugrad.autograd.grad(out, [leaf], Tensor(grad))
    assert out.dtype == found.dtype == x.dtype
    tol = 2e-6 if x.dtype == np.float32 else 1e-14
    wanted = expected(name, x, dim)
    np.testing.assert_allclose(
        out.array, wanted, rtol=tol, atol=tol * max(1.0, np.abs(x).max(initial=0))
    )
    wanted = expected_gradient(name, x, grad, dim)
    scale = np.abs(wanted).max(initial=0) + np.abs(grad).max(initial=0)
    np.testing.assert_allclose(found.array, wanted, rtol=10 * tol, atol=4 * tol * scale)
    return out, found


# Rows and columns that fill registers, lack something to one, or are fewer; blocks that do not divide the columns.
SHAPES = [
    (1, 1),
    (3, 1),
    (1, 7),
    (2, 8),
    (5, 16),
    (3, 17),
    (4, 100),
    (33, 40),
    (7, 300),
    (2, 3, 5),
    (3, 4, 70),
    (2, 1, 9),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_every_dimension_of_every_layout(name, dtype):
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        for order in itertools.permutations(range(len(shape))):
            memory = rng.standard_normal([shape[d] for d in order]).astype(dtype)
            x = memory.transpose(np.argsort(order))
            for dim in range(len(shape)):
                check(name, x, dim, rng)
                check(name, x, dim - len(shape), rng, grad_like=np.asfortranarray)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_results_lie_as_their_input(name):
    x = np.random.default_rng(1).standard_normal((40, 30)).T
    assert call(name, Tensor(x), 0).array.strides == x.strides


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_layouts_with_gaps_are_copied(name, dtype):
    rng = np.random.default_rng(2)
    whole = rng.standard_normal((20, 30, 6)).astype(dtype)
    for x in (whole[::2, ::-1], whole[:, 3:20:2, 1], np.broadcast_to(whole[:1, :, :1], (4, 30, 5))):
        for dim in range(x.ndim):
            check(name, x, dim, rng)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_long_rows_and_long_columns(name, dtype):
    rng = np.random.default_rng(3)
    for shape, dim in [
        ((70_000,), 0),
        ((2, 66_000), 1),
        ((100_000, 3), 0),
        ((3000, 70), 0),
        ((2, 2000, 33), 1),
    ]:
        check(name, rng.standard_normal(shape).astype(dtype), dim, rng)


@pytest.mark.parametrize("dim", [(0, 1), (1, 2), (0, 1, 2), (0, 2), (-1, 0)])
@pytest.mark.parametrize("layout", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_logsumexp_over_several_dimensions(dim, layout):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((4, 5, 20)).transpose(layout)
    check("logsumexp", x, dim, rng)
    assert (
        ops.logsumexp(Tensor(x), dim=dim).shape == expected("logsumexp", x, dim).squeeze(dim).shape
    )


SPECIAL = {
    "all -inf": [-np.inf] * 3,
    "some -inf": [-np.inf, 1.0, 2.0],
    "inf": [np.inf, 1.0, -np.inf],
    "two inf": [np.inf, 1.0, np.inf],
    "nan": [np.nan, 1.0, 2.0],
    "nan behind": [1.0, 2.0, np.nan],
    "nan and inf": [np.inf, 1.0, np.nan],
    "huge": [3e38, -3e38, 3e38],
    "far apart": [0.0, -200.0, -1000.0],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [3, 40, 70_000])
@pytest.mark.parametrize("case", SPECIAL)
def test_special_values(name, dtype, n, case):
    # Along rows, along columns, and in a long row, where they lie in pieces of their own; the rest of a row is -inf.
    row = np.full(n, -np.inf, dtype)
    row[[0, n // 2, n - 1]] = SPECIAL[case]
    with np.errstate(over="ignore"):
        wanted = expected(name, row, 0).astype(dtype)
    for x, dim in ((row, 0), (np.stack([row, row]), 1), (np.stack([row] * 20, axis=1), 0)):
        if x.size > 10**6:
            continue
        leaf = Tensor(x, requires_grad=True)
        out = call(name, leaf, dim)
        each = np.moveaxis(out.array, dim, 0).reshape(out.shape[dim], -1)[:, -1]
        np.testing.assert_allclose(each, wanted, rtol=2e-6 if dtype == np.float32 else 1e-14)
        (grad,) = plugrad.autograd.grad(out.sum(), [leaf])
        (rule,) = plugrad.autograd.grad(call(name, leaf, dim).sum(), [leaf], create_graph=True)
        np.testing.assert_allclose(grad.array, rule.array, rtol=1e-5, atol=1e-5)


def test_infinite_results_of_logsumexp_are_shared_among_what_is_infinite():
    x = Tensor(np.array([[np.inf, 1.0, np.inf], [-np.inf, -np.inf, -np.inf]]), requires_grad=True)
    (grad,) = plugrad.autograd.grad(ops.logsumexp(x, dim=1).sum(), [x])
    np.testing.assert_array_equal(grad.array, [[0.5, 0, 0.5], [0, 0, 0]])


@pytest.mark.parametrize("name", NAMES)
def test_long_sums_keep_their_digits(name):
    x = np.zeros(
        (1 << 20, 2), np.float32
    )  # a running sum of ones would stop at 2**24, and lose digits before
    for array, dim in ((x, 0), (np.ascontiguousarray(x.T), 1)):
        wanted = {"softmax": 2.0**-20, "log_softmax": -20 * np.log(2), "logsumexp": 20 * np.log(2)}[
            name
        ]
        np.testing.assert_allclose(call(name, Tensor(array), dim).array, wanted, rtol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_threads_changes_nothing(name):
    rng = np.random.default_rng(5)
    before = get_num_threads()
    try:
        for shape, dim in [((500, 300), 1), ((500, 300), 0), ((200_000,), 0), ((3, 40, 900), 1)]:
            x = rng.standard_normal(shape).astype(np.float32)
            results = []
            for threads in (1, 2, 5):
                set_num_threads(threads)
                leaf = Tensor(x, requires_grad=True)
                out = call(name, leaf, dim)
                (grad,) = plugrad.autograd.grad(out, [leaf], Tensor(np.cos(out.array)))
                results.append((out.array.tobytes(), grad.array.tobytes()))
            assert results[0] == results[1] == results[2]
    finally:
        set_num_threads(before)


def test_an_expanded_gradient():
    x = np.random.default_rng(6).standard_normal((30, 20)).astype(np.float32)
    for name in NAMES:
        leaf = Tensor(x, requires_grad=True)
        call(name, leaf, 1).sum().backward()
        wanted = expected_gradient(name, x, np.ones((30, 1 if name == "logsumexp" else 20)), 1)
        np.testing.assert_allclose(leaf.grad.array, wanted, atol=1e-6)
