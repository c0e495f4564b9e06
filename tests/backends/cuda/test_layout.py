"""Shapes and strides as loops: collapsed, packed, and where 32 bits are enough."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from plugrad.backends.cuda import layout


@st.composite
def views(draw):
    """A view of some array: transposed, sliced, reversed, expanded."""
    shape = draw(st.lists(st.integers(1, 4), min_size=0, max_size=5))
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = draw(
        st.lists(st.sampled_from([1, 1, 2, -1, -2]), min_size=array.ndim, max_size=array.ndim)
    )
    array = array[tuple(slice(None, None, step) for step in steps)]
    if array.ndim and draw(st.booleans()):
        array = np.broadcast_to(array[:1], (3, *array.shape[1:]))
    return array


def visited(lengths, steps, base):
    """The elements in the order of the loops."""
    shape, strides = lengths[::-1], [own[0] for own in steps][::-1]
    return as_strided(base, shape, strides).ravel()


@given(views())
def test_collapsed_loops_visit_the_same_elements_in_order(array):
    lengths, steps = layout.collapse(array.shape, [array.strides])
    np.testing.assert_array_equal(visited(lengths, steps, array), array.ravel())
    assert all(n > 1 for n in lengths) or lengths == [1]


@given(views())
def test_any_order_visits_all(array):
    order = sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))
    lengths, steps = layout.collapse(array.shape, [array.strides], order)
    np.testing.assert_array_equal(visited(lengths, steps, array), array.transpose(order).ravel())


def test_collapse_of_typical_operands():
    assert layout.collapse((4, 5), [(20, 4), (20, 4)]) == ([20], [[4, 4]])
    assert layout.collapse((4, 5), [(20, 4), (0, 4)]) == ([5, 4], [[4, 4], [20, 0]])
    assert layout.collapse((2, 3, 4), [(48, 16, 4), (0, 0, 0)]) == ([24], [[4, 0]])
    assert layout.collapse((), [()]) == ([1], [[0]])


@given(st.integers(1, 2**31 - 1), st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20))
def test_division_by_multiplication(divisor, numbers):
    magic, shift = layout._magic(divisor)
    assert 0 < magic < 2**32
    for i in [*numbers, divisor - 1, divisor % 2**31, 2**31 - 1]:
        assert ((i * magic >> 32) + i) >> shift == i // divisor


def test_packed_struct():
    packed = layout.pack([3, 2], [[4, 8], [0, 24]], narrow=True)
    numbers = struct.unpack("9i16I16i", packed)
    assert numbers[:4] == (2, 3, 2, 1)
    assert numbers[25:29] == (4, 8, 0, 24)
    packed = layout.pack([3, 2], [[4, 8], [0, 24]], narrow=False)
    assert struct.unpack("25q", packed)[:3] == (2, 3, 2)


@pytest.mark.parametrize(
    ("lengths", "steps", "narrow"),
    [
        ([2**30], [[1]], True),
        ([2**31], [[1]], False),  # too many elements
        ([2**29], [[4]], False),  # offsets beyond 2**31
        ([2**28], [[-8]], False),
        ([2**16, 2**16], [[0], [0]], False),
        ([2**12, 2**12], [[4, 0], [2**14, 2**19]], False),  # the second operand alone
        ([2**12, 2**12], [[4, 0], [2**14, 2**16]], True),
    ],
)
def test_choice_of_32_bits(lengths, steps, narrow):
    assert layout.fits_in_32_bits(lengths, steps) is narrow


@given(views())
def test_dense_is_what_numpy_copies_without_gaps(array):
    dense = array.copy("K")
    assert layout.is_dense(dense.shape, dense.strides, 4)
    assert layout.dense_strides(array.shape, 4) == array.copy("C").strides
    like = layout.dense_strides(dense.shape, 4, dense.strides)
    assert all(a == b for a, b, n in zip(like, dense.strides, dense.shape) if n > 1)


def test_not_dense():
    assert not layout.is_dense((3, 4), (20, 4), 4)
    assert not layout.is_dense((3, 4), (0, 4), 4)
    assert not layout.is_dense((4,), (-4,), 4)
    assert layout.is_dense((1, 4), (99, 4), 4)


def test_broadcasting():
    assert layout.broadcast_shapes("op", [(3, 1), (4,), ()]) == (3, 4)
    assert layout.broadcast_shapes("op", [(1, 0), (5, 1)]) == (5, 0)
    assert layout.broadcast_strides((2, 3, 4), (3, 1), (4, 4)) == (0, 4, 0)
    with pytest.raises(ValueError, match=r"op: shapes \(3,\) and \(4,\)"):
        layout.broadcast_shapes("op", [(3,), (4,)])


def test_operands_whose_neighbours_move_together():
    spread = layout.spread_operands
    assert spread([8, 3], [[4, 4], [32, 0]], [4, 4], 4) == 0
    assert spread([8, 3], [[4, 0], [32, 4]], [4, 4], 4) == 0b10
    assert spread([6, 3], [[4, 4], [24, 0]], [4, 4], 4) is None  # rows of no whole packs
    assert spread([8, 3], [[4, 8], [32, 0]], [4, 4], 4) is None  # neighbours apart
    assert spread([8, 3], [[4, 4], [36, 0]], [4, 4], 4) is None  # rows that begin anywhere
