"""The gradient by a divisor, in an order in which nothing overflows that is finite."""

from __future__ import annotations

from plugrad import operator, ops
from plugrad_ops.arithmetic import gradients_cpu
from plugrad_ops.arithmetic.ops import is_number


@operator(
    "standard::divisor_gradient",
    elementwise=True,
    dtypes="complex",
    cpu=gradients_cpu.divisor_gradient,
    cuda="-(value * conj(input / other)) / conj(other)",
)
def divisor_gradient(value, input, other):
    """``-value * conj(input / other**2)``: what ``input / other`` passes on to `other` of the gradient `value`.

    ``value / other`` overflows for the least of divisors, where `input` may be 0; ``input / other`` may, too.
    """
    return gradients_cpu.divisor_grad_of(value, input, other)


@divisor_gradient.backward
def _(grad, value, input, other, out, needs):
    return (
        ops.divisor_gradient(grad, _conj(input), _conj(other)) if needs.value else None,
        _conj(ops.divisor_gradient(grad, value, _conj(other))) if needs.input else None,
        _conj(grad) * out / _conj(other) * -2.0 if needs.other else None,
    )


def _conj(value):
    """The conjugate of a tensor or a number."""
    if is_number(value):
        return value.conjugate()
    return value.conj() if value.dtype.kind == "c" else value


@divisor_gradient.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(2, 3), make.uniform(2, 3, low=0.5, high=2.0))
    yield make.call(make.normal(2, 3), make.normal(3), make.uniform(2, 1, low=-2.0, high=-0.5))
    yield make.call(make.normal(3), 2.0, make.uniform(3, low=0.5, high=2.0))
    yield make.call(make.normal(), make.normal(0, 3), make.uniform(3, low=0.5, high=2.0))
    yield make.call(make.complex(2, 3), make.complex(3), make.complex(2, 3))
