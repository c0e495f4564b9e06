"""Dispatch: promotion, broadcasting, numbers, arrays, and the errors for what does not fit."""

import warnings

import numpy as np
import pytest

import plugrad


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float32", "float64", "float64"),
        ("float16", "float32", "float32"),
        ("int64", "float32", "float32"),
        ("int64", "float16", "float16"),
        ("bool", "float32", "float32"),
        ("int32", "int64", "int64"),
        ("uint8", "int8", "int16"),
        ("bool", "int8", "int8"),
        ("float32", "complex64", "complex64"),
    ],
)
def test_promotion_of_tensors(a, b, expected):
    x, y = plugrad.ones(2, dtype=a), plugrad.ones(2, dtype=b)
    assert (x * y).dtype == np.dtype(expected)
    assert (y * x).dtype == np.dtype(expected)


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        ("float32", 2, "float32"),
        ("float32", 2.5, "float32"),
        ("float16", 2.5, "float16"),
        ("int32", 2, "int32"),
        ("int64", 2.5, "float32"),
        ("bool", 2, "int64"),
        ("bool", 2.5, "float32"),
        ("float64", 1j, "complex128"),
        ("float32", 1j, "complex64"),
        ("float32", np.float64(2.5), "float32"),
    ],
)
def test_python_numbers_are_weak(dtype, number, expected):
    assert (plugrad.ones(2, dtype=dtype) * number).dtype == np.dtype(expected)
    assert (number * plugrad.ones(2, dtype=dtype)).dtype == np.dtype(expected)


def test_division_of_integers_gives_float32():
    assert (plugrad.tensor([1, 2]) / plugrad.tensor([2, 2])).dtype == np.float32
    assert (plugrad.tensor([1, 2]) / 2).tolist() == [0.5, 1]


def test_integers_meet_floating_functions_as_float32():
    assert plugrad.exp(plugrad.tensor([0, 1])).dtype == np.float32


def test_gradients_have_the_dtype_of_their_tensor():
    a = plugrad.tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
    b = plugrad.tensor([3.0, 4.0], dtype=np.float64, requires_grad=True)
    out = (a * b).sum()
    assert out.dtype == np.float64
    out.backward()
    assert (a.grad.dtype, a.grad.tolist()) == (np.float32, [3, 4])
    assert (b.grad.dtype, b.grad.tolist()) == (np.float64, [1, 2])


def test_broadcast_gradients_are_summed_back():
    a = plugrad.tensor([[1.0], [2.0]], dtype=np.float64, requires_grad=True)
    b = plugrad.tensor([10.0, 20.0, 30.0], dtype=np.float64, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.tolist() == [[60], [60]]
    assert b.grad.tolist() == [3, 3, 3]


def test_zero_size_operands():
    a = plugrad.zeros(0, 3, dtype=np.float64, requires_grad=True)
    b = plugrad.tensor([1.0, 2.0, 3.0], dtype=np.float64, requires_grad=True)
    out = (a * b).sum()
    out.backward()
    assert out.item() == 0
    assert a.grad.shape == (0, 3)
    assert b.grad.tolist() == [0, 0, 0]


def test_shapes_that_do_not_broadcast():
    with pytest.raises(RuntimeError, match=r"standard::mul.*\(2,\).*\(3,\)"):
        plugrad.ones(2) * plugrad.ones(3)


def test_results_of_0d_operands_are_0d_tensors():
    x = plugrad.tensor(2.0)
    assert (x * x).shape == ()
    assert isinstance((x * x).array, np.ndarray)
    assert isinstance(x.exp().array, np.ndarray)


def test_arrays_are_wrapped_and_strangers_refused():
    assert plugrad.mul(np.ones(2), plugrad.ones(2)).shape == (2,)
    with pytest.raises(TypeError, match=r"standard::exp.*'input'|standard::exp.*must be"):
        plugrad.exp("text")
    with pytest.raises(TypeError, match="at least one tensor"):
        plugrad.mul(2.0, 3.0)


def test_wrong_arguments_name_the_operator_and_its_usage():
    x = plugrad.ones(2)
    with pytest.raises(TypeError, match=r"standard::mul.*usage: standard::mul"):
        plugrad.mul(x, x, x)
    with pytest.raises(TypeError, match="missing tensor argument"):
        plugrad.mul(x)
    with pytest.raises(TypeError, match="no argument 'colour'"):
        plugrad.mul(x, x, colour=1)


def test_a_constant_must_be_hashable_and_no_tensor():
    x = plugrad.ones(2, 3)
    with pytest.raises(TypeError, match="constant"):
        plugrad.ops.permute(x, dims={"a": 1})


def test_nan_and_infinity_never_warn():
    x = plugrad.tensor([0.0, -1.0, np.inf, np.nan], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (x.log(), 1 / x, x * np.inf, x.exp() - x, x.sqrt(), x / 0, x**-1):
            y.sum().backward(retain_graph=True)


def test_numpys_own_error_state_is_left_alone():
    with np.errstate(divide="raise"):
        plugrad.tensor([1.0]) / 0
        with pytest.raises(FloatingPointError):
            np.ones(1) / np.zeros(1)


def test_numbers_alone_still_have_a_dtype():
    mask = plugrad.tensor([True, False])
    assert plugrad.where(mask, 1.0, 2.0).dtype == np.float32
    assert plugrad.where(mask, 1, 2).dtype == np.int64


def test_a_factor_is_saved_only_for_the_other_ones_gradient():
    x = plugrad.tensor([1.0, 2.0], requires_grad=True)
    y = plugrad.tensor([3.0, 4.0])
    (saved,) = (x * y).grad_fn.saved
    assert saved is y.array
    (x * y).sum().backward()
    assert x.grad.tolist() == [3, 4]


def test_complex_gradients_need_a_rule_that_declares_them():
    z = plugrad.tensor([1 + 2j], requires_grad=True)
    with pytest.raises(
        TypeError, match=r"standard::sigmoid: 'input' must be floating, got complex"
    ):
        plugrad.sigmoid(z)
    z.sin().backward(plugrad.ones(1, dtype=plugrad.complex64))
    assert z.grad.dtype == plugrad.complex64
