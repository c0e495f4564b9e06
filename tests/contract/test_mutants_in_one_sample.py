"""The battery tested: what is wrong in one sample only, and not in the first, is refused too.

Most checks look closely at one sample and ask the others in fewer calls; those must find the same.
"""

import numpy as np
import pytest

import plugrad
from plugrad import contract, ops


def samples(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(3, 4), late=True)
    yield make.call(make.normal(2, 2, 2))


def scaling(change, backward_kernel=None, **flags):
    """``x * x`` with a rule whose gradient `change` spoils where the constant `late` is given."""

    def infer(x, *, late=False):
        return x.shape, x.dtype

    op = plugrad.operator("mutant::late", infer=infer, **flags)(lambda x, *, late=False: x * x)
    op.backward(lambda grad, x, late: change(grad, x) if late else 2 * grad * x)
    if backward_kernel is not None:
        op.backward_kernel(lambda grad, x, late: backward_kernel(grad, x) if late else 2 * grad * x)
    op.samples(samples)
    return op


def one_element_dropped(grad, x):
    keep = np.ones(x.shape, x.dtype)
    keep.reshape(-1)[5:6] = 0
    return 2 * grad * x * plugrad.Tensor(keep)


def two_elements_swapped(grad, x):
    flat = (2 * grad * x).reshape(-1)
    order = np.arange(flat.shape[0])
    order[:2] = order[1::-1]
    return ops.index_select(flat, 0, plugrad.tensor(order)).reshape(x.shape)


def detached(grad, x):
    return 2 * grad * x.detach()


def detached_from_the_incoming_gradient(grad, x):
    return 2 * grad.detach() * x


def a_little_wrong_at_second_order(grad, x):
    return 2 * grad * (x + 1e-4 * (x - x.detach()))


def quadratic_in_the_incoming_gradient(grad, x):
    return 2 * grad * x * (1 + 1e-6 * abs(grad))


def an_offset(grad, x):
    return 2 * grad * x + 1e-9


def wrong_in_float16(grad, x):
    return 2 * grad * x * (1.25 if x.dtype == np.float16 else 1.0)


def wrong_in_float32(grad, x):
    return 2 * grad * x * (1.001 if x.dtype == np.float32 else 1.0)


MUTANTS = [
    (one_element_dropped, "gradient"),
    (two_elements_swapped, "gradient"),
    (detached, "second order"),
    (detached_from_the_incoming_gradient, "second order"),
    (a_little_wrong_at_second_order, "second order"),
    (quadratic_in_the_incoming_gradient, "linearity"),
    (an_offset, "linearity"),
    (wrong_in_float16, "dtypes"),
    (wrong_in_float32, "dtypes"),
]


@pytest.mark.parametrize(("change", "check"), MUTANTS, ids=[c.__name__ for c, _ in MUTANTS])
def test_a_rule_that_is_wrong_in_one_sample_is_refused(change, check):
    report = contract.check(scaling(change))
    assert report.failed(check), str(report)
    assert "sample 1" in str(report)


def test_a_rule_that_is_wrong_in_float32_beside_a_kernel_that_is_right_is_refused():
    """The kernel hides the rule until gradients are recorded, or on another device."""
    report = contract.check(scaling(wrong_in_float32, backward_kernel=lambda grad, x: 2 * grad * x))
    assert report.failed("dtypes"), str(report)
    assert "by the rule in float32" in str(report)


@pytest.mark.parametrize(
    "change", [quadratic_in_the_incoming_gradient, an_offset], ids=lambda change: change.__name__
)
def test_a_rule_that_is_not_linear_beside_a_kernel_that_is_is_refused(change):
    """The kernel hides the rule until gradients are recorded."""
    report = contract.check(scaling(change, backward_kernel=lambda grad, x: 2 * grad * x))
    assert not report.passed
    assert {failure.check for failure in report.failures} <= {
        "kernels",
        "linearity",
        "second order",
    }


def test_second_order_with_respect_to_the_incoming_gradient_at_a_kink():
    """At the kink the derivative exists for one input only; moved off it, that would be gone."""
    op = plugrad.operator(
        "mutant::at_zero", elementwise=True, kinks=lambda x, y, *, tol: np.abs(x) <= tol
    )(lambda x, y: np.where(x == 0, y, 0 * x))
    op.backward(lambda grad, x, y: (0 * grad * x, ops.where(x == 0, grad.detach(), 0 * grad)))

    @op.samples
    def _(make):
        yield make.call(make.values([-1.0, 0.0, 2.0]), make.normal(2, 1))
        yield make.call(make.values([0.0, 1.0]), make.normal(2))
        yield make.call(make.normal(2, 3), make.normal(3))

    assert contract.check(op).failed("second order")


@pytest.mark.parametrize("number", range(20))
def test_what_depends_on_differences_of_large_numbers_is_not_refused_in_float16(number):
    """Rounding moves the result as much as the inputs move apart: neighbours or not."""

    def infer(x):
        return x.shape[1:], x.dtype

    def function(x):
        top = x.max(axis=0)
        return np.log(np.exp(x - top).sum(axis=0)) + top

    op = plugrad.operator(f"correct::far_{number}", infer=infer)(function)
    op.backward(lambda grad, x, out: grad * ops.exp(x - out))

    @op.samples
    def _(make):
        yield make.call(make.values([[800.0, 0.0], [801.0, -800.0], [-800.0, 1.0]]))
        yield make.call(make.values([[800.0, 0.0], [-800.0, 1.0], [801.0, 0.5]]))
        yield make.call(make.normal(3, 2))

    report = contract.check(op)
    assert report.passed, str(report)
