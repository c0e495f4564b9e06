"""Attention against the formula in NumPy: masks, rows that see nothing, causal order, shared heads, dropout, errors."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import Tensor
from plugrad.nn.functional import scaled_dot_product_attention as attention

RNG = np.random.default_rng(0)
Q, K, V = (RNG.standard_normal(shape) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 6)))


def formula(q, k, v, bias=0.0, scale=None):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ k.swapaxes(-1, -2) * scale + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def close(found, wanted):
    np.testing.assert_allclose(found.array, wanted, rtol=1e-12, atol=1e-14)


def test_values():
    close(attention(*map(Tensor, (Q, K, V))), formula(Q, K, V))
    close(attention(*map(Tensor, (Q, K, V)), scale=0.3), formula(Q, K, V, scale=0.3))
    close(attention(*map(Tensor, (Q[0], K[0], V[0]))), formula(Q[0], K[0], V[0]))


def test_causal_means_no_look_ahead():
    order = np.where(np.arange(3)[:, None] >= np.arange(5), 0, -np.inf)
    close(attention(*map(Tensor, (Q, K, V)), is_causal=True), formula(Q, K, V, order))


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_row_that_sees_nothing_gives_zero_without_gradient(kind):
    mask = np.ones((3, 5), bool)
    mask[1], mask[2, ::2] = False, False
    bias = np.where(mask, 0.5, -np.inf)
    leaves = [Tensor(x, requires_grad=True) for x in (Q, K, V)]
    out = attention(*leaves, Tensor(mask if kind == "bool" else bias))
    rows = [0, 2]
    close(out[:, rows], formula(Q[:, rows], K, V, np.where(mask, 0, -np.inf)[rows]))
    assert not out.array[:, 1].any()
    grads = plugrad.autograd.grad(out.sum(), leaves)
    assert not grads[0].array[:, 1].any()
    assert all(np.isfinite(g.array).all() for g in grads)


def test_the_gradient_of_a_mask():
    bias = Tensor(RNG.standard_normal((3, 5)), requires_grad=True)
    attention(*map(Tensor, (Q, K, V)), bias).sum().backward()
    step = 1e-6
    for at in ((0, 0), (2, 3)):
        change = np.zeros((3, 5))
        change[at] = step
        sums = [formula(Q, K, V, bias.array + sign * change).sum() for sign in (1, -1)]
        np.testing.assert_allclose(bias.grad.array[at], (sums[0] - sums[1]) / (2 * step), rtol=1e-6)


def test_heads_share_keys_and_values():
    q, k, v = (RNG.standard_normal(s) for s in ((2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 3)))
    out = attention(*map(Tensor, (q, k, v)), enable_gqa=True)
    close(out, formula(q, k.repeat(2, 1), v.repeat(2, 1)))


def test_no_keys_and_no_batch():
    nothing = attention(Tensor(np.ones((1, 2, 4))), *(Tensor(np.ones((1, 0, 4))) for _ in range(2)))
    assert nothing.tolist() == [[[0] * 4] * 2]
    assert attention(*(Tensor(x[:0]) for x in (Q, K, V))).shape == (0, 3, 6)


def test_dropout_keeps_the_mean():
    plugrad.manual_seed(0)
    q, k = np.zeros((1, 2, 4)), np.zeros((1, 4000, 4))
    out = attention(Tensor(q), Tensor(k), Tensor(np.ones((1, 4000, 1))), dropout_p=0.5)
    np.testing.assert_allclose(out.array, 1.0, atol=0.1)
    assert out.array[0, 0, 0] != out.array[0, 1, 0]


@pytest.mark.parametrize(
    ("arguments", "constants", "error", "words"),
    [
        ((Q, K[..., :3], V), {}, RuntimeError, "expected query"),
        ((Q, K, V[:, :4]), {}, RuntimeError, "expected query"),
        ((Q[0, 0], K[0], V[0]), {}, RuntimeError, "2 dimensions at least"),
        ((Q.astype(np.float32), K, V), {}, RuntimeError, "one dtype"),
        ((Q, K, V, np.ones((3, 5), bool)), {"is_causal": True}, RuntimeError, "is_causal=True"),
        ((Q, K, V, np.ones((3, 5), np.int64)), {}, RuntimeError, "attn_mask must be of dtype"),
        ((Q, K, V), {"dropout_p": 1.5}, ValueError, "dropout_p"),
        ((Q[None], K[None, :1], V[None, :1]), {"enable_gqa": True, "scale": 1.0}, None, ""),
        ((Q[None], K[None].repeat(3, 1), V[None].repeat(3, 1)), {"enable_gqa": True}, RuntimeError, "divide"),
    ],
)  # fmt: skip
def test_errors(arguments, constants, error, words):
    tensors = [Tensor(x) for x in arguments]
    if error is None:
        attention(*tensors, **constants)
        return
    with pytest.raises(error, match=words):
        attention(*tensors, **constants)
