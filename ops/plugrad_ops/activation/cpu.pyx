# cython: boundscheck=False, wraparound=False
"""CPU kernels of the activation family, forward and backward.

(a) Formulas are written so that no intermediate overflows: sigmoid and its relatives work with ``exp(-abs(x))``.
(b) Every loop has a NumPy function beside it that gives the same values for other dtypes and layouts.
(c) Backward kernels take the incoming gradient and what the rule saves; the battery compares them with the rules.
"""

cimport numpy as cnp
import numpy as np

from plugrad.graph.op cimport Kernel
cimport plugrad_ops.vector_logs  # its macros  # no-cython-lint
from plugrad_ops.loops cimport Unary, pg_unary_loops, unary
from plugrad_ops.nary cimport Nary, nary, pg_nary_loops

from plugrad_ops.arithmetic.cpu import erfc_of

cnp.import_array()


cdef extern from *:
    """
    #define PG_DECAY(v) PG_F(pg_decay, v)
    #define PG_SIGMOID(v) (((v) >= 0 ? 1 : PG_DECAY(v)) / (1 + PG_DECAY(v)))
    #define PG_SOFTPLUS(v) (((v) > 0 ? (v) : 0) + PG_F(pg_log1p_unit, PG_DECAY(v)))
    #define PG_INNER(v) ((real)0.79788456080286535588 * (v + (real)0.044715 * v * v * v))
    #define PG_INNER_SLOPE(v) ((real)0.79788456080286535588 * (1 + (real)0.134145 * v * v))
    #define PG_T(v) PG_TANH(PG_INNER(v))

    PG_INLINE double pg_gelu_of(double x) { double decay; return x * pg_cdf(x, &decay); }
    PG_INLINE float pg_gelu_off(float x) { float decay; return x * pg_cdff(x, &decay); }

    PG_INLINE double pg_gelu_slope(double x) {
        double decay; const double below = pg_cdf(x, &decay);
        return below + x * (0.39894228040143267794 * decay);
    }

    PG_INLINE float pg_gelu_slopef(float x) {
        float decay; const float below = pg_cdff(x, &decay);
        return below + x * (0.398942280f * decay);
    }

    PG_UNARY(pg_relu, x <= 0 ? 0 : x)                       /* NaN stays NaN */
    PG_UNARY(pg_relu6, x <= 0 ? 0 : x >= 6 ? 6 : x)
    PG_UNARY(pg_sigmoid, PG_SIGMOID(x))
    PG_UNARY(pg_tanh_loops, PG_TANH(x))
    PG_UNARY(pg_silu, x * PG_SIGMOID(x))
    PG_UNARY(pg_logsigmoid, (x < 0 ? x : 0) - PG_F(pg_log1p_unit, PG_DECAY(x)))
    PG_UNARY(pg_gelu, PG_F(pg_gelu_of, x))
    PG_UNARY(pg_gelu_tanh, (real)0.5 * x * (1 + PG_T(x)))

    /* y and z: the constants */
    PG_TWO(pg_leaky_relu, x > 0 ? x : x * y)
    PG_TWO(pg_elu, x > 0 ? x : y * PG_EXPM1(x))
    PG_THREE(pg_hardtanh, x < y ? y : x > z ? z : x)
    PG_THREE(pg_softplus, x * y > z ? x : PG_SOFTPLUS(x * y) / y)

    /* x: the incoming gradient; y: the output */
    PG_TWO(pg_relu_grad, y <= 0 ? 0 : x)
    PG_TWO(pg_sigmoid_grad, x * (y * (1 - y)))
    PG_TWO(pg_tanh_grad, x * (1 - y * y))
    /* x: the incoming gradient; y: the input; z and w: the constants */
    PG_TWO(pg_relu6_grad, y > 0 && y < 6 ? x : 0)
    PG_TWO(pg_silu_grad, x * (PG_SIGMOID(y) * (1 + y * (1 - PG_SIGMOID(y)))))
    PG_TWO(pg_logsigmoid_grad, x * PG_SIGMOID(-y))
    PG_TWO(pg_gelu_grad, x * PG_F(pg_gelu_slope, y))
    PG_TWO(pg_gelu_tanh_grad,
        x * (real)0.5 * ((1 + PG_T(y)) + y * (1 - PG_T(y) * PG_T(y)) * PG_INNER_SLOPE(y)))
    PG_THREE(pg_leaky_relu_grad, y > 0 ? x : x * z)
    PG_THREE(pg_elu_grad, y > 0 ? x : x * PG_EXP(y) * z)
    PG_FOUR(pg_hardtanh_grad, y > z && y < w ? x : 0)
    PG_FOUR(pg_softplus_grad, y * z > w ? x : x * PG_SIGMOID(y * z))
    """
    const pg_unary_loops pg_relu, pg_relu6, pg_sigmoid, pg_tanh_loops, pg_silu, pg_logsigmoid, pg_gelu, pg_gelu_tanh
    const pg_nary_loops pg_leaky_relu, pg_elu, pg_hardtanh, pg_softplus
    const pg_nary_loops pg_relu_grad, pg_sigmoid_grad, pg_tanh_grad, pg_relu6_grad, pg_silu_grad, pg_logsigmoid_grad
    const pg_nary_loops pg_gelu_grad, pg_gelu_tanh_grad, pg_leaky_relu_grad, pg_elu_grad
    const pg_nary_loops pg_hardtanh_grad, pg_softplus_grad


# ---- the same in NumPy ---------------------------------------------------------------------------------------

def relu_of(x):
    return np.maximum(x, 0)


def relu6_of(x):
    return np.minimum(np.maximum(x, 0), 6)


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


def hardtanh_of(x, low, high):
    return np.minimum(np.maximum(x, low), high)


def softplus_of(x, beta, threshold):
    scaled = x * beta
    smooth = np.maximum(scaled, 0) + np.log1p(np.exp(-np.abs(scaled)))
    return np.where(scaled > threshold, x, smooth / beta)


def relu_grad_of(grad, out):
    return np.where(out <= 0, 0, grad)


def relu6_grad_of(grad, input):
    return np.where((input > 0) & (input < 6), grad, 0)


def sigmoid_grad_of(grad, out):
    return grad * (out * (1 - out))


def tanh_grad_of(grad, out):
    # conj(1 - out**2), without a copy of what is real
    return grad * (1 - out * out).conj() if out.dtype.kind == "c" else grad * (1 - out * out)


def silu_grad_of(grad, input):
    s = sigmoid_of(input)
    return grad * (s * (input * (1 - s) + 1))


def logsigmoid_grad_of(grad, input):
    return grad * sigmoid_of(-input)


def gelu_grad_of(grad, x):
    return grad * (erfc_of(x * -0.5**0.5) * 0.5 + x * (np.exp(x * x * -0.5) * (0.5 / np.pi)**0.5))


def gelu_tanh_grad_of(grad, x):
    scale = (2 / np.pi)**0.5
    t = np.tanh(scale * (x + 0.044715 * (x * x * x)))
    return grad * 0.5 * ((t + 1) + x * (1 - t * t) * (scale * (1 + 0.134145 * (x * x))))


def leaky_relu_grad_of(grad, input, negative_slope):
    return np.where(input > 0, grad, grad * negative_slope)


def elu_grad_of(grad, input, alpha):
    return np.where(input > 0, grad, grad * np.exp(np.minimum(input, 0)) * alpha)


def hardtanh_grad_of(grad, input, min_val, max_val):
    return np.where((input > min_val) & (input < max_val), grad, 0)


def softplus_grad_of(grad, input, beta, threshold):
    scaled = input * beta
    return np.where(scaled > threshold, grad, grad * sigmoid_of(scaled))


# ---- kernels -------------------------------------------------------------------------------------------------

relu = unary(relu_of, &pg_relu)
relu6 = unary(relu6_of, &pg_relu6)
sigmoid = unary(sigmoid_of, &pg_sigmoid)
tanh = unary(np.tanh, &pg_tanh_loops)
silu = unary(silu_of, &pg_silu)
logsigmoid = unary(logsigmoid_of, &pg_logsigmoid)
leaky_relu = nary(leaky_relu_of, &pg_leaky_relu)
elu = nary(elu_of, &pg_elu)
softplus = nary(softplus_of, &pg_softplus)

relu_backward = nary(relu_grad_of, &pg_relu_grad)
relu6_backward = nary(relu6_grad_of, &pg_relu6_grad)
sigmoid_backward = nary(sigmoid_grad_of, &pg_sigmoid_grad)
tanh_backward = nary(tanh_grad_of, &pg_tanh_grad)
silu_backward = nary(silu_grad_of, &pg_silu_grad)
logsigmoid_backward = nary(logsigmoid_grad_of, &pg_logsigmoid_grad)
leaky_relu_backward = nary(leaky_relu_grad_of, &pg_leaky_relu_grad)
elu_backward = nary(elu_grad_of, &pg_elu_grad)
hardtanh_backward = nary(hardtanh_grad_of, &pg_hardtanh_grad)
softplus_backward = nary(softplus_grad_of, &pg_softplus_grad)

cdef Unary _gelu = unary(gelu_of, &pg_gelu)
cdef Unary _gelu_tanh = unary(gelu_tanh_of, &pg_gelu_tanh)
cdef Nary _gelu_grad = nary(gelu_grad_of, &pg_gelu_grad)
cdef Nary _gelu_tanh_grad = nary(gelu_tanh_grad_of, &pg_gelu_tanh_grad)
cdef Nary _hardtanh = nary(hardtanh_of, &pg_hardtanh)


cdef class Gelu(Kernel):
    """Both forms of gelu: the constant `approximate` is "none" or "tanh"."""

    cdef object call(self, tuple args, tuple kwnames):
        return (_gelu_tanh if is_tanh(args[1]) else _gelu).call1(args[0])


cdef bint is_tanh(object approximate) except -1:
    if approximate != "none" and approximate != "tanh":
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    return approximate == "tanh"


gelu = Gelu(gelu_of)


def gelu_backward(grad, input, approximate):
    return (_gelu_tanh_grad if is_tanh(approximate) else _gelu_grad).call2(grad, input)


cdef class Hardtanh(Kernel):
    """Between two constants, of which the first has to be the smaller one."""

    cdef object call(self, tuple args, tuple kwnames):
        low, high = args[1], args[2]
        if not low < high:
            raise ValueError(f"hardtanh: min_val must be below max_val, got {low} and {high}")
        return _hardtanh.call(args, ())


hardtanh = Hardtanh(hardtanh_of)
