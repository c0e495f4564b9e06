"""GPUArrays as storage: to and from the host, copies, views by ghosts."""

import numpy as np
import pytest

from plugrad.backends.cuda import array as arrays
from plugrad.backends.cuda import storage

pytestmark = pytest.mark.usefixtures("cuda")

DTYPES = ["bool", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"]


def numbers(shape, dtype="f4"):
    """Different values, whatever the dtype."""
    return (np.arange(np.prod(shape, dtype=int)) % 101).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 4), (2, 0, 3), (2, 1, 3, 1, 2)], ids=str)
def test_there_and_back(dtype, shape):
    host = numbers(shape, dtype)
    array = arrays.from_host(host)
    assert array.shape == shape
    assert array.dtype == host.dtype
    assert arrays.is_contiguous(array)
    back = arrays.to_host(array)
    assert back.dtype == host.dtype
    np.testing.assert_array_equal(back, host)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::-2],
        lambda a: a[::2, 1::3],
        lambda a: np.broadcast_to(a[:1], (5, 6)),
        lambda a: a[1, 2],
        lambda a: a[3:3],
        lambda a: a[::-1, ::-1].T,
    ],
    ids=[
        "transposed",
        "reversed",
        "columns",
        "stepped",
        "broadcast",
        "element",
        "nothing",
        "all",
    ],
)
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16"])
def test_views_there_and_back(view, dtype):
    host = numbers((4, 6), dtype)
    array = arrays.from_host(host)
    seen = arrays.view_by(view, array)
    expected = view(host)
    assert seen.shape == expected.shape
    if expected.size:
        assert seen.strides == expected.strides
    np.testing.assert_array_equal(arrays.to_host(seen), expected)
    np.testing.assert_array_equal(arrays.to_host(arrays.contiguous(seen)), expected)
    np.testing.assert_array_equal(arrays.to_host(arrays.from_host(expected)), expected)


def test_a_view_sees_what_is_written_to_its_memory():
    array = arrays.from_host(np.zeros((3, 4), "f4"))
    row = arrays.view_by(lambda a: a[1], array)
    arrays.fill(row, 5)
    np.testing.assert_array_equal(arrays.to_host(array)[1], np.full(4, 5, "f4"))
    assert arrays.to_host(array).sum() == 20


def test_a_view_of_a_view_and_the_memory_it_keeps(cuda):
    before = cuda.memory_allocated()
    host = numbers((4, 6))
    seen = arrays.view_by(np.transpose, arrays.from_host(host))
    seen = arrays.view_by(lambda a: a[::-2], seen)
    assert cuda.memory_allocated() == before + host.nbytes
    np.testing.assert_array_equal(arrays.to_host(seen), host.T[::-2])
    assert not storage.owns(seen)
    del seen
    assert cuda.memory_allocated() == before


def test_a_function_that_had_to_copy_gets_a_copy():
    host = numbers((3, 4))
    array = arrays.view_by(np.transpose, arrays.from_host(host))
    flat = arrays.view_by(np.reshape, array, (12,))
    np.testing.assert_array_equal(arrays.to_host(flat), host.T.reshape(12))
    arrays.fill(flat, 0)
    np.testing.assert_array_equal(arrays.to_host(array), host.T)


def test_several_views_of_one_call():
    host = numbers((6, 2))
    parts = arrays.view_by(np.split, arrays.from_host(host), 3)
    assert isinstance(parts, tuple)
    for part, expected in zip(parts, np.split(host, 3)):
        np.testing.assert_array_equal(arrays.to_host(part), expected)


def test_a_view_of_another_dtype():
    host = numbers((4,), "c8") + np.complex64(2j)
    imaginary = arrays.view_by(lambda a: a.imag, arrays.from_host(host))
    assert imaginary.dtype == np.float32
    np.testing.assert_array_equal(arrays.to_host(imaginary), host.imag)


def test_a_function_that_makes_no_view_is_refused():
    with pytest.raises(TypeError, match="sin makes no view of an array in C order"):
        arrays.view_by(np.sin, arrays.from_host(numbers((3, 4))))
    with pytest.raises(TypeError, match="must return an array, got float"):
        arrays.view_by(lambda a: 1.0, arrays.from_host(numbers((3,))))


def test_as_strided():
    array = arrays.from_host(numbers((12,)))
    windows = arrays.as_strided(array, (10, 3), (4, 4))
    np.testing.assert_array_equal(
        arrays.to_host(windows), np.lib.stride_tricks.sliding_window_view(numbers((12,)), 3)
    )
    tail = arrays.as_strided(array, (2,), (-4,), 11 * 4)
    np.testing.assert_array_equal(arrays.to_host(tail), [11, 10])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0, 1, 2.5, np.pi])
def test_fill(dtype, value):
    expected = np.zeros((3, 5), dtype)
    expected[...] = np.asarray(value).astype(dtype)
    array = arrays.from_host(np.zeros((3, 5), dtype))
    arrays.fill(array, value)
    np.testing.assert_array_equal(arrays.to_host(array), expected)
    part = arrays.view_by(lambda a: a[:, ::2], array)
    arrays.fill(part, 0)
    expected[:, ::2] = 0
    np.testing.assert_array_equal(arrays.to_host(array), expected)


def test_copy_into_broadcasts():
    target = arrays.from_host(np.zeros((3, 4), "f8"))
    arrays.copy_into(target, arrays.from_host(np.arange(4.0)))
    np.testing.assert_array_equal(arrays.to_host(target), np.broadcast_to(np.arange(4.0), (3, 4)))
    with pytest.raises(TypeError, match="values of dtype float32 for an array of float64"):
        arrays.copy_into(target, arrays.from_host(np.arange(4, dtype="f4")))


def test_the_order_of_memory_survives_the_way_to_the_host():
    host = np.asfortranarray(numbers((3, 4)))
    seen = arrays.view_by(np.transpose, arrays.from_host(host.T))
    assert arrays.to_host(seen).flags.f_contiguous
    np.testing.assert_array_equal(arrays.to_host(seen), host)


def test_what_cannot_lie_on_a_device():
    with pytest.raises(TypeError, match="dtype object cannot lie on a device"):
        arrays.from_host(np.array([None]))
    with pytest.raises(TypeError, match="cannot lie on a device"):
        arrays.from_host(np.arange(3, dtype=">f4"))
    with pytest.raises(ValueError, match="not negative, got shape"):
        arrays.empty((2, -1), "f4")


@pytest.mark.parametrize("shape", [3, (3,), [3], np.array([3])], ids=repr)
def test_shapes(shape):
    assert arrays.empty(shape, np.float32).shape == (3,)


def test_random_views():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(30):
        shape = tuple(rng.integers(1, 5, rng.integers(1, 5)))
        host = numbers(shape)
        order = rng.permutation(len(shape))
        steps = tuple(slice(None, None, step) for step in rng.choice([-2, -1, 1, 2], len(shape)))
        seen = arrays.view_by(np.transpose, arrays.from_host(host), order)
        seen = arrays.view_by(np.ndarray.__getitem__, seen, steps)
        np.testing.assert_array_equal(arrays.to_host(seen), host.transpose(order)[steps])
