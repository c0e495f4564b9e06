"""Custom functions and operators, right and wrong ones: what is computed and what is refused."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import contract
from plugrad.autograd import Function, gradcheck
from plugrad.autograd.function import once_differentiable


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def operator_of(function, rule, **flags):
    """A declared, unregistered operator of one input that keeps shape and dtype."""
    flags = {"infer": lambda x: (x.shape, x.dtype), **flags}
    op = plugrad.operator("cases::op", **flags)(function)
    op.backward(rule)

    @op.samples
    def _(make):
        yield make.call(make.normal(2, 3))
        yield make.call(make.normal(4))
        yield make.call(make.normal(0, 2))

    return op


def failed_checks(op):
    report = contract.check(op)
    return {failure.check for failure in report.failures}


# ---- functions that would silently give a wrong gradient ---------------------------------------------------


class WritesItsGradient(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(2)


def test_f1_a_backward_that_writes_its_incoming_gradient_corrupts_nothing():
    x, z = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    w = z.exp()  # recorded first, so it runs last
    seed = plugrad.ones(2, dtype=np.float64)
    out = WritesItsGradient.apply(x) + w
    out.backward(seed)
    np.testing.assert_allclose(z.grad.array / np.exp(z.array), [1, 1], rtol=1e-15)
    assert x.grad.tolist() == [2, 2]
    assert seed.tolist() == [1, 1]


def test_f1_as_an_operator_it_is_refused():
    op = operator_of(lambda x: x * 2, lambda grad: grad.mul_(2), elementwise=True, infer=None)
    report = contract.check(op)
    assert not report.passed
    assert "incoming gradient" in str(report)


class HidesAnIntermediate(Function):
    @staticmethod
    def forward(ctx, x):
        t = 2 * x
        ctx.t = t
        return t * t

    @staticmethod
    def backward(ctx, grad):
        return 4 * ctx.t * grad


def test_f2_an_intermediate_kept_outside_the_graph_drops_no_second_order_term():
    x = leaf(3.0)
    y = HidesAnIntermediate.apply(x)
    seed = plugrad.ones((), dtype=np.float64)
    (g1,) = plugrad.autograd.grad(y, x, seed, create_graph=True)
    assert g1.item() == 24
    with pytest.raises(RuntimeError, match="HidesAnIntermediate"):
        plugrad.autograd.grad(g1 + x * x, x)


class SavesItsArgument(HidesAnIntermediate):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 4 * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 8 * x * grad


def test_f2_what_is_saved_of_the_arguments_is_differentiated():
    x = leaf(3.0)
    (g1,) = plugrad.autograd.grad(SavesItsArgument.apply(x), x, create_graph=True)
    (g2,) = plugrad.autograd.grad(g1 + x * x, x)
    assert (g1.item(), g2.item()) == (24, 14)


class OnceDifferentiable(Function):
    @staticmethod
    def forward(ctx, x):
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return grad * out


def test_f3_once_differentiable_raises_at_second_order_always():
    x = leaf(1.0)
    f = OnceDifferentiable.apply(2 * x) * x
    (first,) = plugrad.autograd.grad(f, x, create_graph=True)
    assert first.item() == pytest.approx(22.16716829679195, rel=1e-15)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        plugrad.autograd.grad(first, x)


def test_f3_without_it_the_second_derivative_is_right():
    x = leaf(1.0)
    f = (2 * x).exp() * x
    (first,) = plugrad.autograd.grad(f, x, create_graph=True)
    (second,) = plugrad.autograd.grad(first, x)
    assert second.item() == pytest.approx(59.1124487914452, rel=1e-14)
    assert second.item() == pytest.approx(8 * math.e**2, rel=1e-14)


# ---- wrong operators ---------------------------------------------------------------------------------------


def test_f4_the_layout_of_a_gradient_does_not_matter():
    x = leaf(np.zeros((2, 3)))
    seed = plugrad.from_numpy(np.arange(6.0).reshape(3, 2).T)
    (x * 2).backward(seed)
    assert x.grad.tolist() == [[0, 4, 8], [2, 6, 10]]


def test_f4_an_operator_that_ignores_strides_is_refused():
    def rule(grad):
        # The memory in the order it has, whatever the strides say.
        flat = grad.array.ravel(order="K")
        return plugrad.from_numpy(flat.reshape(grad.shape)) * 2

    assert failed_checks(operator_of(lambda x: x * 2, rule)) & {"layout", "second order"}


def test_f5_an_operator_with_no_gradient_in_float32_is_refused():
    def rule(grad):
        return grad * (2 if grad.dtype == np.float64 else 0)

    assert "dtypes" in failed_checks(operator_of(lambda x: x * 2, rule))


def test_f6_an_output_detached_without_saying_so_is_refused():
    op = operator_of(
        lambda x: (x * 2, x * 3),
        lambda grad: grad[0] * 2,
        outputs=("double", "triple"),
        infer=lambda x: ((x.shape, x.dtype), (x.shape, x.dtype)),
    )
    assert not contract.check(op).passed


def test_f6_gradcheck_finds_it_too():
    assert not gradcheck(
        lambda x: (x * 2, (x * 3).detach()), leaf([1.0, 2.0]), raise_exception=False
    )


class DropsOneElement(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        kept = np.ones(grad.shape)
        kept[0] = 0
        return grad * kept


def test_f7_one_dropped_element_of_many_is_found():
    x = leaf(np.linspace(-1.0, 1.0, 1000))
    for fast_mode in (True, False):
        assert not gradcheck(DropsOneElement.apply, x, fast_mode=fast_mode, raise_exception=False)


class SmallButNotZero(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1e-6

    @staticmethod
    def backward(ctx, grad):
        return grad * 0


def test_f8_a_gradient_of_small_scale_is_held_as_strictly():
    assert not gradcheck(SmallButNotZero.apply, leaf([1.0, 2.0]), raise_exception=False)
    assert gradcheck(lambda x: x * 1e-6, leaf([1.0, 2.0]))


def straight_through(**flags):
    return operator_of(
        lambda x: np.rint(x), lambda grad: grad, elementwise=True, infer=None, **flags
    )


def test_f9_a_straight_through_estimator_needs_its_surrogate():
    assert "gradient" in failed_checks(straight_through())
    assert contract.check(straight_through(surrogate=lambda x: x)).passed
    assert not contract.check(straight_through(surrogate=lambda x: 2 * x)).passed


def test_f9_its_gradient_passes_through():
    op = straight_through(surrogate=lambda x: x)
    x = leaf([0.2, 1.7])
    out = op(x)
    out.sum().backward()
    assert out.tolist() == [0, 2]
    assert x.grad.tolist() == [1, 1]


# ---- gradcheck on what cannot be checked -------------------------------------------------------------------


def test_f10_gradcheck_at_a_kink_shows_both_numbers():
    with pytest.raises(contract.gradcheck.GradcheckError, match=r"0\.5"):
        gradcheck(plugrad.relu, leaf([0.0, 1.0]))


def test_f10_gradcheck_of_elements_that_share_memory():
    x = plugrad.Tensor(np.broadcast_to(np.float64(1.0), (3,)), requires_grad=True)
    with pytest.raises(RuntimeError, match="stride|overlap|share"):
        gradcheck(plugrad.exp, x)


def test_f10_gradcheck_of_nothing_that_requires_grad():
    with pytest.raises(ValueError, match="requires grad|require grad|requires_grad"):
        gradcheck(plugrad.exp, plugrad.ones(3, dtype=np.float64))


# ---- mark_dirty --------------------------------------------------------------------------------------------


class DoublesInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class DoublesAndReturnsACopy(DoublesInPlace):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x.clone()


def test_f12_a_dirty_input_that_is_returned_is_the_same_object():
    a = leaf([1.0, 2.0])
    x = a * 1
    before = x._version
    out = DoublesInPlace.apply(x)
    assert out is x
    assert x._version > before
    (out * np.array([1.0, 10.0])).sum().backward()
    assert out.tolist() == [2, 4]
    assert a.grad.tolist() == [2, 20]


def test_f12_a_dirty_leaf_is_refused():
    with pytest.raises(RuntimeError, match="leaf"):
        DoublesInPlace.apply(leaf([1.0, 2.0]))


def test_f12_a_dirty_input_must_be_returned():
    with pytest.raises(RuntimeError, match="dirty|in-place"):
        DoublesAndReturnsACopy.apply(leaf([1.0, 2.0]) * 1)
