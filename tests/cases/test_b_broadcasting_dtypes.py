"""Broadcasting, zero-size tensors and dtypes: known inputs with their right results."""

import numpy as np
import pytest

import plugrad


def leaf(values, dtype=np.float64):
    return plugrad.tensor(values, dtype=dtype, requires_grad=True)


def test_b1_gradients_of_broadcast_factors_are_summed_to_their_shapes():
    a, b = leaf([[1.0], [2.0]]), leaf([10.0, 20.0, 30.0])
    (a * b).sum().backward()
    assert a.grad.tolist() == [[60], [60]]
    assert b.grad.tolist() == [3, 3, 3]


def test_b3_a_zero_size_factor_gives_zeros():
    a = plugrad.empty(0, 3, dtype=np.float64, requires_grad=True)
    b = leaf([1.0, 2.0, 3.0])
    total = (a * b).sum()
    total.backward()
    assert total.item() == 0
    assert a.grad.shape == (0, 3)
    assert b.grad.tolist() == [0, 0, 0]


def test_b5_mixed_dtypes_promote_and_gradients_return_in_their_own():
    a, b = leaf([1.0, 2.0], np.float32), leaf([3.0, 4.0])
    out = (a * b).sum()
    out.backward()
    assert out.dtype == np.float64
    assert a.grad.dtype == np.float32
    assert a.grad.tolist() == [3, 4]
    assert b.grad.dtype == np.float64
    assert b.grad.tolist() == [1, 2]


def test_b7_a_seed_of_another_dtype_is_cast():
    x = leaf([2.0, 4.0])
    (x * 3).backward(plugrad.tensor([1.0, 2.0], dtype=np.float32))
    assert x.grad.dtype == np.float64
    assert x.grad.tolist() == [3, 6]


def test_b7_a_seed_of_another_shape_is_refused():
    x = leaf([2.0, 4.0])
    with pytest.raises(RuntimeError, match=r"\(3,\).*\(2,\)"):
        (x * 3).backward(plugrad.ones(3, dtype=np.float64))


class WrongShape(plugrad.autograd.Function):
    """The identity, with a gradient of a shape given at the call."""

    @staticmethod
    def forward(ctx, x, shape):
        ctx.shape = shape
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return plugrad.ones(*ctx.shape, dtype=np.float64), None


@pytest.mark.parametrize("shape", [(4, 2), (5,)])
def test_b8_a_gradient_of_another_shape_is_refused(shape):
    x = leaf([2.0, 4.0])
    with pytest.raises(RuntimeError) as caught:
        WrongShape.apply(x, shape).sum().backward()
    message = str(caught.value)
    assert "WrongShape" in message
    assert "input 0" in message
    assert str(shape) in message
    assert "(2,)" in message
    assert x.grad is None


def test_b8_an_operator_that_declares_broadcasting_has_it_summed():
    a, b = leaf([1.0, 2.0]), plugrad.ones(4, 2, dtype=np.float64)
    (a + b).sum().backward()
    assert a.grad.tolist() == [4, 4]
