"""Compiled rules of the arithmetic that every model runs.

They are plain compositions of operators, as a plugin could write them too; compiled, a rule costs no interpreter frame.
"""


def add(grad):
    return grad, grad


def sub(grad, needs):
    return grad, -grad if (<tuple>needs)[1] else None


def mul(grad, input, other, needs):
    return grad * other if (<tuple>needs)[0] else None, grad * input if (<tuple>needs)[1] else None


def div(grad, input, other, needs):
    to_input = grad / other
    return to_input, -(to_input * (input / other)) if (<tuple>needs)[1] else None


def neg(grad):
    return -grad


def square(grad, input):
    return grad * input * 2.0


def sqrt(grad, out):
    return grad / (out * 2.0)


def exp(grad, out):
    return grad * out


def log(grad, input):
    return grad / input
