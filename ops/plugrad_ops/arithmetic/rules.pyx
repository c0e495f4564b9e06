"""Compiled rules of the arithmetic that every model runs.

They are plain compositions of operators, as a plugin could write them too; compiled, a rule costs no interpreter frame.
"""

from plugrad.graph.backend cimport COMPLEX
from plugrad.graph.tensor cimport Tensor

from plugrad import ops


cdef inline object conj(object value):
    """``value.conj()``, without a call where it is real; `value` may be a Python number."""
    if isinstance(value, Tensor):
        return value.conj() if (<Tensor>value).meta.kind == COMPLEX else value
    return value.conjugate() if isinstance(value, complex) else value


def add(grad):
    return grad, grad


def sub(grad, needs):
    return grad, -grad if (<tuple>needs)[1] else None


def mul(grad, input, other, needs):
    return grad * conj(other) if (<tuple>needs)[0] else None, grad * conj(input) if (<tuple>needs)[1] else None


def div(grad, input, other, needs):
    return grad / conj(other), ops.divisor_gradient(grad, input, other) if (<tuple>needs)[1] else None


def neg(grad):
    return -grad


def square(grad, input):
    return grad * conj(input) * 2.0


def sqrt(grad, out):
    return grad / (conj(out) * 2.0)


def exp(grad, out):
    return grad * conj(out)


def log(grad, input):
    return grad / conj(input)
