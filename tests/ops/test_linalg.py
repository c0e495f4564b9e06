"""Matrix products of every pair of ranks against NumPy, values and gradients; what bad shapes say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, ops


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def numerical(function, array, step=1e-6):
    """Central differences of a scalar function of one array."""
    out = np.zeros_like(array)
    for i in np.ndindex(array.shape):
        ahead, behind = array.copy(), array.copy()
        ahead[i] += step
        behind[i] -= step
        out[i] = (function(ahead) - function(behind)) / (2 * step)
    return out


@st.composite
def factors(draw):
    """Two shapes that can be multiplied."""
    side = st.integers(1, 3)
    k = draw(side)
    batch = draw(st.lists(side, max_size=2))
    first = draw(st.sampled_from([[k], [draw(side), k], [*batch, draw(side), k]]))
    own = [draw(st.sampled_from([n, 1])) for n in batch]
    second = draw(st.sampled_from([[k], [k, draw(side)], [*own, k, draw(side)]]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.standard_normal(first), rng.standard_normal(second)


@given(factors())
@settings(max_examples=60, deadline=None)
def test_matmul_of_every_rank(pair):
    a, b = pair
    x, y = leaf(a), leaf(b)
    out = x @ y
    wanted = np.matmul(a, b)
    np.testing.assert_allclose(out.array, wanted, rtol=1e-12, atol=1e-14)
    seed = np.asarray(np.cos(np.arange(wanted.size)).reshape(wanted.shape))
    grad_x, grad_y = plugrad.autograd.grad(out, [x, y], Tensor(seed))
    np.testing.assert_allclose(
        grad_x.array, numerical(lambda v: (np.matmul(v, b) * seed).sum(), a), atol=1e-8
    )
    np.testing.assert_allclose(
        grad_y.array, numerical(lambda v: (np.matmul(a, v) * seed).sum(), b), atol=1e-8
    )


def test_transposed_and_strided_factors():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 6)), rng.standard_normal((5, 4))
    out = ops.matmul(Tensor(a[:, ::2].T), Tensor(b[::-1].T))
    np.testing.assert_allclose(out.array, a[:, ::2].T @ b[::-1].T)


def test_a_stack_times_one_matrix():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 2, 4)), rng.standard_normal((4, 5))
    np.testing.assert_allclose(ops.matmul(Tensor(a), Tensor(b)).array, a @ b, rtol=1e-14)
    x, y = leaf(a), leaf(b)
    (x @ y).sum().backward()
    np.testing.assert_allclose(y.grad.array, np.broadcast_to(a.sum((0, 1))[:, None], (4, 5)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_is_kept(dtype):
    x, y = leaf([[1, 2]], dtype), leaf([[3], [4]], dtype)
    out = x @ y
    assert out.dtype == dtype
    out.sum().backward()
    assert x.grad.dtype == dtype


def test_integers():
    out = Tensor(np.array([[1, 2]])) @ Tensor(np.array([[3], [4]]))
    assert out.tolist() == [[11]]
    assert out.dtype == np.int64


def test_inner_size_zero_gives_zeros():
    x, y = leaf(np.zeros((2, 0))), leaf(np.zeros((0, 3)))
    out = x @ y
    np.testing.assert_array_equal(out.array, np.zeros((2, 3)))
    out.sum().backward()
    assert x.grad.shape == (2, 0)


def test_named_products():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(ops.mm(Tensor(a), Tensor(b)).array, a @ b)
    np.testing.assert_array_equal(ops.bmm(Tensor(a[None]), Tensor(b[None])).array, (a @ b)[None])
    np.testing.assert_array_equal(ops.mv(Tensor(a), Tensor(a[0])).array, a @ a[0])
    assert ops.dot(Tensor(a[0]), Tensor(a[1])).item() == a[0] @ a[1]


@pytest.mark.parametrize("lead", [(), (4,), (2, 4), (0,)])
def test_linear(lead):
    rng = np.random.default_rng(0)
    x, w, b = leaf(rng.standard_normal((*lead, 3))), leaf(rng.standard_normal((2, 3))), leaf([1, 2])
    out = ops.linear(x, w, b)
    np.testing.assert_allclose(out.array, x.array @ w.array.T + b.array)
    composed = x @ ops.t(w) + b
    seed = Tensor(rng.standard_normal(out.shape))
    fused = plugrad.autograd.grad(out, [x, w, b], seed)
    for mine, other in zip(fused, plugrad.autograd.grad(composed, [x, w, b], seed)):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine.array, other.array, atol=1e-12)


# ------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("name", "first", "second", "words"),
    [
        (
            "matmul",
            (2, 3),
            (2, 3),
            r"shapes \(2, 3\) and \(2, 3\) cannot be multiplied.*3.*must equal 2",
        ),
        ("matmul", (2,), (3,), r"shapes \(2,\) and \(3,\) cannot be multiplied"),
        ("matmul", (), (2,), "at least 1 dimension"),
        ("matmul", (2, 2, 3), (3, 3, 2), r"leading dimensions.*\(2, 2, 3\) and \(3, 3, 2\)"),
        ("mm", (3,), (3, 2), "expected 2-d tensors"),
        ("bmm", (1, 2, 3), (2, 3, 2), "equally high"),
        ("mv", (2, 3), (2, 3), "a matrix and a vector"),
        ("dot", (2, 3), (3,), "expected 1-d tensors"),
        ("linear", (2, 4), (4, 3), r"input \(\*, in_features\)"),
    ],
)
def test_shapes_that_do_not_fit(name, first, second, words):
    with pytest.raises(RuntimeError, match=f"{name}: .*{words}|{words}"):
        getattr(ops, name)(Tensor(np.ones(first)), Tensor(np.ones(second)))


def test_bias_of_another_shape():
    with pytest.raises(RuntimeError, match=r"bias must have shape \(4,\), got \(3,\)"):
        ops.linear(Tensor(np.ones((2, 3))), Tensor(np.ones((4, 3))), Tensor(np.ones(3)))
