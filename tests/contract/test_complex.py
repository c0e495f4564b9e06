"""The battery proves complex gradients: rules that forget a conjugate, or are wrong in one part, are refused."""

import numpy as np
import pytest

import plugrad
from plugrad import contract
from plugrad.autograd import Function, gradcheck
from plugrad.contract.numeric import from_reals, reals


def square(rule, kernel=None, sample=True):
    @plugrad.operator("mine::square", elementwise=True, dtypes="complex")
    def square(x):
        return x * x

    square.backward(rule)
    if kernel is not None:
        square.backward_kernel(kernel)

    @square.samples
    def _(make):
        yield make.call(make.normal(3))
        yield make.call(make.normal(2, 3))
        yield make.call(make.complex(2, 2) if sample else make.normal(2))

    return square


def test_a_right_rule_passes():
    assert contract.check(square(lambda grad, x: grad * (2 * x).conj())).passed


@pytest.mark.parametrize(
    "rule",
    [
        lambda grad, x: grad * (2 * x),
        lambda grad, x: grad.conj() * (2 * x),
        lambda grad, x: plugrad.complex((grad * (2 * x).conj()).real, x.real) if x.is_complex() else grad * 2 * x,
        lambda grad, x: (grad * (2 * x).conj()).real * (1 + 0j) if x.is_complex() else grad * 2 * x,
    ],
)  # fmt: skip
def test_a_wrong_rule_is_refused(rule):
    report = contract.check(square(rule))
    assert not report.passed
    assert "complex128" in str(report)


def test_a_rule_right_at_first_order_only_is_refused():
    # x.conj() hidden from the graph: nothing is wrong before the gradient itself is differentiated.
    def rule(grad, x):
        return grad * (2 * x).detach().conj() if x.is_complex() else grad * (2 * x)

    report = contract.check(square(rule))
    assert {failure.check for failure in report.failures} == {"second order"}


def test_a_backward_kernel_without_the_conjugate_is_refused():
    report = contract.check(
        square(lambda grad, x: grad * (2 * x).conj(), lambda grad, x: grad * 2 * x)
    )
    assert "kernels" in {failure.check for failure in report.failures}
    report.to_dict()


def test_a_declaration_of_complex_numbers_needs_a_complex_sample():
    report = contract.check(square(lambda grad, x: grad * (2 * x).conj(), sample=False))
    assert "no sample passes complex numbers" in str(report)


class Square(Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z * z

    @staticmethod
    def backward(ctx, grad):
        (z,) = ctx.saved_tensors
        return grad * 2 * z


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_sees_both_parts(fast):
    z = plugrad.tensor(np.array([[1 + 2j, -0.5j], [3.0, 0.5 - 1j]]), requires_grad=True)
    assert gradcheck(lambda z: (z * z, z.abs()), z, fast_mode=fast)
    with pytest.raises(plugrad.autograd.GradcheckError, match=r"input 0\[\d, \d\]\.(real|imag)"):
        gradcheck(Square.apply, z, fast_mode=fast)


def test_numbers_and_their_parts():
    z = np.array([[1 + 2j, 3 + 4j]])
    assert reals(z).tolist() == [1, 2, 3, 4]
    assert from_reals(reals(z), z).tolist() == z.tolist()
    assert reals(np.array([[1.0], [2.0]])).tolist() == [1, 2]
