"""Methods of Tensor that are no operators."""

import numpy as np
import pytest

import plugrad


def test_layout_is_told_in_elements():
    x = plugrad.zeros(2, 3)
    assert x.stride() == (3, 1)
    assert x.T.stride() == (1, 3)
    assert x.T.stride(-1) == 3
    assert x.is_contiguous()
    assert not x.T.is_contiguous()
    assert (x.nelement(), plugrad.numel(x), x.ndimension(), x.is_complex()) == (6, 6, 2, False)


def test_type_as():
    x = plugrad.tensor([1.5, -1.5], requires_grad=True)
    out = x.type_as(plugrad.zeros(1, dtype=plugrad.float64))
    assert out.dtype == np.float64
    out.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_where_as_a_method_and_a_function():
    x = plugrad.tensor([1.0, -1.0], requires_grad=True)
    out = x.where(x > 0, x * 3)
    assert out.tolist() == [1, -3]
    out.sum().backward()
    assert x.grad.tolist() == [1, 3]
    assert [i.tolist() for i in plugrad.where(x > 0)] == [[0]]


def test_take_along_dim_of_the_flattened_tensor():
    x = plugrad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    out = plugrad.take_along_dim(x, plugrad.tensor([[3], [3]]))
    assert out.tolist() == [4, 4]
    out.sum().backward()
    assert x.grad.tolist() == [[0, 0], [0, 2]]


@pytest.mark.parametrize("name", ["new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"])
def test_new_tensors_lie_where_the_old_one_does(cuda, name):
    x = plugrad.zeros(2, device="cuda")
    given = {"new_full": ((2,), 1.0), "new_tensor": ([1, 2],)}.get(name, (2,))
    assert getattr(x, name)(*given).device == "cuda"
    assert getattr(x, name)(*given, device="cpu").device == "cpu"
