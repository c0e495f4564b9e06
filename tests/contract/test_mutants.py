"""The battery tested: every way of being wrong is refused, by the check that is meant to find it."""

import numpy as np
import pytest

import plugrad
from plugrad import contract, ops


def three_matrices(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(4, 2))


MUTANTS = []


def mutant(*checks: str):
    """Register a function that builds a wrong operator, and the checks of which one must refuse it."""

    def add(build):
        MUTANTS.append(pytest.param(build, checks, id=build.__name__))
        return build

    return add


def unary(function, rule, samples=three_matrices, **flags):
    """An elementwise operator of one input from its function and rule."""
    op = plugrad.operator("mutant::unary", elementwise=True, **flags)(function)
    op.backward(rule)
    op.samples(samples)
    return op


def array_op(function, rule, samples=three_matrices, infer=None, **flags):
    """An operator of one input that is not elementwise; by default of the shape and dtype of its input."""
    flags.setdefault("outputs", None)
    if infer is None:
        infer = same_as_input
    op = plugrad.operator("mutant::arrays", infer=infer, **flags)(function)
    op.backward(rule)
    op.samples(samples)
    return op


def same_as_input(x):
    return x.shape, x.dtype


# ------------------------------------------------------------------------------- wrong first derivative


@mutant("gradient")
def gradient_times_1_01():
    return unary(lambda x: np.exp(x), lambda grad, out: grad * out * 1.01)


@mutant("gradient")
def gradient_times_1_00001():
    return unary(lambda x: np.exp(x), lambda grad, out: grad * out * 1.00001)


@mutant("gradient")
def sign_flipped():
    return unary(lambda x: np.sin(x), lambda grad, x: -grad * ops.cos(x))


@mutant("gradient")
def zero_gradient_of_a_tiny_function():
    return unary(lambda x: 1e-6 * x, lambda grad: grad * 0.0)


@mutant("gradient")
def zero_gradient_of_a_very_tiny_function():
    return unary(lambda x: 1e-20 * x, lambda grad: grad * 0.0)


@mutant("gradient")
def gradient_wrong_for_negative_inputs_only():
    return unary(lambda x: x * x, lambda grad, x: grad * 2 * abs(x))


@mutant("gradient")
def gradient_wrong_where_two_inputs_are_swapped():
    op = plugrad.operator("mutant::swapped", elementwise=True)(lambda x, y: x * y * y)
    op.backward(lambda grad, x, y: (grad * 2 * x * y, grad * y * y))

    @op.samples
    def _(make):
        yield make.call(make.normal(3, 4), make.normal(4))

    return op


@mutant("gradient")
def gradient_ignores_a_constant():
    def power(x, *, scale=1.0):
        return scale * x

    op = plugrad.operator("mutant::constant", elementwise=True)(power)
    op.backward(lambda grad: grad)

    @op.samples
    def _(make):
        yield make.call(make.normal(3))
        yield make.call(make.normal(3), scale=2.0)

    return op


@mutant("gradient")
def transposed():
    def square_only(make):
        for n in (2, 3, 4):
            yield make.call(make.normal(n, n))

    matrix = np.arange(16.0).reshape(4, 4)

    def multiply(x):
        return matrix[: x.shape[0], : x.shape[0]].astype(x.dtype) @ x

    def rule(grad, x, like):
        n = like.x.shape[0]
        return ops.matmul(plugrad.tensor(matrix[:n, :n], dtype=like.x.dtype), grad)

    return array_op(multiply, lambda grad, like: rule(grad, None, like), square_only)


@mutant("gradient")
def one_element_of_1000_dropped():
    def drop(grad):
        keep = np.ones(grad.shape, dtype=grad.dtype)
        keep.reshape(-1)[:1] = 0
        return grad * plugrad.Tensor(keep)

    def samples(make):
        for n in (1000, 999, 1001):
            yield make.call(make.normal(n))

    return array_op(lambda x: x.copy(), drop, samples)


@mutant("gradient", "backward")
def broadcast_axis_not_summed():
    op = plugrad.operator("mutant::unsummed", infer=lambda x, y: (x.shape, x.dtype))(
        lambda x, y: x + y
    )
    op.backward(lambda grad: (grad, grad))

    @op.samples
    def _(make):
        yield make.call(make.normal(3, 4), make.normal(4))
        yield make.call(make.normal(3, 4), make.normal(3, 4))
        yield make.call(make.normal(2), make.normal(1))

    return op


@mutant("backward")
def wrong_number_of_gradients():
    op = plugrad.operator("mutant::count", elementwise=True)(lambda x, y: x + y)
    op.backward(lambda grad: (grad, grad, grad))
    op.samples(lambda make: iter([make.call(make.normal(3), make.normal(3))]))
    return op


@mutant("gradient")
def straight_through_that_does_not_say_so():
    def samples(make):
        yield make.call(make.values([0.2, 1.7, -2.3]))

    return unary(lambda x: np.rint(x), lambda grad: grad, samples)


@mutant("surrogate")
def straight_through_with_another_surrogate():
    def samples(make):
        yield make.call(make.values([0.2, 1.7, -2.3]))

    return unary(lambda x: np.rint(x), lambda grad: grad, samples, surrogate=lambda x: 2 * x)


@mutant("kinks")
def relu_with_gradient_one_at_zero():
    return unary(
        lambda x: np.maximum(x, 0),
        lambda grad, x: ops.where(x >= 0, grad, ops.mul(grad, 0.0)),
        kinks={0.0: 0.0},
    )


@mutant("gradient")
def kink_in_the_sample_that_is_not_declared():
    def samples(make):
        yield make.call(make.values([-1.0, 0.0, 2.0]))

    return unary(
        lambda x: np.maximum(x, 0), lambda grad, x: ops.where(x > 0, grad, grad * 0.0), samples
    )


# ------------------------------------------------------------------------------------------ dtypes


@mutant("dtypes")
def gradient_zero_in_float32():
    def rule(grad, x):
        return grad * 0.0 if x.dtype == np.float32 else grad * 2.0

    return unary(lambda x: 2 * x, rule)


@mutant("dtypes")
def gradient_wrong_by_a_percent_in_float32():
    def rule(grad, x):
        return grad * 2.02 if x.dtype == np.float32 else grad * 2.0

    return unary(lambda x: 2 * x, rule)


@mutant("dtypes", "samples", "forward")
def float64_output_for_float32_input():
    return array_op(lambda x: x * np.float64(2.0) + np.zeros(x.shape), lambda grad: grad * 2.0)


# ------------------------------------------------------------------------------------- higher order


@mutant("second order")
def second_order_hidden_from_the_graph():
    return unary(lambda x: np.sin(x), lambda grad, x: grad * plugrad.Tensor(np.cos(x.array)))


@mutant("second order")
def second_order_through_a_detached_output():
    return unary(lambda x: np.exp(x), lambda grad, out: grad * out.detach())


@mutant("second order")
def second_order_with_respect_to_the_incoming_gradient_lost():
    return unary(lambda x: 2 * x, lambda grad: grad.detach() * 2.0)


@mutant("kernels")
def gradient_differs_under_create_graph():
    def rule(grad, out):
        return grad * out * (1.5 if plugrad.is_grad_enabled() else 1.0)

    return unary(lambda x: np.exp(x), rule)


@mutant("kernels")
def fused_kernel_computes_something_else():
    op = unary(lambda x: np.tanh(x), lambda grad, out: grad * (1.0 - out * out))
    op.backward_kernel(lambda grad, out: grad * (1.0 - out))
    return op


@mutant("kernels")
def kernel_computes_something_else():
    return unary(
        lambda x: np.tanh(x),
        lambda grad, out: grad * (1.0 - out * out),
        cpu=lambda x, out=None: np.tanh(x) * 1.001,
    )


@pytest.mark.parametrize(("build", "checks"), MUTANTS)
def test_a_wrong_operator_is_refused_by_the_right_check(build, checks):
    report = contract.check(build())
    assert not report.passed, f"{build.__name__} was accepted"
    found = {failure.check for failure in report.failures}
    assert found & set(checks), f"refused by {found}, meant to be by one of {checks}:\n{report}"
    assert "mutant::" in str(report)
    for failure in report.failures:
        assert failure.message


@pytest.mark.parametrize(("build", "checks"), MUTANTS)
def test_a_thorough_battery_refuses_it_too(build, checks):
    report = contract.check(build(), quick=False)
    assert not report.passed
    assert {failure.check for failure in report.failures} & set(checks), str(report)


def test_saving_less_than_the_rule_needs_is_refused():
    """``when=`` with the wrong condition: the rule gets None for what it multiplies by."""
    op = plugrad.operator("mutant::when", elementwise=True)(lambda x, y: x * y)
    op.backward(
        lambda grad, x, y, needs: (
            grad * y if needs.x and y is not None else None,
            grad * x if needs.y and x is not None else None,
        ),
        when={"x": "x", "y": "y"},
    )
    op.samples(lambda make: iter([make.call(make.normal(3), make.normal(3))]))
    report = contract.check(op)
    assert report.failed("needs"), str(report)
