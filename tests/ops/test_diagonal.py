"""The view of a diagonal, and its adjoint."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plugrad


@given(
    shape=st.lists(st.integers(0, 4), min_size=2, max_size=4),
    offset=st.integers(-5, 5),
    data=st.data(),
)
def test_as_numpy(shape, offset, data):
    dims = data.draw(st.permutations(range(-len(shape), 0)))[:2]
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    seen = plugrad.Tensor(array).diagonal(offset, *dims)
    np.testing.assert_array_equal(seen.array, array.diagonal(offset, *dims))
    weights = np.arange(seen.numel(), dtype=np.float64).reshape(seen.shape) + 1
    x = plugrad.Tensor(array.copy(), requires_grad=True)
    (x.diagonal(offset, *dims) * weights).sum().backward()
    expected = np.zeros(shape)
    place = expected.diagonal(offset, *dims)
    place.flags.writeable = True
    place[...] = weights
    np.testing.assert_array_equal(x.grad.array, expected)


def test_it_is_a_view():
    x = plugrad.zeros(2, 3)
    d = x.diagonal(1)
    d.fill_(7)
    assert x.tolist() == [[0, 7, 0], [0, 0, 7]]
    assert d._version == x._version == 1


def test_of_memory_that_cannot_be_written():
    array = np.zeros((2, 2))
    array.flags.writeable = False
    assert plugrad.Tensor(array).diagonal().tolist() == [0, 0]


def test_writing_it_keeps_gradients_right():
    a, v = plugrad.ones(2, 2, requires_grad=True), plugrad.ones(2, requires_grad=True)
    x = a * 3
    x.diagonal().mul_(v * 2)
    (x * x).sum().backward()
    assert x.tolist() == [[6, 3], [3, 6]]
    assert a.grad.tolist() == [[72, 18], [18, 72]]
    assert v.grad.tolist() == [72, 72]


@pytest.mark.parametrize(
    ("shape", "options", "error", "words"),
    [
        ((3,), {}, RuntimeError, "at least 2 dimensions, got 1"),
        ((2, 2), {"dim1": 1, "dim2": -1}, RuntimeError, "must differ"),
        ((2, 2), {"dim2": 2}, IndexError, "out of range"),
    ],
)
def test_refused(shape, options, error, words):
    with pytest.raises(error, match=words):
        plugrad.zeros(*shape).diagonal(**options)
