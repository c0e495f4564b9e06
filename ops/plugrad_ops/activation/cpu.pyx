# cython: boundscheck=False, wraparound=False
"""CPU kernels of the activation family, forward and backward.

(a) Formulas are written so that no intermediate overflows: sigmoid and its relatives work with ``exp(-abs(x))``.
(b) Every loop has a function of reference.py that gives the same values for other dtypes and layouts, in NumPy.
(c) Backward kernels take the incoming gradient and what the rule saves; the battery compares them with the rules.
"""

cimport numpy as cnp
import numpy as np

from plugrad.graph.op cimport Kernel
cimport plugrad_ops.vector_logs  # its macros  # no-cython-lint
from plugrad_ops.loops cimport Unary, pg_unary_loops, unary
from plugrad_ops.nary cimport Nary, nary, pg_nary_loops

from plugrad_ops.activation import reference

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


# ---- kernels -------------------------------------------------------------------------------------------------

relu = unary(reference.relu_of, &pg_relu)
relu6 = unary(reference.relu6_of, &pg_relu6)
sigmoid = unary(reference.sigmoid_of, &pg_sigmoid)
tanh = unary(np.tanh, &pg_tanh_loops)
silu = unary(reference.silu_of, &pg_silu)
logsigmoid = unary(reference.logsigmoid_of, &pg_logsigmoid)
leaky_relu = nary(reference.leaky_relu_of, &pg_leaky_relu)
elu = nary(reference.elu_of, &pg_elu)
softplus = nary(reference.softplus_of, &pg_softplus)

relu_backward = nary(reference.relu_grad_of, &pg_relu_grad)
relu6_backward = nary(reference.relu6_grad_of, &pg_relu6_grad)
sigmoid_backward = nary(reference.sigmoid_grad_of, &pg_sigmoid_grad)
tanh_backward = nary(reference.tanh_grad_of, &pg_tanh_grad)
silu_backward = nary(reference.silu_grad_of, &pg_silu_grad)
logsigmoid_backward = nary(reference.logsigmoid_grad_of, &pg_logsigmoid_grad)
leaky_relu_backward = nary(reference.leaky_relu_grad_of, &pg_leaky_relu_grad)
elu_backward = nary(reference.elu_grad_of, &pg_elu_grad)
hardtanh_backward = nary(reference.hardtanh_grad_of, &pg_hardtanh_grad)
softplus_backward = nary(reference.softplus_grad_of, &pg_softplus_grad)

cdef Unary _gelu = unary(reference.gelu_of, &pg_gelu)
cdef Unary _gelu_tanh = unary(reference.gelu_tanh_of, &pg_gelu_tanh)
cdef Nary _gelu_grad = nary(reference.gelu_grad_of, &pg_gelu_grad)
cdef Nary _gelu_tanh_grad = nary(reference.gelu_tanh_grad_of, &pg_gelu_tanh_grad)
cdef Nary _hardtanh = nary(reference.hardtanh_of, &pg_hardtanh)


cdef class Gelu(Kernel):
    """Both forms of gelu: the constant `approximate` is "none" or "tanh"."""

    cdef object call(self, tuple args, tuple kwnames):
        return (_gelu_tanh if is_tanh(args[1]) else _gelu).call1(args[0])


cdef bint is_tanh(object approximate) except -1:
    if approximate != "none" and approximate != "tanh":
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    return approximate == "tanh"


gelu = Gelu(reference.gelu_in_form)


def gelu_backward(grad, input, approximate):
    return (_gelu_tanh_grad if is_tanh(approximate) else _gelu_grad).call2(grad, input)


cdef class Hardtanh(Kernel):
    """Between two constants, of which the first has to be the smaller one."""

    cdef object call(self, tuple args, tuple kwnames):
        low, high = args[1], args[2]
        if not low < high:
            raise ValueError(f"hardtanh: min_val must be below max_val, got {low} and {high}")
        return _hardtanh.call(args, ())


hardtanh = Hardtanh(reference.hardtanh_of)
