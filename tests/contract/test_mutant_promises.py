"""The battery tested: what breaks a promise other than that of a right gradient is refused."""

import numpy as np
import pytest

import plugrad
from plugrad import contract, ops

rng = np.random.default_rng(20240501)
cache: list[object] = []


@pytest.fixture(scope="module", autouse=True)
def empty_cache():
    """What the mutants hold on to is gone after the module."""
    yield
    cache.clear()


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
