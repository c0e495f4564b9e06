"""Correct operators are never refused, however awkward their numbers, shapes and declarations."""

import numpy as np
import pytest

import plugrad
from plugrad import contract, ops
from plugrad.contract.samples import Maker

CORRECT = []


def correct(build):
    """Register a function that builds a correct operator."""
    CORRECT.append(pytest.param(build, id=build.__name__))
    return build


def unary(function, rule, samples, **flags):
    op = plugrad.operator("correct::unary", elementwise=True, **flags)(function)
    op.backward(rule)
    op.samples(samples)
    return op


def matrices(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 1, 3))


# ------------------------------------------------------------------------------------ hard numbers


@correct
def scaled_down():
    return unary(lambda x: 1e-6 * x, lambda grad: grad * 1e-6, matrices)


@correct
def scaled_down_to_physics():
    return unary(
        lambda x: (1.054571817e-34 * x).astype(x.dtype),
        lambda grad: grad * 1.054571817e-34,
        lambda make: iter([make.call(make.normal(4))]),
    )


@correct
def large_offset():
    def samples(make):
        yield make.call(make.normal(3, 4))

    return unary(lambda x: x * x + 1e3, lambda grad, x: grad * 2 * x, samples)


@correct
def steep():
    def samples(make):
        yield make.call(make.uniform(3, 4, low=-0.05, high=0.05))
        yield make.call(make.normal(3, 4))

    return unary(lambda x: np.tanh(50 * x), lambda grad, out: grad * 50 * (1 - out * out), samples)


@correct
def oscillating():
    def samples(make):
        yield make.call(make.uniform(3, 4, low=-0.5, high=0.5))

    return unary(lambda x: np.sin(40 * x), lambda grad, x: grad * 40 * ops.cos(40 * x), samples)


@correct
def near_a_pole():
    def samples(make):
        yield make.call(make.values([1e-3, 0.02, -0.01, 2.0]))

    return unary(lambda x: 1 / x, lambda grad, out: -grad * out * out, samples)


@correct
def large_and_small_inputs_together():
    def samples(make):
        yield make.call(make.values([1e-4, 1.0, 1e3, 12345.6]))

    return unary(lambda x: np.sqrt(x), lambda grad, out: grad / (2 * out), samples)


@correct
def infinite_slope_at_the_edge():
    def samples(make):
        yield make.call(make.values([0.0, 0.25, 4.0]))
        yield make.call(make.positive(3, 2))

    return unary(lambda x: np.sqrt(x), lambda grad, out: grad / (2 * out), samples)


@correct
def overflow_in_lower_precision():
    def samples(make):
        yield make.call(make.values([0.5, 11.5, 20.0, 95.0]))

    return unary(lambda x: np.exp(x), lambda grad, out: grad * out, samples)


@correct
def cancelling():
    def function(x, y):
        return (x - y) * (x + y)

    op = plugrad.operator("correct::cancelling", elementwise=True)(function)
    op.backward(lambda grad, x, y: (2 * grad * x, -2 * grad * y))
    op.samples(lambda make: iter([make.call(make.values([3.0, 1e4]), make.values([3.0001, 1e4]))]))
    return op


@correct
def flat_everywhere():
    return unary(lambda x: 0 * x, lambda grad: 0 * grad, matrices)


@correct
def constant_derivative_zero_by_cancellation():
    op = plugrad.operator("correct::ratio", elementwise=True)(
        lambda x: np.sin(x) ** 2 + np.cos(x) ** 2
    )
    op.backward(lambda grad, x: grad * (2 * ops.sin(x) * ops.cos(x) - 2 * ops.cos(x) * ops.sin(x)))
    op.samples(matrices)
    return op


# ----------------------------------------------------------------------------------------- kinks


@correct
def relu_with_its_kink_in_the_samples():
    def samples(make):
        yield make.call(make.values([-1.0, 0.0, 2.0, 1e-9, -1e-9]))

    def rule(grad, x):
        return grad * ops.cast(x > 0, dtype=grad.dtype)

    return unary(lambda x: np.maximum(x, 0), rule, samples, kinks={0.0: 0.0})


@correct
def two_kinks_close_together():
    def rule(grad, x):
        inside = ops.logical_and(x > 0, x < 1e-3)
        return grad * ops.cast(inside, dtype=grad.dtype)

    def samples(make):
        yield make.call(make.values([-1.0, 0.0, 5e-4, 1e-3, 2.0]))

    return unary(
        lambda x: np.clip(x, 0, np.asarray(1e-3, x.dtype)),
        rule,
        samples,
        kinks={0.0: 0.0, 1e-3: 0.0},
    )


@correct
def kinks_by_predicate_with_ties():
    def near(a, b, *, tol):
        return np.abs(a - b) <= tol

    op = plugrad.operator("correct::larger", elementwise=True, kinks=near)(np_maximum)

    def rule(grad, a, b):
        more = ops.cast(a > b, dtype=grad.dtype)
        tie = ops.cast(ops.eq(a, b), dtype=grad.dtype)
        share = more + tie * 0.5
        return grad * share, grad * (1.0 - share)

    op.backward(rule)

    @op.samples
    def _(make):
        yield make.call(make.normal(3, 4), make.normal(4))
        yield make.call(make.values([1.0, 2.0, 3.0]), make.values([1.0, 1.0, 4.0]))

    return op


def np_maximum(a, b):
    return np.maximum(a, b)


@pytest.mark.parametrize("build", CORRECT)
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "thorough"])
def test_a_correct_operator_passes(build, quick):
    report = contract.check(build(), quick=quick)
    assert report.passed, str(report)


@pytest.mark.parametrize("build", CORRECT)
def test_a_correct_operator_passes_at_other_points(build):
    """The same operators on samples drawn anew: no tolerance may hold by luck."""
    op = build()
    for seed in range(5):
        made = Maker(f"{op.name} {seed}")
        report = contract.check(op, samples=lambda _, made=made: op.sampler(made))
        assert report.passed, f"seed {seed}: {report}"
