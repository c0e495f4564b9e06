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
    with pytest.raises(ValueError, match="step"):
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
