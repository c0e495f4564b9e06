"""Jacobians, batches of vector-Jacobian products, dual numbers and saved-tensor hooks: known results."""

import numpy as np
import pytest

import plugrad
from plugrad.autograd import forward_ad


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def constant(values):
    return plugrad.tensor(values, dtype=np.float64)


def test_h1_the_jacobian_for_two_inputs():
    for_x, for_y = plugrad.autograd.functional.jacobian(
        lambda x, y: (x * y).sum() + x, (constant([1.0, 2.0]), constant([3.0, 4.0]))
    )
    assert for_x.tolist() == [[4, 4], [3, 5]]
    assert for_y.tolist() == [[1, 2], [1, 2]]


def test_h3_a_batch_of_vector_jacobian_products():
    x = leaf([1.0, 2.0])
    (rows,) = plugrad.autograd.grad(
        x * x, x, grad_outputs=plugrad.eye(2, dtype=np.float64), is_grads_batched=True
    )
    assert rows.tolist() == [[2, 0], [0, 4]]


def test_h4_a_tangent_through_dual_numbers():
    with forward_ad.dual_level():
        d = forward_ad.make_dual(constant([1.0, 2.0]), constant([1.0, 0.0]))
        out = 3 * (d * d).sum()
        assert forward_ad.unpack_dual(out).tangent.item() == 6
        squared = 3 * (d**2).sum()
        assert forward_ad.unpack_dual(squared).tangent.item() == 6


def test_h4_no_dual_number_outside_a_level():
    with pytest.raises(RuntimeError, match="dual level|dual_level"):
        forward_ad.make_dual(constant([1.0]), constant([1.0]))


def test_h5_the_jacobian_of_a_constant_function():
    x = constant([1.0, 2.0])

    def f(x):
        return plugrad.ones(3, dtype=np.float64)

    assert plugrad.autograd.functional.jacobian(f, x).tolist() == [[0, 0]] * 3
    with pytest.raises(RuntimeError, match="strict"):
        plugrad.autograd.functional.jacobian(f, x, strict=True)


def test_h7_packed_values_are_out_of_reach_of_in_place_changes():
    x = leaf([2.0, 3.0])
    with plugrad.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        z = x * x
    with plugrad.no_grad():
        x.add_(100)
    z.sum().backward()
    assert x.grad.tolist() == [4, 6]


def test_h7_a_pack_hook_must_not_change_its_argument():
    x = leaf([2.0, 3.0])

    def pack(t):
        with plugrad.no_grad():
            t.add_(1)
        return t

    with (
        plugrad.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
        pytest.raises(RuntimeError, match="in-place"),
    ):
        _ = x * x


def test_h7_an_unpack_hook_must_return_a_tensor():
    x = leaf([2.0, 3.0])
    with plugrad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: "no tensor"):
        z = x * x
    with pytest.raises(TypeError, match="str"):
        z.sum().backward()
