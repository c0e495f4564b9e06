"""Writing and combining at indices: values and gradients by loops over elements, ties, zeros, and errors."""

import numpy as np
import pytest

import plugrad

INDEX = np.array([[0, 2, 0], [1, 1, 1]])
FOLDS = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min,
}  # fmt: skip


def leaf(values):
    return plugrad.tensor(np.array(values, dtype=float), requires_grad=True)


def grads(out, *inputs, seed=None):
    found = plugrad.autograd.grad(out, inputs, None if seed is None else plugrad.tensor(seed))
    return [g.tolist() for g in found]


def test_scatter_writes_and_the_last_write_stays():
    x, src = leaf(np.zeros((2, 3))), leaf([[1, 2, 3], [4, 5, 6]])
    out = x.scatter(1, plugrad.tensor(INDEX), src)
    assert out.tolist() == [[3, 0, 2], [0, 6, 0]]
    # What was overwritten, in x or in src, has no gradient.
    seed = [[10.0, 20, 30], [40, 50, 60]]
    assert grads(out, x, src, seed=np.array(seed)) == [
        [[0, 20, 0], [40, 0, 60]], [[0, 30, 10], [0, 0, 50]]
    ]  # fmt: skip
    assert x.scatter(0, plugrad.tensor([[1, 0]]), 7.0).tolist() == [[0, 7, 0], [7, 0, 0]]
    assert x.scatter(0, plugrad.tensor([[1, 0]]), value=7.0).tolist() == [[0, 7, 0], [7, 0, 0]]
    assert plugrad.tensor([1, 2]).scatter(0, plugrad.tensor([1]), 2.9).tolist() == [1, 2]
    y = plugrad.ones(3)
    assert y.scatter_(0, plugrad.tensor([1, 1]), 2.0, reduce="multiply").tolist() == [1, 4, 1]


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(fold, include_self):
    rng = np.random.default_rng(3)
    x, src = rng.standard_normal((2, 3)), rng.standard_normal((2, 3))
    out = plugrad.tensor(x).scatter_reduce(
        1, plugrad.tensor(INDEX), plugrad.tensor(src), fold, include_self=include_self
    )
    for (i, j), value in np.ndenumerate(out.numpy()):
        parts = [s for s, at in zip(src[i], INDEX[i]) if at == j]
        wanted = FOLDS[fold](parts + [x[i, j]] * (include_self or not parts))
        np.testing.assert_allclose(value, wanted, 1e-14)


def test_extremes_that_tie_share():
    x, src = leaf([2, 0, 5]), leaf([2, 2, 1])
    out = x.scatter_reduce(0, plugrad.tensor([0, 0, 1]), src, "amax")
    assert out.tolist() == [2, 1, 5]
    third = 1 / 3
    assert grads(out, x, src, seed=np.ones(3)) == [[third, 0, 1], [third, third, 1]]
    out = x.scatter_reduce(0, plugrad.tensor([0, 0, 1]), src, "amax", include_self=False)
    assert grads(out, x, src, seed=np.ones(3)) == [[0, 0, 1], [0.5, 0.5, 1]]


def test_products_with_zeros_have_exact_gradients_of_any_order():
    index = plugrad.tensor([0, 0, 1])
    x, src = leaf([2, 3, 5]), leaf([0, 7, 4])
    out = x.scatter_reduce(0, index, src, "prod")
    assert out.tolist() == [0, 12, 5]
    first = plugrad.autograd.grad(out.sum(), [x, src], create_graph=True)
    assert [g.tolist() for g in first] == [[0, 4, 1], [14, 0, 3]]
    # d/dsrc[1] of the gradient of src[0], which is x[0] * src[1], is x[0].
    assert grads(first[1][0], x, src) == [[7, 0, 0], [0, 2, 0]]
    two = leaf([0, 0, 4])
    out = x.scatter_reduce(0, index, two, "prod", include_self=False)
    assert grads(out.sum(), x, two) == [[0, 0, 1], [0, 0, 1]]


def test_integers_and_means():
    x, index, src = plugrad.tensor([0, 1, 2]), plugrad.tensor([0, 0, 1]), plugrad.tensor([5, 2, -4])
    assert x.scatter_reduce(0, index, src, "mean", include_self=False).tolist() == [3, -4, 2]
    assert x.scatter_reduce(0, index, src, "mean").tolist() == [2, -2, 2]  # -1.5 rounded down
    assert x.scatter_reduce(0, index, src, "amin").tolist() == [0, -4, 2]


def test_slices_are_added_copied_and_filled():
    x, source, index = leaf(np.ones((3, 2))), leaf([[1, 2], [3, 4]]), plugrad.tensor([2, 2])
    out = x.index_add(0, index, source, alpha=10)
    assert out.tolist() == [[1, 1], [1, 1], [41, 61]]
    assert grads(out.sum(), x, source) == [[[1, 1]] * 3, [[10, 10]] * 2]
    out = x.index_copy(0, plugrad.tensor([2, 0]), source)
    assert out.tolist() == [[3, 4], [1, 1], [1, 2]]
    assert grads(out.sum(), x, source) == [[[0, 0], [1, 1], [0, 0]], [[1, 1]] * 2]
    value = leaf(5)
    out = x.index_fill(1, plugrad.tensor([1]), value)
    assert out.tolist() == [[1, 5]] * 3
    assert grads(out.sum(), value) == [3]
    assert x.index_reduce(0, index, source, "amax").tolist() == [[1, 1], [1, 1], [3, 4]]
    y = plugrad.zeros(3)
    assert y.index_add_(0, plugrad.tensor([1]), plugrad.ones(1)).tolist() == [0, 1, 0]


def test_views_are_replaced():
    x, row = leaf(np.zeros((2, 3))), leaf([1, 2, 3])
    out = x.select_scatter(row, 0, 1)
    assert out.tolist() == [[0, 0, 0], [1, 2, 3]]
    assert grads(out.sum(), x, row) == [[[1, 1, 1], [0, 0, 0]], [1, 1, 1]]
    assert x.slice_scatter(leaf([[9], [8]]), 1, 0, None, 5).tolist() == [[9, 0, 0], [8, 0, 0]]
    nan = leaf([np.nan, 1])
    out = x.diagonal_scatter(nan, 1)
    np.testing.assert_array_equal(out.detach().numpy(), [[0, np.nan, 0], [0, 0, 1]])
    assert grads(out.sum(), x, nan) == [[[1, 0, 1], [1, 1, 0]], [1, 1]]


def test_masks_and_flat_positions():
    x = leaf([[1, 2, 3], [4, 5, 6]])
    mask = plugrad.tensor([True, False, True])
    assert x.masked_select(mask).tolist() == [1, 3, 4, 6]
    assert grads(x.masked_select(mask).sum(), x) == [[[1, 0, 1]] * 2]
    source = leaf([10, 20, 30, 40, 50])
    out = x.masked_scatter(mask, source)
    assert out.tolist() == [[10, 2, 20], [30, 5, 40]]
    assert grads(out.sum(), x, source) == [[[0, 1, 0]] * 2, [1, 1, 1, 1, 0]]
    assert x.take(plugrad.tensor([[-1, 0]])).tolist() == [[6, 1]]
    out = x.put(plugrad.tensor([0, 0]), leaf([7, 8]), accumulate=True)
    assert out.tolist() == [[16, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x, i: x.scatter(0, i, plugrad.ones(1)), RuntimeError, "at least as large"),
        (lambda x, i: x.scatter(0, i, plugrad.ones(2, dtype=plugrad.float64)), RuntimeError, "one dtype"),
        (lambda x, i: x.scatter(0, i + 3, 1.0), IndexError, "index 3 is out of bounds.*shape"),
        (lambda x, i: x.scatter(0, i), TypeError, "src or value"),
        (lambda x, i: x.scatter(0, i, 1.0, reduce="max"), RuntimeError, "'add' or 'multiply'"),
        (lambda x, i: x.scatter_reduce(0, i, x, "max"), RuntimeError, "must be one of sum"),
        (lambda x, i: x.index_add(0, i, plugrad.ones(3)), RuntimeError, "must have shape"),
        (lambda x, i: x.index_copy(1, i, plugrad.ones(2)), IndexError, "out of range"),
        (lambda x, i: x.masked_scatter(x > 0, plugrad.ones(1)), RuntimeError, "fewer than the 3"),
        (lambda x, i: x.masked_select(i), TypeError, "mask must be bool"),
        (lambda x, i: x.select_scatter(x, 0, 0), RuntimeError, "must have the shape"),
    ],
)  # fmt: skip
def test_bad_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call(plugrad.ones(3), plugrad.tensor([0, 2]))
