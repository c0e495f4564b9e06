"""gradcheck and gradgradcheck: PyTorch's arguments, its answers where they are right, better ones where not."""

import numpy as np
import pytest

import plugrad
from plugrad import ops
from plugrad.autograd import Function, GradcheckError, gradcheck, gradgradcheck, once_differentiable
from plugrad.graph.op import READY


def T(values, requires_grad=True):
    return plugrad.tensor(np.array(values, dtype=np.float64), requires_grad=requires_grad)


class InPlaceDouble(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        grad.array[...] *= 2
        return grad


@plugrad.operator("gradcheck::in_place_double", elementwise=True)
def in_place_double(x):
    return x * 2


@in_place_double.backward
def _(grad):
    grad.array[...] *= 2
    return grad


class SquareOfDouble(Function):
    """(2x)^2, whose backward uses an intermediate that the graph does not see, and that is no constant."""

    @staticmethod
    def forward(ctx, x):
        ctx.double = x * 2
        ctx.mark_constant(ctx.double)
        return ctx.double * ctx.double

    @staticmethod
    def backward(ctx, grad):
        return 4 * ctx.double * grad


class DropsFirst(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        array = grad.array.copy()
        array[0] = 0
        return plugrad.Tensor(array)


class Tiny(Function):
    @staticmethod
    def forward(ctx, x):
        return 1e-6 * x

    @staticmethod
    def backward(ctx, grad):
        return grad * 0


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return plugrad.Tensor(np.rint(x.array))

    @staticmethod
    def backward(ctx, grad):
        return grad


class HalfDetached(Function):
    @staticmethod
    def forward(ctx, x):
        second = 3 * x
        ctx.mark_non_differentiable(second)
        return 2 * x, second

    @staticmethod
    def backward(ctx, grad, _):
        return grad * 2


@pytest.mark.parametrize("fast_mode", [False, True])
def test_right_gradients_pass(fast_mode):
    x, y = T(np.random.default_rng(0).standard_normal((2, 3))), T([0.5, 1.5, 2.5])
    assert gradcheck(lambda a, b: a * b + ops.exp(a), (x, y), fast_mode=fast_mode)
    assert gradcheck(ops.exp, x, fast_mode=fast_mode)
    assert gradgradcheck(lambda a, b: a * a * b, (x, y), fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_an_incoming_gradient_changed_in_place_is_an_error(fast_mode, monkeypatch):
    monkeypatch.setattr(in_place_double, "state", READY)
    with pytest.raises(GradcheckError, match="in place"):
        gradcheck(in_place_double, T([1.0, 2.0]), fast_mode=fast_mode)


def test_the_incoming_gradient_of_a_function_is_its_own():
    assert gradcheck(InPlaceDouble.apply, T([1.0, 2.0]))


def test_a_hidden_intermediate_shows_at_second_order_only():
    assert gradcheck(SquareOfDouble.apply, T([3.0]))
    with pytest.raises(GradcheckError, match=r"numerical 8"):
        gradgradcheck(SquareOfDouble.apply, T([3.0]), T([1.0], requires_grad=False))


@pytest.mark.parametrize("fast_mode", [False, True])
def test_one_dropped_element_of_a_thousand_is_found(fast_mode):
    x = T(np.random.default_rng(0).standard_normal(1000))
    with pytest.raises(GradcheckError, match=r"input 0\[0\]"):
        gradcheck(DropsFirst.apply, x, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_tiny_function_is_held_as_strictly(fast_mode):
    with pytest.raises(GradcheckError, match="analytical -?0"):
        gradcheck(Tiny.apply, T([1.0, 2.0]), fast_mode=fast_mode)
    assert gradcheck(lambda x: 1e-6 * x, T([1.0, 2.0]), fast_mode=fast_mode)


def test_a_straight_through_gradient_is_no_derivative():
    with pytest.raises(GradcheckError, match="numerical 0, analytical 1"):
        gradcheck(StraightThrough.apply, T([0.2, 1.7]))


def test_a_detached_output_is_an_error():
    with pytest.raises(GradcheckError, match="detached"):
        gradcheck(HalfDetached.apply, T([0.2, 1.7]))
    with pytest.raises(GradcheckError, match="detached"):
        gradcheck(lambda x: (2 * x, (3 * x).detach()), T([0.2, 1.7]))


def test_a_kink_is_named():
    with pytest.raises(GradcheckError, match=r"numerical 0\.5, analytical 0.*kink"):
        gradcheck(ops.relu, T([0.0, 1.0]))


def test_false_instead_of_an_exception():
    assert gradcheck(ops.relu, T([0.0, 1.0]), raise_exception=False) is False
    assert gradgradcheck(SquareOfDouble.apply, T([3.0]), raise_exception=False) is False


def test_the_worst_element_and_both_numbers_are_told():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            factor = np.full(grad.shape, 2.0)
            factor[1, 0] = 2.5
            return grad * plugrad.Tensor(factor)

    with pytest.raises(
        GradcheckError, match=r"output\[1, 0\] / d input 0\[1, 0\]: numerical 2, analytical 2\.5"
    ):
        gradcheck(Wrong.apply, T([[1.0, 2.0], [3.0, 4.0]]))


def test_a_stride_of_0_is_refused():
    x = plugrad.Tensor(np.broadcast_to(np.array(2.0), (3,)), True)
    with pytest.raises(RuntimeError, match="stride of 0"):
        gradcheck(ops.exp, x)


def test_nothing_that_requires_grad_is_refused():
    with pytest.raises(ValueError, match="requires grad"):
        gradcheck(ops.exp, T([1.0], requires_grad=False))


@pytest.mark.parametrize(
    "argument", ["check_batched_grad", "check_batched_forward_grad", "check_forward_ad", "masked"]
)
def test_what_is_not_implemented_says_so(argument):
    with pytest.raises(NotImplementedError, match=argument):
        gradcheck(ops.exp, T([1.0]), **{argument: True})


def test_leaving_nothing_to_check_is_refused():
    with pytest.raises(ValueError, match="check_backward_ad"):
        gradcheck(ops.exp, T([1.0]), check_backward_ad=False)
    with pytest.raises(ValueError, match="check_rev_over_rev"):
        gradgradcheck(ops.exp, T([1.0]), check_rev_over_rev=False)


def test_a_function_that_returns_no_tensor_is_refused():
    with pytest.raises(ValueError, match="must return Tensors, got float"):
        gradcheck(lambda x: 1.0, T([1.0]))


def test_nondeterministic_backward_and_its_tolerance():
    rng = np.random.default_rng(0)

    class Noisy(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * (2 + 1e-9 * rng.standard_normal())

    with pytest.raises(GradcheckError, match="nondet_tol"):
        gradcheck(Noisy.apply, T([1.0, 2.0]))
    assert gradcheck(Noisy.apply, T([1.0, 2.0]), nondet_tol=1e-7)


def test_a_missing_gradient_counts_as_zeros():
    class Picky(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return 2 * x, 3 * x

        @staticmethod
        def backward(ctx, first, second):
            if second is None:
                return first * 5
            return 3 * second if first is None else 2 * first + 3 * second

    with pytest.raises(GradcheckError, match="check_undefined_grad"):
        gradcheck(Picky.apply, T([1.0, 2.0]))
    assert gradcheck(Picky.apply, T([1.0, 2.0]), check_undefined_grad=False)


def test_other_arguments_pass_through_and_need_no_grad():
    assert gradcheck(lambda x, n, c: x**n * c, (T([1.5, 2.0]), 3, T([2.0], requires_grad=False)))


def test_float32_with_its_own_step():
    x = plugrad.tensor([0.5, 1.5], requires_grad=True)
    assert gradcheck(ops.exp, x, eps=1e-2, atol=1e-2, rtol=1e-2)


def test_zero_size_and_0_d():
    assert gradcheck(ops.exp, T(np.zeros((0, 3))))
    assert gradcheck(ops.exp, T(1.0))
    assert gradgradcheck(ops.exp, T(1.0))


def test_once_differentiable_raises_at_second_order():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            out = ops.exp(x)
            ctx.save_for_backward(out)
            return out

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            (out,) = ctx.saved_tensors
            return grad * out

    assert gradcheck(Exp.apply, T([1.0]))
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradgradcheck(Exp.apply, T([1.0]))


def test_gradgradcheck_takes_its_grad_outputs():
    x = T([1.0, 2.0])
    assert gradgradcheck(ops.exp, x, T([0.5, -2.0]))
    assert gradgradcheck(lambda a: (a * a, a**3), x, (T([0.5, -2.0]), T([1.0, 1.0])))
    assert gradgradcheck(ops.exp, x, gen_non_contig_grad_outputs=True)
    with pytest.raises(ValueError, match="2 grad_outputs for 1"):
        gradgradcheck(ops.exp, x, (T([0.5, -2.0]), T([1.0, 1.0])))


def test_operators_first_met_in_backward_can_be_checked():
    class Sinus(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return plugrad.Tensor(np.arctan(x.array))

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * ops.reciprocal(1.0 + ops.square(x))

    assert gradcheck(Sinus.apply, T([0.3, 1.0]))
    assert gradgradcheck(Sinus.apply, T([0.3, 1.0]))
