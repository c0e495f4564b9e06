"""The checksum that finds saved values which changed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plugrad
from plugrad.backends.checksum import checksum


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i1", "u2", "i8", "?"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (64,), (5, 13), (1000, 17)])
def test_equal_values_have_equal_checksums(dtype, shape):
    a = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    assert checksum(a) == checksum(a.copy())


@given(size=st.integers(1, 300), data=st.data())
def test_any_single_change_is_seen(size, data):
    a = np.random.default_rng(size).normal(size=size)
    before = checksum(a)
    i = data.draw(st.integers(0, size - 1))
    bit = data.draw(st.integers(0, 63))
    a.view(np.uint64)[i] ^= np.uint64(1) << np.uint64(bit)
    assert checksum(a) != before


@given(size=st.integers(2, 300), data=st.data())
def test_so_are_signs_that_change_together_and_elements_that_change_places(size, data):
    a = np.random.default_rng(size).normal(size=size)
    before = checksum(a)
    i, j = data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2, unique=True))
    flipped = a.copy()
    flipped[[i, j]] *= -1
    swapped = a.copy()
    swapped[[i, j]] = swapped[[j, i]]
    assert len({before, checksum(flipped), checksum(swapped)}) == 3


def test_shapes_of_zeros_differ_by_their_size():
    assert len({checksum(np.zeros(n)) for n in range(200)}) == 200


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2],
        lambda a: a[:, ::-1],
        lambda a: a.T,
        lambda a: a[:, 3:],
        lambda a: np.broadcast_to(a[:1], (100_000, 10)),
        lambda a: a.T[::3],
    ],
    ids=["rows", "reversed", "transposed", "columns", "broadcast", "both"],
)
def test_views_and_the_elements_they_show(view):
    a = np.random.default_rng(0).normal(size=(20, 10))
    before = checksum(view(a))
    assert checksum(view(a)) == before
    shown = view(a)
    hidden = a.copy()
    np.copyto(hidden, -a, where=~np.isin(a, shown))
    assert checksum(view(hidden)) == before
    hidden[0, 9] += 1
    assert (checksum(view(hidden)) == before) == (a[0, 9] not in shown)


def test_read_only_arrays_are_fine():
    a = np.arange(5.0)
    before = checksum(a)
    a.flags.writeable = False
    assert checksum(a) == before


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match="array, got list"):
        checksum([1.0])


def test_long_arrays_have_one_checksum_whatever_the_number_of_threads():
    array = np.random.default_rng(0).standard_normal(300_001)
    before = plugrad.get_num_threads()
    try:
        found = set()
        for threads in (1, 2, 5):
            plugrad.set_num_threads(threads)
            found.add(checksum(array))
    finally:
        plugrad.set_num_threads(before)
    assert len(found) == 1
    for place in (0, 131_072 // 8, 150_000, 300_000):  # also where blocks meet
        changed = array.copy()
        changed[place] = -changed[place]
        assert checksum(changed) not in found
