"""Sorting, searching and what is distinct: order, ties, NaN, gradients, and errors."""

import numpy as np
import pytest

import plugrad

NAN = float("nan")
TIES = np.array([2.0, NAN, 1, 2, NAN, 1, 3])


def test_sort_keeps_equal_elements_in_order_and_puts_nan_last():
    values, indices = plugrad.tensor(TIES).sort()
    np.testing.assert_array_equal(values.numpy(), [1, 1, 2, 2, 3, NAN, NAN])
    assert indices.tolist() == [2, 5, 0, 3, 6, 1, 4]
    values, indices = plugrad.tensor(TIES).sort(descending=True)
    np.testing.assert_array_equal(values.numpy(), [NAN, NAN, 3, 2, 2, 1, 1])
    assert indices.tolist() == [1, 4, 6, 0, 3, 2, 5]
    assert plugrad.tensor([3, 1, 2], dtype=plugrad.uint8).argsort(descending=True).tolist() == [
        0,
        2,
        1,
    ]
    assert plugrad.tensor([True, False]).sort().values.tolist() == [False, True]


def test_gradients_go_where_values_came_from():
    x = plugrad.tensor([[3.0, 1.0], [2.0, 5.0]], requires_grad=True)
    out = x.sort(0).values
    (first,) = plugrad.autograd.grad((out * out * out).sum(), [x], create_graph=True)
    assert first.tolist() == [[27, 3], [12, 75]]
    (second,) = plugrad.autograd.grad(first.sum(), [x])
    assert second.tolist() == [[18, 6], [12, 30]]
    (top,) = plugrad.autograd.grad(x.topk(1, 1).values.sum(), [x])
    assert top.tolist() == [[1, 0], [0, 1]]
    assert not x.sort().indices.requires_grad


@pytest.mark.parametrize("k", [0, 1, 2, 4, 7])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("length", [7, 70])
def test_topk_takes_the_first_of_a_stable_sort(k, largest, length):
    rows = np.stack([np.resize(TIES, length), np.resize(TIES[::-1], length)])
    for dtype in (np.float32, np.int32):
        x = plugrad.tensor(
            np.nan_to_num(rows, nan=9).astype(dtype) if dtype == np.int32 else rows.astype(dtype)
        )
        values, indices = x.topk(k, 1, largest)
        every = x.sort(1, descending=largest)
        np.testing.assert_array_equal(values.numpy(), every.values.numpy()[:, :k])
        np.testing.assert_array_equal(indices.numpy(), every.indices.numpy()[:, :k])
        assert indices.dtype == np.int64


def test_bad_arguments():
    x = plugrad.zeros(2, 3)
    with pytest.raises(RuntimeError, match="k must lie between 0 and 3, got 4"):
        x.topk(4)
    with pytest.raises(IndexError, match="out of range"):
        x.sort(2)
    with pytest.raises(RuntimeError, match="all dimensions but the last"):
        plugrad.searchsorted(x, plugrad.zeros(3, 2))
    with pytest.raises(RuntimeError, match="1-d"):
        plugrad.bucketize(1.0, x)
    with pytest.raises(RuntimeError, match="no elements to compare"):
        plugrad.unique(plugrad.zeros(2, 0), dim=0)


def test_places_in_a_sorted_sequence():
    sequence = plugrad.tensor([1.0, 2, 2, 4])
    values = plugrad.tensor([[0.0, 2, 3], [4, 5, NAN]])
    assert plugrad.searchsorted(sequence, values).tolist() == [[0, 1, 3], [3, 4, 4]]
    assert plugrad.searchsorted(sequence, values, side="right").tolist() == [[0, 3, 3], [4, 4, 4]]
    assert plugrad.bucketize(values, sequence, right=True, out_int32=True).dtype == np.int32
    assert plugrad.searchsorted(sequence, 2).item() == 1
    assert plugrad.searchsorted(plugrad.tensor([1, 2]), 1.5).item() == 1
    shuffled, sorter = plugrad.tensor([4.0, 1, 2]), plugrad.tensor([1, 2, 0])
    assert plugrad.searchsorted(shuffled, 3.0, sorter=sorter).item() == 2


def test_places_in_sorted_rows():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 16):
        rows, values = np.sort(rng.integers(0, 9, (3, n))), rng.integers(-1, 10, (3, 5))
        for side in ("left", "right"):
            got = plugrad.searchsorted(plugrad.tensor(rows), plugrad.tensor(values), side=side)
            wanted = [np.searchsorted(row, v, side) for row, v in zip(rows, values)]
            np.testing.assert_array_equal(got.numpy(), wanted)


def test_membership():
    x = plugrad.tensor([1.0, NAN, 3.0])
    assert plugrad.isin(x, plugrad.tensor([3.0, NAN])).tolist() == [False, False, True]
    assert plugrad.isin(x, 1, invert=True).tolist() == [False, True, True]
    assert plugrad.isin(3, x).item()
    assert plugrad.isin(plugrad.tensor([1]), plugrad.zeros(0, dtype=plugrad.int64)).tolist() == [
        False
    ]


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_unique(dim):
    x = np.random.default_rng(1).integers(0, 2, (5, 2))
    found = plugrad.tensor(x).unique(return_inverse=True, return_counts=True, dim=dim)
    wanted = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    for got, by_numpy in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got.numpy(), by_numpy.reshape(got.shape))
    again = found[0].numpy().take(found[1].numpy(), dim or 0)
    np.testing.assert_array_equal(again, x)


def test_runs_of_equal_neighbours():
    x = plugrad.tensor([[1, 1, 2], [2, 1, 1]])
    out, inverse, counts = x.unique_consecutive(return_inverse=True, return_counts=True)
    assert out.tolist() == [1, 2, 1]
    assert inverse.tolist() == [[0, 0, 1], [1, 2, 2]]
    assert counts.tolist() == [2, 2, 2]
    assert plugrad.tensor([[1, 2], [1, 2], [3, 2]]).unique_consecutive(dim=0).tolist() == [
        [1, 2],
        [3, 2],
    ]
    assert plugrad.unique(plugrad.tensor(TIES)).shape == (5,)  # NaN is equal to nothing


def test_unique_values_have_gradients():
    x = plugrad.tensor([3.0, 1.0, 2.0], requires_grad=True)
    out = plugrad.unique(x)
    (out * plugrad.tensor([10.0, 20.0, 30.0])).sum().backward()
    assert x.grad.tolist() == [30, 10, 20]


def test_where_something_holds():
    x = plugrad.tensor([[0, 5], [NAN, 0]])
    assert x.nonzero().tolist() == plugrad.argwhere(x).tolist() == [[0, 1], [1, 0]]
    assert [i.tolist() for i in plugrad.where(x)] == [[0, 1], [1, 0]]
    assert plugrad.tensor(2.0).nonzero().shape == (1, 0)
    assert [i.tolist() for i in plugrad.tensor(2.0).nonzero(as_tuple=True)] == [[0]]
    assert plugrad.zeros(0, 3).nonzero().shape == (0, 2)
    with pytest.raises(TypeError, match="both input and other"):
        plugrad.where(x > 0, x)
