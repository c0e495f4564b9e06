"""Creation functions: dtypes, shapes and what they refuse."""

import numpy as np
import pytest

import plugrad


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"),
        (2, "int64"),
        (True, "bool"),
        (1j, "complex64"),
        ([1.0, 2], "float32"),
        ([], "float32"),
        (np.float64(1.5), "float64"),
        (np.ones(2), "float64"),
        (np.ones(2, np.float16), "float16"),
    ],
)
def test_default_dtypes(data, dtype):
    assert plugrad.tensor(data).dtype == np.dtype(dtype)


def test_tensor_copies_and_from_numpy_and_as_tensor_share():
    array = np.ones(3)
    assert not np.shares_memory(plugrad.tensor(array).array, array)
    assert plugrad.from_numpy(array).array is array
    assert plugrad.as_tensor(array).array is array
    t = plugrad.ones(2)
    assert plugrad.as_tensor(t) is t


def test_a_list_of_tensors():
    assert plugrad.tensor([plugrad.tensor(1.0), plugrad.tensor(2.0)]).tolist() == [1, 2]


def test_shapes_by_numbers_or_tuple():
    assert plugrad.zeros(2, 3).shape == (2, 3)
    assert plugrad.ones((2, 3)).shape == (2, 3)
    assert plugrad.empty(0).shape == (0,)
    assert plugrad.zeros(()).shape == ()
    assert plugrad.full((2,), 7).tolist() == [7, 7]
    assert plugrad.full((2,), 7).dtype == np.int64


def test_like():
    x = plugrad.ones(2, 3, dtype=np.float16)
    for function in (plugrad.zeros_like, plugrad.ones_like, plugrad.empty_like):
        assert (function(x).shape, function(x).dtype) == ((2, 3), np.float16)
    assert plugrad.full_like(x, 2).tolist() == [[2] * 3] * 2


def test_ranges():
    assert plugrad.arange(3).tolist() == [0, 1, 2]
    assert plugrad.arange(3).dtype == np.int64
    assert plugrad.arange(1, 2, 0.5).dtype == np.float32
    assert plugrad.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    assert plugrad.eye(2).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(RuntimeError, match="step"):
        plugrad.arange(0, 1, 0)


def test_what_holds_no_numbers_is_refused():
    with pytest.raises(TypeError, match="does not hold numbers"):
        plugrad.tensor("text")
    with pytest.raises(ValueError, match="different lengths"):
        plugrad.tensor([[1, 2], [3]])
    with pytest.raises(TypeError, match="from_numpy"):
        plugrad.from_numpy([1.0])
    with pytest.raises(ValueError, match="'moon'"):
        plugrad.zeros(1, device="moon")


def test_foreign_byte_order_is_refused():
    with pytest.raises(TypeError, match="byte order.*>f8"):
        plugrad.from_numpy(np.ones(2, ">f8"))


def test_a_numpy_scalar_becomes_a_0d_tensor():
    t = plugrad.Tensor(np.float64(2.5))
    assert (t.shape, t.dtype) == ((), np.float64)


# ------------------------------------------------------------------------- forms of arguments


def test_sizes_by_keyword_and_what_is_negative():
    assert plugrad.zeros(size=(2, 3)).shape == plugrad.ones(size=[2, 3]).shape == (2, 3)
    for make in (plugrad.zeros, plugrad.empty, lambda n: plugrad.full((n,), 1.0), plugrad.eye):
        with pytest.raises(RuntimeError, match="negative"):
            make(-1)


def test_arange_follows_its_arguments():
    assert plugrad.arange(end=3).tolist() == [0, 1, 2]
    assert plugrad.arange(np.int64(2)).dtype == np.int64
    assert plugrad.arange(plugrad.tensor(2)).dtype == np.int64
    assert plugrad.arange(1, plugrad.tensor(3.0)).dtype == np.float32
    assert plugrad.arange(2.5, dtype=plugrad.int64).tolist() == [0, 1]
    for bad in ((5, 1), (0, float("inf")), (0, 1, float("nan"))):
        with pytest.raises(RuntimeError, match="arange"):
            plugrad.arange(*bad)
    with pytest.raises(TypeError, match="real numbers"):
        plugrad.arange(1j)


def test_steps_of_powers():
    assert plugrad.logspace(0, 2, 3).tolist() == [1, 10, 100]
    assert plugrad.logspace(0, 3, 4, 2, dtype=plugrad.int64).tolist() == [1, 2, 4, 8]
    for make in (plugrad.linspace, plugrad.logspace):
        with pytest.raises(RuntimeError, match="negative, got -1"):
            make(0, 1, -1)


def test_indices_of_triangles():
    assert plugrad.tril_indices(2, 2).tolist() == [[0, 1, 1], [0, 0, 1]]
    assert plugrad.triu_indices(2, 3, 1, dtype=plugrad.int32).tolist() == [[0, 0, 1], [1, 2, 2]]
    assert plugrad.triu_indices(2, 2, 5).shape == (2, 0)


def test_new_tensors_are_like_the_one_they_are_asked_of():
    x = plugrad.ones(2, dtype=plugrad.float64)
    assert (
        x.new_zeros(2, 3).dtype
        == x.new_empty((2,)).dtype
        == x.new_full((1,), 3).dtype
        == np.float64
    )
    assert x.new_ones((2,), dtype=plugrad.int64).tolist() == [1, 1]
    assert x.new_tensor([1, 2]).dtype == np.float64
    assert x.new_tensor(np.arange(2), requires_grad=True).requires_grad
    assert plugrad.tensor([1]).new_tensor([1.7]).tolist() == [1]


def test_other_ways_in():
    memory = np.arange(3.0)
    assert np.shares_memory(plugrad.asarray(memory).numpy(), memory)
    assert not np.shares_memory(plugrad.asarray(memory, copy=True).numpy(), memory)
    assert plugrad.asarray([1, 2.0], requires_grad=True).requires_grad
    assert plugrad.scalar_tensor(2).dtype == np.float32
    buffer = bytearray(8)
    t = plugrad.frombuffer(buffer, dtype=plugrad.uint8, count=2, offset=4)
    t.fill_(7)
    assert buffer == b"\0\0\0\0\7\7\0\0"


def test_numbers_that_an_integer_dtype_cannot_hold_are_refused():
    for value in (300, [-1], float("nan"), float("inf"), 1e30):
        with pytest.raises(RuntimeError, match="uint8 holds 0 to 255"):
            plugrad.tensor(value, dtype=plugrad.uint8)
    assert plugrad.tensor(1.9, dtype=plugrad.uint8).item() == 1
