"""The battery tested: every way of being wrong is refused, by the check that is meant to find it."""

import numpy as np
import pytest

import plugrad
from plugrad import contract, ops
from plugrad.contract.report import Report

rng = np.random.default_rng(20240501)
cache: list[object] = []


def checked(op) -> Report:
    return contract.check(op)


def three_matrices(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(4, 2))


def three_vectors(make):
    for n in (3, 4, 5):
        yield make.call(make.normal(n))


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


@mutant("dtypes")
def forward_wrong_in_float16():
    return unary(
        lambda x: np.exp(x) * (1.25 if x.dtype == np.float16 else 1.0), lambda grad, out: grad * out
    )


@mutant("dtypes", "samples", "forward")
def float64_output_for_float32_input():
    return array_op(lambda x: x * np.float64(2.0) + np.zeros(x.shape), lambda grad: grad * 2.0)


# --------------------------------------------------------------------------------- memory and layout


@mutant("unchanged")
def in_place_on_the_incoming_gradient():
    def rule(grad):
        grad.array[...] *= 2
        return grad

    return unary(lambda x: 2 * x, rule)


@mutant("unchanged")
def in_place_on_a_saved_input():
    def rule(grad, x):
        result = grad * ops.cos(x)
        x.array[...] = 0
        return result

    return unary(lambda x: np.sin(x), rule)


@mutant("unchanged")
def in_place_on_a_saved_output():
    def rule(grad, out):
        result = grad * out
        out.array[...] += 1
        return result

    return unary(lambda x: np.exp(x), rule)


@mutant("unchanged")
def forward_writes_into_its_input():
    def double(x):
        x *= 2
        return x.copy()

    return array_op(double, lambda grad: grad * 2.0)


@mutant("layout")
def strides_of_the_incoming_gradient_ignored():
    def rule(grad):
        buffer = grad.array
        flat = np.lib.stride_tricks.as_strided(buffer, (buffer.size,), (buffer.itemsize,))
        if 0 in buffer.strides or min(buffer.strides, default=0) < 0:
            flat = np.ascontiguousarray(buffer)  # stay within the memory that is there
        return plugrad.Tensor(2 * flat.reshape(buffer.shape))

    return array_op(lambda x: 2 * x, rule, once_differentiable=True)


@mutant("layout")
def stride_0_of_the_incoming_gradient_ignored():
    def rule(grad):
        buffer = np.array(grad.array)
        if buffer.size > 1 and not any(grad.array.strides):
            buffer.reshape(-1)[1:] = 0
        return plugrad.Tensor(2 * buffer)

    return array_op(lambda x: 2 * x, rule, once_differentiable=True)


@mutant("layout")
def strides_of_the_input_ignored():
    def function(x):
        if not x.flags.c_contiguous and x.flags.f_contiguous:
            return 2 * np.ravel(x, order="K").reshape(x.shape)
        return 2 * x

    return array_op(function, lambda grad: grad * 2.0)


@mutant("layout")
def negative_strides_of_the_input_ignored():
    def function(x):
        if x.size and min(x.strides) < 0:
            return 2 * np.abs(x)
        return 2 * x

    return array_op(function, lambda grad: grad * 2.0)


@mutant("forward")
def output_is_its_input():
    return array_op(lambda x: x, lambda grad: grad)


@mutant("forward")
def output_is_a_view_of_its_input():
    return array_op(
        lambda x: x.T,
        lambda grad: ops.transpose(grad, 0, 1),
        infer=lambda x: (x.shape[::-1], x.dtype),
    )


@mutant("forward")
def declared_view_is_a_copy():
    return array_op(lambda x: x.copy(), lambda grad: grad, view_of="x")


@mutant("memory")
def forward_keeps_its_input():
    def function(x):
        cache[:] = [x]
        return np.exp(x)

    return unary(function, lambda grad, out: grad * out)


@mutant("memory")
def backward_keeps_its_output():
    def rule(grad, out):
        cache[:] = [out]
        return grad * out

    return unary(lambda x: np.exp(x), rule)


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


# ------------------------------------------------------------------------------------ declarations


@mutant("outputs")
def nondifferentiable_that_depends_on_its_input():
    op = plugrad.operator("mutant::nodiff", elementwise=True, nondifferentiable=True)(
        lambda x: 3 * x
    )
    op.samples(three_matrices)
    return op


@mutant("outputs")
def second_output_wrongly_declared_nondifferentiable():
    op = plugrad.operator(
        "mutant::two",
        outputs=("a", "b"),
        nondifferentiable=("b",),
        infer=lambda x: [(x.shape, x.dtype), (x.shape, x.dtype)],
    )(lambda x: (2 * x, 3 * x))
    op.backward(lambda grad: grad[0] * 2.0)
    op.samples(three_matrices)
    return op


@mutant("gradient")
def second_output_ignored():
    op = plugrad.operator(
        "mutant::two", outputs=("a", "b"), infer=lambda x: [(x.shape, x.dtype), (x.shape, x.dtype)]
    )(lambda x: (2 * x, 3 * x))
    op.backward(lambda grad: grad[0] * 2.0)
    op.samples(three_matrices)
    return op


@mutant("forward")
def wrong_inferred_shape():
    def total(x):
        return np.asarray(x.sum(axis=0, keepdims=True))

    op = plugrad.operator("mutant::infer", infer=lambda x: (x.shape[1:], x.dtype))(total)
    op.backward(lambda grad, like: ops.expand(grad, like.x.shape))
    op.samples(three_matrices)
    return op


@mutant("forward")
def wrong_inferred_dtype():
    return array_op(
        lambda x: 2 * x, lambda grad: grad * 2.0, infer=lambda x: (x.shape, np.dtype("float32"))
    )


@mutant("forward", "samples", "backward")
def elementwise_that_is_a_normalisation():
    return unary(lambda x: x - x.mean(), lambda grad: grad)


@mutant("linearity")
def incoming_gradient_clipped():
    return unary(
        lambda x: 2 * x,
        lambda grad: ops.clamp(grad * 2.0, -2.2, 2.2),
        once_differentiable=True,
        samples=lambda make: iter([make.call(make.normal(40))]),
    )


@mutant("linearity")
def constant_added_to_the_gradient():
    return unary(lambda x: 2 * x, lambda grad: grad * 2.0 + 1e-7)


@mutant("determinism")
def random_forward():
    return unary(lambda x: x + rng.standard_normal(x.shape).astype(x.dtype), lambda grad: grad)


@mutant("determinism")
def random_backward():
    return unary(lambda x: 2 * x, lambda grad: grad * float(2 + 1e-12 * rng.standard_normal()))


@mutant("needs", "gradient")
def condition_on_the_wrong_need():
    op = plugrad.operator("mutant::needs", elementwise=True)(lambda x, y: x * y)

    def rule(grad, x, y, needs):
        return grad * y if needs.y else None, grad * x if needs.x else None

    op.backward(rule)
    op.samples(lambda make: iter([make.call(make.normal(3), make.normal(3))]))
    return op


@mutant("errors")
def bad_input_accepted():
    op = unary(lambda x: np.exp(x), lambda grad, out: grad * out, samples=with_error)
    return op


@mutant("errors")
def bad_input_with_another_error():
    def function(x, *, cap=1.0):
        if cap < 0:
            raise KeyError(cap)
        return np.exp(x)

    op = plugrad.operator("mutant::error", elementwise=True)(function)
    op.backward(lambda grad, out: grad * out)
    op.samples(with_bad_cap)
    return op


@mutant("errors")
def bad_input_with_other_words():
    def function(x, *, cap=1.0):
        if cap < 0:
            raise ValueError("no")
        return np.exp(x)

    op = plugrad.operator("mutant::error", elementwise=True)(function)
    op.backward(lambda grad, out: grad * out)
    op.samples(with_bad_cap)
    return op


def with_error(make):
    yield make.call(make.normal(3))
    yield make.error(ValueError, "positive", make.values([-1.0]))


def with_bad_cap(make):
    yield make.call(make.normal(3))
    yield make.error(ValueError, "cap", make.normal(3), cap=-1.0)


@mutant("samples")
def no_samples():
    op = plugrad.operator("mutant::none", elementwise=True)(lambda x: 2 * x)
    op.backward(lambda grad: grad * 2.0)
    return op


@mutant("samples")
def too_few_samples():
    return array_op(
        lambda x: 2 * x, lambda grad: grad * 2.0, lambda make: iter([make.call(make.normal(3))])
    )


@mutant("samples")
def sample_that_raises():
    def function(x):
        raise ArithmeticError("no value")

    return unary(function, lambda grad: grad)


@mutant("samples")
def optional_input_never_given():
    op = plugrad.operator("mutant::optional", elementwise=True)(
        lambda x, y=None: x * 1 if y is None else x * y
    )
    op.backward(lambda grad, x, y: (grad if y is None else grad * y, None))
    op.samples(three_matrices)
    return op


@mutant("gradient", "samples")
def only_empty_samples():
    return array_op(
        lambda x: 2 * x,
        lambda grad: grad * 3.0,
        lambda make: iter([make.call(make.normal(0)), make.call(make.normal(0, 2))] * 2),
    )


@mutant("declaration")
def no_backward():
    op = plugrad.operator("mutant::nothing", elementwise=True)(lambda x: np.exp(x))
    op.samples(three_matrices)
    return op


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
