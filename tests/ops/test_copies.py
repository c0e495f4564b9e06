"""What an operator returns is either a view that says so, or memory of its own; and what that means for writing in place."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F

# Operators that return a copy, at arguments with which they leave the elements in their places.
COPYING = {
    "cartesian_prod": (lambda x: plugrad.cartesian_prod(x), (3,)),
    "cat": (lambda x: plugrad.cat([x]), (2, 3)),
    "chain_matmul": (lambda x: plugrad.chain_matmul(x), (2, 3)),
    "channel_shuffle, a channel per group": (lambda x: F.channel_shuffle(x, 4), (1, 4, 2, 2)),
    "channel_shuffle, one group": (lambda x: F.channel_shuffle(x, 1), (1, 4, 2, 2)),
    "clone": (lambda x: x.clone(), (2, 3)),
    "combinations": (lambda x: plugrad.combinations(x, 1), (3,)),
    "cumsum": (lambda x: x.cumsum(0), (1, 3)),
    "diff": (lambda x: plugrad.diff(x, n=0), (3,)),
    "einsum": (lambda x: plugrad.einsum("ijk->ij", x), (2, 3, 1)),
    "flip": (lambda x: plugrad.flip(x, ()), (2, 3)),
    "fold": (lambda x: F.fold(x, (2, 2), 1), (1, 1, 4)),
    "index_put": (lambda x: x.index_put((plugrad.zeros(0, dtype=plugrad.int64),), x[:0]), (2, 3)),
    "interpolate": (lambda x: F.interpolate(x, size=4), (1, 2, 4)),
    "kron": (lambda x: plugrad.kron(x, plugrad.ones(1, 1)), (2, 3)),
    "matrix_power": (lambda x: plugrad.linalg.matrix_power(x, 1), (2, 2)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 1), (1, 2, 3)),
    "pad": (lambda x: F.pad(x, (0, 0)), (2, 3)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 1), (1, 2, 2, 2)),
    "pixel_shuffle of single pixels": (lambda x: F.pixel_shuffle(x, 2), (1, 4, 1, 1)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 1), (1, 2, 2, 2)),
    "pixel_unshuffle to single pixels": (lambda x: F.pixel_unshuffle(x, 2), (1, 1, 2, 2)),
    "repeat": (lambda x: x.repeat(1, 1, 1), (2, 3)),
    "repeat of one row": (lambda x: x.repeat(3, 1), (1, 3)),
    "repeat_interleave": (lambda x: x.repeat_interleave(1, 0), (2, 3)),
    "repeat_interleave, flattened": (lambda x: plugrad.repeat_interleave(x, 1), (2, 3)),
    "repeat_interleave of one element": (lambda x: x.repeat_interleave(3), (1,)),
    "roll": (lambda x: plugrad.roll(x, 0), (2, 3)),
    "rot90": (lambda x: plugrad.rot90(x, 4), (2, 3)),
    "stack": (lambda x: plugrad.stack([x]), (2, 3)),
    "sum": (lambda x: x.sum(0), (1, 3)),
    "tile": (lambda x: x.tile(1), (2, 3)),
    "tile of one row": (lambda x: x.tile(2, 1), (1, 3)),
    "tril": (lambda x: x.tril(9), (2, 3)),
    "unfold": (lambda x: F.unfold(x, 1), (1, 1, 2, 2)),
    "where": (lambda x: plugrad.where(x == x, x, x), (2, 3)),
}


@pytest.mark.parametrize("name", COPYING)
def test_a_copying_operator_returns_memory_of_its_own(name):
    function, shape = COPYING[name]
    before = np.arange(1.0, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    x = plugrad.tensor(before, requires_grad=True)
    out = function(x)
    assert not np.shares_memory(out.detach().numpy(), x.detach().numpy())
    out.add_(plugrad.arange(out.numel(), dtype=plugrad.float32).reshape(out.shape))
    np.testing.assert_array_equal(x.detach().numpy(), before)
    out.sum().backward()
    assert x.grad.shape == shape


@pytest.mark.parametrize("name", ["repeat", "tile of one row", "matrix_power", "pixel_shuffle"])
def test_so_it_does_in_inference_mode(name):
    function, shape = COPYING[name]
    with plugrad.inference_mode():
        x = plugrad.ones(*shape)
        assert not np.shares_memory(function(x).numpy(), x.numpy())


VIEWING = {
    "t": lambda x: x.t_(),
    "transpose": lambda x: x.transpose_(0, 1),
    "swapaxes": lambda x: x.swapaxes_(0, 1),
    "swapdims": lambda x: x.swapdims_(0, 1),
    "squeeze": lambda x: x.squeeze_(),
    "unsqueeze": lambda x: x.unsqueeze_(0),
    "permute": lambda x: x.permute_(1, 0),
    "movedim": lambda x: x.movedim_(0, 1),
    "view": lambda x: x.view_(4),
    "reshape": lambda x: x.reshape_(4),
    "flatten": lambda x: x.flatten_(),
    "diagonal": lambda x: x.diagonal_(),
    "expand": lambda x: x.expand_(2, 2, 2),
    "narrow": lambda x: x.narrow_(0, 0, 1),
}


@pytest.mark.parametrize("name", VIEWING)
@pytest.mark.parametrize("inference", [False, True])
def test_a_view_has_no_in_place_form(name, inference):
    with plugrad.inference_mode(inference):
        base = plugrad.arange(4).reshape(2, 2)
        with pytest.raises(
            RuntimeError, match=rf"{name}_: the operator returns a view.*x = x\.{name}\("
        ):
            VIEWING[name](base[:])
        assert base.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("name, args", [("mvlgamma", (2,)), ("renorm", (2, 0, 0.5))])
def test_a_composite_in_place_leaves_what_its_own_graph_saved(name, args):
    x = plugrad.tensor([[2.0, 3.0], [4.0, 5.0]], requires_grad=True)
    (expected,) = plugrad.autograd.grad(getattr(x, name)(*args).sum(), x)
    y = x * 1
    getattr(y, f"{name}_")(*args)
    (grad,) = plugrad.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(grad.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), 1e30, np.float32("nan"), 2**70]
)
def test_integers_refuse_a_number_that_they_cannot_hold(value):
    x = plugrad.arange(3)
    with pytest.raises(RuntimeError, match="cannot be written into a tensor of int64"):
        x.fill_(value)
    with pytest.raises(RuntimeError, match="cannot be written into a tensor of int64"):
        x[1:] = value
    assert x.tolist() == [0, 1, 2]


def test_integers_take_what_fits_without_its_fraction():
    x = plugrad.zeros(2, dtype=plugrad.uint8)
    x.fill_(255.9)
    x[0] = -0.5
    assert x.tolist() == [0, 255]


def test_shifts_are_operators_of_python():
    x = plugrad.tensor([1, 2, 5])
    assert (x << 2).tolist() == [4, 8, 20]
    assert (1 << x).tolist() == [2, 4, 32]
    assert (x >> 1).tolist() == [0, 1, 2]
    assert (64 >> x).tolist() == [32, 16, 2]
    same = x
    x <<= 1
    x >>= 2
    assert x is same and x.tolist() == [0, 1, 2]


def test_numpys_names_of_keywords_mean_ours():
    x = plugrad.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert plugrad.sum(x, axis=1).tolist() == [3, 8]
    assert x.mean(axis=0, keepdims=True).tolist() == [[2, 3.5]]
    assert x.softmax(axis=1).shape == (2, 2)
    for name in ("std", "var", "logsumexp", "amax", "cumsum", "median", "aminmax", "nansum"):
        ours, theirs = getattr(x, name)(dim=1), getattr(x, name)(axis=1)
        ours, theirs = (r if isinstance(r, tuple) else (r,) for r in (ours, theirs))
        for a, b in zip(ours, theirs):
            assert a.tolist() == b.tolist(), name
    with pytest.raises(TypeError, match="axis"):
        x.exp(axis=0)
    with pytest.raises(TypeError, match="axis"):
        x.sum(dim=0, axis=0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_casts_first(name):
    x = plugrad.tensor([1, 2, 3])
    out = getattr(plugrad, name)(x, 0, dtype=plugrad.float64)
    assert out.dtype == np.float64
    assert out.tolist() == getattr(x.to(np.float64), name)(dim=0).tolist()
    assert getattr(x.float(), name)(dim=0, dtype=plugrad.float64).dtype == np.float64
