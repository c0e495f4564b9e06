"""Tensor: what it tells, what it refuses, and Python's protocols."""

import numpy as np
import pytest

import plugrad


def test_it_wraps_without_copying():
    array = np.arange(6.0).reshape(2, 3)
    t = plugrad.Tensor(array)
    assert t.array is array
    assert t.numpy() is array
    assert (t.shape, t.ndim, t.dim(), t.numel(), len(t)) == ((2, 3), 2, 2, 6, 2)
    assert t.size() == (2, 3)
    assert t.size(1) == 3
    assert t.dtype == plugrad.float64
    assert t.device == "cpu"


def test_it_refuses_what_is_no_array():
    with pytest.raises(TypeError, match=r"got list; plugrad.tensor\(\)"):
        plugrad.Tensor([1.0, 2.0])


def test_integers_cannot_require_grad():
    with pytest.raises(RuntimeError, match="floating or complex.*int64.*shape"):
        plugrad.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match="floating or complex.*bool"):
        plugrad.tensor([True]).requires_grad_()


def test_numpy_of_something_that_requires_grad_is_refused():
    t = plugrad.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"detach\(\).numpy\(\)"):
        t.numpy()
    assert t.detach().numpy() is t.array


def test_leaf_and_grad_fn():
    x = plugrad.tensor([1.0], requires_grad=True)
    y = x * 2
    assert x.is_leaf
    assert x.grad_fn is None
    assert not y.is_leaf
    assert y.grad_fn.name() == "standard::mul"
    assert y.grad_fn.next_functions[0][0].variable is x
    assert (y.detach().is_leaf, y.detach().requires_grad) == (True, False)


def test_requires_grad_of_a_result_cannot_be_switched_off():
    y = plugrad.tensor([1.0], requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="mul produced.*detach"):
        y.requires_grad = False


def test_grad_can_be_set_and_cleared_but_must_fit():
    x = plugrad.tensor([1.0, 2.0], requires_grad=True)
    x.grad = plugrad.ones(2)
    x.grad = None
    with pytest.raises(RuntimeError, match=r"\(2,\).*\(3,\)"):
        x.grad = plugrad.ones(3)
    with pytest.raises(TypeError, match="ndarray"):
        x.grad = np.ones(2)


def test_item_tolist_and_numbers():
    assert plugrad.tensor(2.5).item() == 2.5
    assert float(plugrad.tensor([2.5])) == 2.5
    assert int(plugrad.tensor(3)) == 3
    assert plugrad.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError, match=r"one element.*\(2,\)"):
        plugrad.tensor([1.0, 2.0]).item()


def test_truth_is_for_one_element():
    assert plugrad.tensor(1.0)
    assert not plugrad.tensor([0])
    with pytest.raises(RuntimeError, match=r"any\(\) or all\(\)"):
        bool(plugrad.tensor([1.0, 2.0]))


def test_an_integer_scalar_is_an_index():
    assert [10, 20, 30][plugrad.tensor(1)] == 20
    with pytest.raises(TypeError, match="float32"):
        [10, 20][plugrad.tensor(1.0)]


def test_iteration_gives_rows():
    rows = list(plugrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert [row.tolist() for row in rows] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="0-d"):
        iter(plugrad.tensor(1.0))


def test_printing():
    assert repr(plugrad.tensor([1.0, 2.0])) == "tensor([1., 2.])"
    assert repr(plugrad.tensor([1, 2])) == "tensor([1, 2])"
    x = plugrad.tensor([1.0], dtype=np.float64, requires_grad=True)
    assert repr(x) == "tensor([1.], dtype=float64, requires_grad=True)"
    assert repr(x * 2) == "tensor([2.], dtype=float64, grad_fn=<standard::mul>)"
    assert f"{plugrad.tensor(1.5):.2f}" == "1.50"


def test_python_operators_are_the_registered_operators():
    x = plugrad.tensor([3.0, -2.0])
    y = plugrad.tensor([2.0, 4.0])
    assert (x + y).tolist() == [5, 2]
    assert (x - 1).tolist() == [2, -3]
    assert (1 - x).tolist() == [-2, 3]
    assert (x / y).tolist() == [1.5, -0.5]
    assert (6 / y).tolist() == [3, 1.5]
    assert (x // y).tolist() == [1, -1]
    assert (x % y).tolist() == [1, 2]
    assert (x**2).tolist() == [9, 4]
    assert (2**y).tolist() == [4, 16]
    assert (-x).tolist() == [-3, 2]
    assert abs(x).tolist() == [3, 2]
    assert (x @ y).item() == -2
    assert (x > y).tolist() == [True, False]
    assert (x == 3).tolist() == [True, False]
    assert (x != 3).tolist() == [False, True]
    assert (~(x <= y)).tolist() == [True, False]
    assert ((x < 0) | (x >= 3)).tolist() == [True, True]


def test_foreign_types_get_pythons_own_error():
    with pytest.raises(TypeError, match="unsupported operand"):
        plugrad.tensor([1.0]) + "text"
    assert (plugrad.tensor([1.0]) == "text") is False


def test_arrays_may_stand_on_either_side():
    x = plugrad.tensor([1.0, 2.0], dtype=np.float64, requires_grad=True)
    for y in (
        np.array([3.0, 4.0]) * x,
        x * np.array([3.0, 4.0]),
        np.multiply(x, np.array([3.0, 4.0])),
    ):
        assert isinstance(y, plugrad.Tensor)
        assert y.tolist() == [3, 8]
        assert y.requires_grad


def test_numpy_ufuncs_on_tensors_are_operators():
    x = plugrad.tensor([0.0, 1.0], dtype=np.float64, requires_grad=True)
    np.exp(x).sum().backward()
    assert x.grad.tolist() == pytest.approx([1, np.e])
    with pytest.raises(TypeError, match=r"numpy.modf|numpy.spacing"):
        np.spacing(x)
    with pytest.raises(TypeError, match="plain calls"):
        x.__array_ufunc__(np.add, "reduce", x)  # NumPy keeps the argument of a refused one alive


def test_an_unknown_attribute_is_an_attribute_error():
    t = plugrad.tensor([1.0])
    assert not hasattr(t, "no_such_thing")
    with pytest.raises(AttributeError, match="no_such_thing"):
        t.no_such_thing  # noqa: B018


def test_detach_shares_memory_and_version():
    x = plugrad.tensor([1.0, 2.0])
    d = x.detach()
    assert d.array is x.array
    d[0] = 5.0
    assert x._version == 1
    x.data[0] = 6.0
    assert x._version == 1


def test_tensors_hash_by_identity():
    a, b = plugrad.tensor([1.0]), plugrad.tensor([1.0])
    assert len({a, b, a}) == 2


class TestConversion:
    def test_by_name_dtype_and_other_tensor(self):
        x = plugrad.tensor([1.5, 0.0])
        assert x.to(plugrad.float64).dtype == np.float64
        assert x.to("float16").dtype == np.float16
        assert x.to(plugrad.ones(1, dtype=np.int64)).tolist() == [1, 0]
        assert x.to("cpu", np.float64).dtype == np.float64
        assert [x.double().dtype, x.half().dtype, x.long().dtype, x.int().dtype] == [
            np.float64,
            np.float16,
            np.int64,
            np.int32,
        ]
        assert x.bool().tolist() == [True, False]

    def test_itself_when_nothing_changes(self):
        x = plugrad.tensor([1.5])
        assert x.to("float32") is x
        assert x.float() is x
        assert x.cpu() is x
        assert x.to("float32", copy=True).array is not x.array

    def test_the_gradient_returns_in_its_own_dtype(self):
        x = plugrad.tensor([1.5], requires_grad=True)
        x.double().sum().backward()
        assert x.grad.dtype == np.float32

    def test_an_unknown_device_is_an_error(self):
        with pytest.raises(ValueError, match="moon"):
            plugrad.ones(1).to("moon")


def test_transposes():
    x = plugrad.tensor(np.arange(6.0).reshape(1, 2, 3))
    assert x.T.shape == (3, 2, 1)
    assert x.mT.shape == (1, 3, 2)
    assert x.mT.tolist() == np.swapaxes(x.array, -1, -2).tolist()
