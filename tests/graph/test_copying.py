"""copy, deepcopy and pickle of tensors."""

import copy
import pickle

import numpy as np
import pytest

import plugrad


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def through_pickle(tensor):
    return pickle.loads(pickle.dumps(tensor))


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
class TestDeepCopies:
    def test_values_requires_grad_and_gradient(self, copied):
        x = leaf([1.0, 2.0])
        (x * x).sum().backward()
        y = copied(x)
        assert y.requires_grad
        assert y.is_leaf
        assert (y.tolist(), y.grad.tolist()) == ([1, 2], [2, 4])
        assert not np.shares_memory(y.array, x.array)
        assert not np.shares_memory(y.grad.array, x.grad.array)
        (y * y).sum().backward()
        assert (y.grad.tolist(), x.grad.tolist()) == ([4, 8], [2, 4])

    def test_without_a_gradient(self, copied):
        y = copied(plugrad.tensor([1, 2]))
        assert (y.requires_grad, y.grad, y.dtype) == (False, None, np.int64)

    def test_what_an_operator_made_is_refused(self, copied):
        with pytest.raises(RuntimeError, match=r"leaf.*produced by standard::mul.*detach\(\)"):
            copied(leaf([1.0]) * 2)
        assert copied((leaf([1.0]) * 2).detach()).tolist() == [2]

    def test_one_tensor_in_two_places_stays_one(self, copied):
        x = leaf([1.0])
        first, second = copied([x, x])
        assert first is second

    def test_a_subclass_keeps_its_type_and_attributes(self, copied):
        x = Named(np.ones(2), "weight")
        y = copied(x)
        assert type(y) is Named
        assert (y.label, y.requires_grad) == ("weight", True)

    def test_0d_and_transposed(self, copied):
        assert copied(leaf(3.0)).item() == 3
        t = plugrad.tensor(np.arange(6.0).reshape(2, 3).T)
        assert copied(t).tolist() == t.tolist()


class Named(plugrad.Tensor):
    def __init__(self, array, label):
        super().__init__(array, True)
        self.label = label


def test_deepcopy_keeps_what_shares_an_array():
    x = plugrad.tensor([1.0, 2.0])
    a, b = copy.deepcopy([x, x.detach()])
    version = b._version
    a.add_(1)
    assert b.tolist() == [2, 3]
    assert b._version > version
    assert x.tolist() == [1, 2]


def test_copy_shares_memory_and_versions():
    x = leaf([1.0, 2.0])
    x.sum().backward()
    y = copy.copy(x)
    assert y is not x
    assert y.array is x.array
    assert y.requires_grad
    assert y.grad is x.grad
    product = (x * x).sum()
    with plugrad.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="in-place"):
        product.backward()
    with pytest.raises(RuntimeError, match="leaf"):
        copy.copy(x * 2)


def test_an_inference_tensor_is_copied_as_an_ordinary_one():
    with plugrad.inference_mode():
        z = plugrad.tensor([1.0, 2.0])
    y = copy.deepcopy(z)
    assert not y.is_inference()
    assert y.requires_grad_().requires_grad
