"""add and sub with alpha=, div with rounding_mode=: other operators, so that the plain calls stay what they are."""

import numpy as np
import pytest

import plugrad
from plugrad import tensor
from plugrad.registry import get


def test_alpha_multiplies_the_second_operand():
    x, y = tensor([1.0, 2.0], requires_grad=True), tensor([3.0, 5.0], requires_grad=True)
    assert plugrad.add(x, y, alpha=2).tolist() == [7, 12]
    assert x.sub(y, alpha=2).tolist() == [-5, -8]
    assert plugrad.subtract(x, 1, alpha=0.5).tolist() == [0.5, 1.5]
    plugrad.add(x, y, alpha=2).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1, 1], [2, 2])


def test_alpha_in_place():
    x = tensor([1.0, 2.0])
    assert x.add_(tensor([1.0, 1.0]), alpha=-3) is x
    assert x.tolist() == [-2, -1]
    assert x.sub_(1, alpha=2).tolist() == [-4, -3]


def test_alpha_keeps_the_dtype():
    assert plugrad.add(tensor([1]), tensor([2]), alpha=3).dtype == plugrad.int64
    with pytest.raises(RuntimeError, match=r"add: alpha.*1\.5.*int64"):
        plugrad.add(tensor([1]), tensor([2]), alpha=1.5)
    with pytest.raises(RuntimeError, match="alpha"):
        plugrad.add(tensor([1.0]), tensor([2.0]), alpha=1j)


def test_sums_without_alpha_are_recorded_as_before():
    x = tensor([1.0], requires_grad=True)
    assert plugrad.add(x, x).grad_fn.op is get("standard::add")
    with pytest.raises(TypeError, match=r"standard::add has no argument 'beta'"):
        plugrad.add(x, x, beta=2)


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [(None, [3.5, -3.5, -8 / 3]), ("floor", [3, -4, -3]), ("trunc", [3, -3, -2])],
)
def test_rounding_of_quotients(mode, wanted):
    x, y = np.array([7, -7, 8]), np.array([2, 2, -3])
    found = plugrad.div(tensor(x), tensor(y), rounding_mode=mode)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
    assert found.dtype == (plugrad.float32 if mode is None else plugrad.int64)
    np.testing.assert_allclose(
        plugrad.true_divide(tensor(x * 1.0), tensor(y), rounding_mode=mode).numpy(), wanted
    )


def test_large_integers_are_divided_exactly():
    x = tensor([2**62 + 1, -(2**62) - 1])
    assert plugrad.div(x, 3, rounding_mode="trunc").tolist() == [
        (2**62 + 1) // 3,
        -((2**62 + 1) // 3),
    ]


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounded_quotients_have_a_zero_gradient(mode):
    x, y = tensor([7.0, -7.5, 1.0], requires_grad=True), tensor([2.0, 2.0, 0.0], requires_grad=True)
    plugrad.div(x, y, rounding_mode=mode).sum().backward()
    assert x.grad.tolist() == [0, 0, 0] and y.grad.tolist() == [0, 0, 0]


def test_floor_divide_has_a_zero_gradient():
    x = tensor([7.0, -7.5], requires_grad=True)
    (x // 2).sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_unknown_roundings_are_refused():
    with pytest.raises(RuntimeError, match="None, 'floor' or 'trunc', got 'up'"):
        plugrad.div(tensor([1.0]), 2, rounding_mode="up")
