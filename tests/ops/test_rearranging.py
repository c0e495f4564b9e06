"""Rolling, rotating, repeating, triangles, joins and splits against NumPy."""

import numpy as np
import pytest

import plugrad

X = np.arange(24.0).reshape(2, 3, 4)


def check(function, wanted, array=X):
    """The value is `wanted`; as `array` holds its own positions, that says where each element went."""
    leaf = plugrad.tensor(array, requires_grad=True)
    out = function(leaf)
    np.testing.assert_array_equal(out.detach().numpy(), wanted)
    seed = 1.0 + np.arange(wanted.size).reshape(wanted.shape)
    (grad,) = plugrad.autograd.grad(out, [leaf], plugrad.tensor(seed))
    expected = np.zeros(array.size)
    np.add.at(expected, wanted.astype(int).ravel(), seed.ravel())
    np.testing.assert_array_equal(grad.numpy(), expected.reshape(array.shape))


@pytest.mark.parametrize(
    ("shifts", "dims"),
    [(1, None), (-5, None), (2, 1), ((1, -1), (0, 2)), ((1, 2), (1, 1)), (7, -1), (0, 0)],
)
def test_roll(shifts, dims):
    check(lambda x: x.roll(shifts, dims), np.roll(X, shifts, dims))


@pytest.mark.parametrize("k", range(-1, 5))
@pytest.mark.parametrize("dims", [(0, 1), (2, 0)])
def test_rot90(k, dims):
    check(lambda x: x.rot90(k, dims), np.rot90(X, k, dims))


def test_mirrors_and_views():
    check(lambda x: x.fliplr(), np.fliplr(X))
    check(lambda x: x.flipud(), np.flipud(X))
    check(lambda x: x.swapaxes(0, 2), np.swapaxes(X, 0, 2))
    check(lambda x: x.moveaxis(0, -1), np.moveaxis(X, 0, -1))
    check(lambda x: x.adjoint(), X.transpose(0, 2, 1))
    check(lambda x: x.ravel(), X.ravel())
    check(lambda x: x.select(1, -1), X[:, -1])
    check(lambda x: x.view_as(plugrad.zeros(6, 4)), X.reshape(6, 4))
    x = plugrad.tensor(X)
    for view in (x.select(1, 0), x.adjoint(), x.ravel(), x.tensor_split(2)[0]):
        assert np.shares_memory(view.numpy(), x.numpy())


def test_writes_reach_through_the_new_views():
    x = plugrad.tensor(X, requires_grad=True)
    y = x * 1.0
    y.select(1, 0).zero_()
    y.swapaxes(0, 1)[2].mul_(3.0)
    y.sum().backward()
    assert x.grad.numpy()[0, :, 0].tolist() == [0, 1, 3]


@pytest.mark.parametrize("repeats", [2, 0, [2], [1, 0, 3]])
@pytest.mark.parametrize("dim", [1, -2])
def test_repeat_interleave(repeats, dim):
    counts = plugrad.tensor(repeats) if isinstance(repeats, list) else repeats
    wanted = np.repeat(X, repeats, 1)
    check(lambda x: x.repeat_interleave(counts, dim), wanted)
    check(lambda x: x.repeat_interleave(counts, dim, output_size=wanted.shape[1]), wanted)


def test_repeat_interleave_of_counts_and_of_all():
    assert plugrad.repeat_interleave(plugrad.tensor([1, 0, 2])).tolist() == [0, 2, 2]
    check(lambda x: x.repeat_interleave(2), np.repeat(X, 2))
    with pytest.raises(RuntimeError, match="output_size is 5, but the repeats sum to 4"):
        plugrad.tensor(X).repeat_interleave(2, 0, output_size=5)


@pytest.mark.parametrize("k", [-2, 0, 1, 9])
def test_triangles(k):
    for name in ("tril", "triu"):
        x = plugrad.tensor(1.0 + X, requires_grad=True)
        out = getattr(x, name)(k)
        np.testing.assert_array_equal(out.detach().numpy(), getattr(np, name)(1.0 + X, k))
        out.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), getattr(np, name)(np.ones_like(X), k))
        for dtype in (np.float16, np.int32, np.bool_, np.complex128):
            stack = np.arange(24).reshape(2, 4, 3).astype(dtype)
            for array in (stack, stack.transpose(0, 2, 1), stack[:, ::-2], stack[:0], stack[:, :0]):
                got = getattr(plugrad, name)(plugrad.tensor(array), k).numpy()
                np.testing.assert_array_equal(got, getattr(np, name)(array, k))
    assert plugrad.tril(plugrad.tensor([[True, True]])).tolist() == [[True, False]]
    x = plugrad.tensor([[np.inf, np.nan]])
    assert plugrad.triu(x, 5).tolist() == [[0, 0]]


def test_diagonals_are_built_and_taken():
    v, m = np.arange(3.0), np.arange(6.0).reshape(2, 3)
    for k in (-1, 0, 2):
        np.testing.assert_array_equal(plugrad.diag(plugrad.tensor(v), k).numpy(), np.diag(v, k))
        check(lambda x, k=k: x.diag(k), np.diag(m, k), m)
    np.testing.assert_array_equal(plugrad.diagflat(plugrad.tensor(m)).numpy(), np.diagflat(m))
    out = plugrad.diag_embed(plugrad.tensor(m), 1, 0, -1)
    assert out.shape == (4, 2, 4)
    np.testing.assert_array_equal(out.diagonal(1, 0, 2).numpy(), m)


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4)])
def test_stacks(name, shape):
    a, b = np.random.default_rng(0).standard_normal((2, *shape))
    out = getattr(plugrad, name)([plugrad.tensor(a), plugrad.tensor(b)])
    np.testing.assert_array_equal(out.numpy(), getattr(np, name)([a, b]))


def test_empty_vectors_join_with_anything():
    none, x = plugrad.zeros(0, requires_grad=True), plugrad.ones(2, 3, requires_grad=True)
    for dim in (0, 1):
        out = plugrad.cat([none, x, none], dim)
        assert out.shape == (2, 3)
        (out * out).sum().backward()
    assert x.grad.tolist() == [[4] * 3] * 2
    with pytest.raises(RuntimeError, match="0-d"):
        plugrad.cat([x, plugrad.tensor(1.0)])


@pytest.mark.parametrize(
    "places", [1, 3, 5, (1, 3), (2, 2, 9), (-1,), (3, 1), plugrad.tensor([1, 2])]
)
def test_tensor_split(places):
    own = places.numpy() if hasattr(places, "numpy") else places
    x = plugrad.tensor(X)
    for got, wanted in zip(x.tensor_split(places, 2), np.array_split(X, own, 2), strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_even_splits():
    x = plugrad.tensor(X)
    assert [p.shape for p in x.hsplit(3)] == [(2, 1, 4)] * 3
    assert [p.shape for p in x.vsplit((1,))] == [(1, 3, 4)] * 2
    assert [p.shape for p in x.dsplit(2)] == [(2, 3, 2)] * 2
    with pytest.raises(RuntimeError, match="size 3 of dimension 1 is not divisible into 2"):
        x.hsplit(2)


def test_grids_and_products():
    a, b = np.arange(3.0), np.arange(2.0)
    for indexing in ("ij", "xy"):
        got = plugrad.meshgrid(plugrad.tensor(a), plugrad.tensor(b), indexing=indexing)
        for one, wanted in zip(got, np.meshgrid(a, b, indexing=indexing), strict=True):
            np.testing.assert_array_equal(one.numpy(), wanted)
    assert plugrad.cartesian_prod(plugrad.tensor([1, 2]), plugrad.tensor([3, 4])).tolist() == [
        [1, 3], [1, 4], [2, 3], [2, 4]
    ]  # fmt: skip
    assert plugrad.combinations(plugrad.tensor([1, 2, 3])).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert plugrad.block_diag(plugrad.tensor([[1, 2]]), plugrad.tensor(3)).tolist() == [
        [1, 2, 0], [0, 0, 3]
    ]  # fmt: skip
    one, two = plugrad.broadcast_tensors(plugrad.zeros(2, 1), plugrad.zeros(3))
    assert one.shape == two.shape == plugrad.broadcast_shapes((2, 1), 3) == (2, 3)
    with pytest.raises(RuntimeError, match="do not broadcast"):
        plugrad.broadcast_shapes((2,), (3,))


def test_too_many_combinations_are_refused_before_they_are_listed():
    with pytest.raises(RuntimeError, match="too many"):
        plugrad.combinations(plugrad.ones(200), 20)
    assert plugrad.combinations(plugrad.ones(3), 5).shape == (0, 5)
    assert plugrad.combinations(plugrad.ones(0), 2, True).shape == (0, 2)
