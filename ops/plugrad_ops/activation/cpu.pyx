# cython: boundscheck=False, wraparound=False
"""CPU kernels of the activation family, forward and backward.

(a) Formulas are written so that no intermediate overflows: sigmoid and its relatives work with ``exp(-abs(x))``.
(b) Every loop has a NumPy function beside it that gives the same values for other dtypes and layouts.
(c) Backward kernels take the incoming gradient and what the rule saves; the battery compares them with the rules.
"""

cimport numpy as cnp
import numpy as np

from plugrad.graph.op cimport Kernel
cimport plugrad_ops.vector_math  # its macros  # no-cython-lint
from plugrad_ops.loops cimport Binary, Unary, binary, pg_binary_loops, pg_unary_loops, unary

from plugrad_ops.arithmetic.cpu import erfc_of

cnp.import_array()


cdef extern from *:
    """
    #define PG_DECAY(v) PG_EXP(-PG_F(fabs, v))
    #define PG_SIGMOID(v) ((v >= 0 ? 1 : PG_DECAY(v)) / (1 + PG_DECAY(v)))
    #define PG_CDF(v) ((real)0.5 * PG_ERFC(v * (real)-0.70710678118654752440))
    #define PG_PDF(v) ((real)0.39894228040143267794 * PG_EXP((real)-0.5 * v * v))
    #define PG_INNER(v) ((real)0.79788456080286535588 * (v + (real)0.044715 * v * v * v))
    #define PG_INNER_SLOPE(v) ((real)0.79788456080286535588 * (1 + (real)0.134145 * v * v))
    #define PG_T(v) PG_TANH(PG_INNER(v))

    PG_UNARY(pg_relu, x <= 0 ? 0 : x)                       /* NaN stays NaN */
    PG_UNARY(pg_sigmoid, PG_SIGMOID(x))
    PG_UNARY(pg_tanh_loops, PG_TANH(x))
    PG_UNARY(pg_silu, x * PG_SIGMOID(x))
    PG_UNARY(pg_logsigmoid, (x < 0 ? x : 0) - PG_F(log1p, PG_DECAY(x)))
    PG_UNARY(pg_gelu, x * PG_CDF(x))
    PG_UNARY(pg_gelu_tanh, (real)0.5 * x * (1 + PG_T(x)))

    /* y: the constant */
    PG_BINARY(pg_leaky_relu, x > 0 ? x : x * y)
    PG_BINARY(pg_elu, x > 0 ? x : y * PG_F(expm1, x))

    /* x: the incoming gradient; y: the output, or for silu and gelu the input */
    PG_BINARY(pg_relu_grad, y <= 0 ? 0 : x)
    PG_BINARY(pg_sigmoid_grad, x * (y * (1 - y)))
    PG_BINARY(pg_tanh_grad, x * (1 - y * y))
    PG_BINARY(pg_silu_grad, x * (PG_SIGMOID(y) * (1 + y * (1 - PG_SIGMOID(y)))))
    PG_BINARY(pg_gelu_grad, x * (PG_CDF(y) + y * PG_PDF(y)))
    PG_BINARY(pg_gelu_tanh_grad,
        x * (real)0.5 * ((1 + PG_T(y)) + y * (1 - PG_T(y) * PG_T(y)) * PG_INNER_SLOPE(y)))
    """
    const pg_unary_loops pg_relu, pg_sigmoid, pg_tanh_loops, pg_silu, pg_logsigmoid, pg_gelu, pg_gelu_tanh
    const pg_binary_loops pg_leaky_relu, pg_elu, pg_relu_grad, pg_sigmoid_grad, pg_tanh_grad
    const pg_binary_loops pg_silu_grad, pg_gelu_grad, pg_gelu_tanh_grad


# ---- the same in NumPy ---------------------------------------------------------------------------------------

def relu_of(x):
    return np.maximum(x, 0)


def sigmoid_of(x):
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, decay) / (decay + 1)


def silu_of(x):
    return x * sigmoid_of(x)


def logsigmoid_of(x):
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def gelu_of(x):
    return x * (erfc_of(x * -0.5**0.5) * 0.5)


def gelu_tanh_of(x):
    return x * 0.5 * (np.tanh((2 / np.pi)**0.5 * (x + 0.044715 * (x * x * x))) + 1)


def leaky_relu_of(x, slope):
    return np.where(x > 0, x, x * slope)


def elu_of(x, alpha):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)) * alpha)


def relu_grad_of(grad, out):
    return np.where(out <= 0, 0, grad)


def sigmoid_grad_of(grad, out):
    return grad * (out * (1 - out))


def tanh_grad_of(grad, out):
    return grad * (1 - out * out)


def silu_grad_of(grad, x):
    s = sigmoid_of(x)
    return grad * (s * (x * (1 - s) + 1))


def gelu_grad_of(grad, x):
    return grad * (erfc_of(x * -0.5**0.5) * 0.5 + x * (np.exp(x * x * -0.5) * (0.5 / np.pi)**0.5))


def gelu_tanh_grad_of(grad, x):
    scale = (2 / np.pi)**0.5
    t = np.tanh(scale * (x + 0.044715 * (x * x * x)))
    return grad * 0.5 * ((t + 1) + x * (1 - t * t) * (scale * (1 + 0.134145 * (x * x))))


# ---- kernels -------------------------------------------------------------------------------------------------

cdef enum:
    SHORT = 256  # NumPy's tanh is faster beyond

relu = unary(relu_of, &pg_relu)
sigmoid = unary(sigmoid_of, &pg_sigmoid)
tanh = unary(np.tanh, &pg_tanh_loops, SHORT)
silu = unary(silu_of, &pg_silu)
logsigmoid = unary(logsigmoid_of, &pg_logsigmoid)
leaky_relu = binary(leaky_relu_of, &pg_leaky_relu)
elu = binary(elu_of, &pg_elu)

cdef Unary _gelu = unary(gelu_of, &pg_gelu)
cdef Unary _gelu_tanh = unary(gelu_tanh_of, &pg_gelu_tanh)

cdef Binary _relu_grad = binary(relu_grad_of, &pg_relu_grad)
cdef Binary _sigmoid_grad = binary(sigmoid_grad_of, &pg_sigmoid_grad)
cdef Binary _tanh_grad = binary(tanh_grad_of, &pg_tanh_grad)
cdef Binary _silu_grad = binary(silu_grad_of, &pg_silu_grad)
cdef Binary _gelu_grad = binary(gelu_grad_of, &pg_gelu_grad)
cdef Binary _gelu_tanh_grad = binary(gelu_tanh_grad_of, &pg_gelu_tanh_grad)


cdef class Gelu(Kernel):
    """Both forms of gelu: the constant `approximate` is "none" or "tanh"."""

    cdef object call(self, tuple args, tuple kwnames):
        return (_gelu_tanh if is_tanh(args[1]) else _gelu).call1(args[0])


cdef bint is_tanh(object approximate) except -1:
    if approximate != "none" and approximate != "tanh":
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    return approximate == "tanh"


gelu = Gelu(gelu_of)


def relu_backward(grad, out):
    return _relu_grad.call2(grad, out)


def sigmoid_backward(grad, out):
    return _sigmoid_grad.call2(grad, out)


def tanh_backward(grad, out):
    # conj(1 - out**2) is 1 - conj(out)**2.
    return _tanh_grad.call2(grad, out.conj() if out.dtype.kind == "c" else out)


def silu_backward(grad, input):
    return _silu_grad.call2(grad, input)


def gelu_backward(grad, input, approximate):
    return (_gelu_tanh_grad if is_tanh(approximate) else _gelu_grad).call2(grad, input)
