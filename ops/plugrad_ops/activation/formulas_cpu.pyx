# cython: boundscheck=False, wraparound=False
"""CPU kernels of activations that are declared as expressions; see cpu.pyx."""

cimport numpy as cnp

from plugrad.graph.op import PlainKernel
cimport plugrad_ops.vector_logs  # its macros  # no-cython-lint
from plugrad_ops.loops cimport Binary, binary, pg_binary_loops, pg_unary_loops, unary
from plugrad_ops.nary cimport Nary, nary, pg_nary_loops

from plugrad_ops.activation import reference

cnp.import_array()


cdef extern from *:
    """
    #define PG_E(v) PG_F(pg_decay, v)
    #define PG_SIGMOID(v) ((v >= 0 ? 1 : PG_E(v)) / (1 + PG_E(v)))
    #define PG_SLOPE(v) (PG_E(v) / ((1 + PG_E(v)) * (1 + PG_E(v))))     /* of the sigmoid */
    /* tanh(log(1 + exp(v))), by the exponential alone */
    #define PG_UP(v) (v >= 0 ? 1 + 2 * PG_E(v) : PG_E(v) * (PG_E(v) + 2))
    #define PG_MISH(v) (PG_UP(v) / (PG_UP(v) + 2 * (v >= 0 ? PG_E(v) * PG_E(v) : 1)))
    #define PG_SCALE ((real)1.0507009873554804934193349852946)
    #define PG_ALPHA ((real)1.7580993408473768599402175208123)
    #define PG_ONE_OVER(v) (1 / (1 + PG_F(fabs, v)))

    PG_UNARY(pg_hardsigmoid, x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + (real)0.5)
    PG_UNARY(pg_hardswish, x <= -3 ? 0 : x >= 3 ? x : x * (x / 6 + (real)0.5))
    PG_UNARY(pg_mish, x * PG_MISH(x))
    PG_UNARY(pg_selu, x >= 0 ? PG_SCALE * x : PG_ALPHA * PG_EXPM1(x))
    PG_UNARY(pg_softsign, x / (1 + PG_F(fabs, x)))
    PG_UNARY(pg_tanhshrink, x - PG_TANH(x))
    PG_BINARY(pg_prelu, x > 0 ? x : y * x)
    PG_BINARY(pg_glu, x * PG_SIGMOID(y))

    /* y and z: the constants */
    PG_TWO(pg_celu, x > 0 ? x : y * PG_EXPM1(x / y))
    PG_TWO(pg_softshrink, PG_F(fabs, x) <= y ? 0 : x > 0 ? x - y : x + y)
    PG_TWO(pg_hardshrink, PG_F(fabs, x) <= y ? 0 : x)
    PG_THREE(pg_threshold, x <= y ? z : x)

    /* x: the incoming gradient; y: the input; z: the constant, or the weight */
    PG_TWO(pg_hardsigmoid_grad, y <= -3 || y >= 3 ? 0 : x / 6)
    PG_TWO(pg_hardswish_grad, y <= -3 ? 0 : y >= 3 ? x : x * (y / 3 + (real)0.5))
    PG_TWO(pg_mish_grad, x * (PG_MISH(y) + y * (1 - PG_MISH(y) * PG_MISH(y)) * PG_SIGMOID(y)))
    PG_TWO(pg_selu_grad, x * (y >= 0 ? PG_SCALE : PG_ALPHA * PG_EXP(y)))
    PG_TWO(pg_softsign_grad, x * (PG_ONE_OVER(y) * PG_ONE_OVER(y)))
    PG_TWO(pg_tanhshrink_grad, x * (PG_TANH(y) * PG_TANH(y)))
    PG_THREE(pg_celu_grad, y > 0 ? x : x * PG_EXP(y / z))
    PG_THREE(pg_shrink_grad, PG_F(fabs, y) <= z ? 0 : x)
    PG_THREE(pg_threshold_grad, y <= z ? 0 : x)
    PG_THREE(pg_prelu_grad, y > 0 ? x : z * x)
    PG_TWO(pg_prelu_weight_grad, y > 0 ? 0 : x * y)
    /* z: the gate, whose slope comes first: it alone cannot overflow */
    PG_THREE(pg_glu_gate_grad, PG_SLOPE(z) * x * y)
    """
    const pg_unary_loops pg_hardsigmoid, pg_hardswish, pg_mish, pg_selu, pg_softsign, pg_tanhshrink
    const pg_binary_loops pg_prelu, pg_glu
    const pg_nary_loops pg_celu, pg_softshrink, pg_hardshrink, pg_threshold
    const pg_nary_loops pg_hardsigmoid_grad, pg_hardswish_grad, pg_mish_grad, pg_selu_grad, pg_softsign_grad
    const pg_nary_loops pg_tanhshrink_grad, pg_celu_grad, pg_shrink_grad, pg_threshold_grad
    const pg_nary_loops pg_prelu_grad, pg_prelu_weight_grad, pg_glu_gate_grad


# ---- kernels -------------------------------------------------------------------------------------------------

hardsigmoid = unary(reference.hardsigmoid_of, &pg_hardsigmoid)
hardswish = unary(reference.hardswish_of, &pg_hardswish)
mish = unary(reference.mish_of, &pg_mish)
selu = unary(reference.selu_of, &pg_selu)
softsign = unary(reference.softsign_of, &pg_softsign)
tanhshrink = unary(reference.tanhshrink_of, &pg_tanhshrink)
prelu = binary(reference.prelu_of, &pg_prelu)
glu = binary(reference.glu_of, &pg_glu)
celu = nary(reference.celu_of, &pg_celu)
softshrink = nary(reference.softshrink_of, &pg_softshrink)
hardshrink = nary(reference.hardshrink_of, &pg_hardshrink)
threshold = nary(reference.threshold_of, &pg_threshold)

hardsigmoid_backward = nary(reference.hardsigmoid_grad_of, &pg_hardsigmoid_grad)
hardswish_backward = nary(reference.hardswish_grad_of, &pg_hardswish_grad)
mish_backward = nary(reference.mish_grad_of, &pg_mish_grad)
selu_backward = nary(reference.selu_grad_of, &pg_selu_grad)
softsign_backward = nary(reference.softsign_grad_of, &pg_softsign_grad)
tanhshrink_backward = nary(reference.tanhshrink_grad_of, &pg_tanhshrink_grad)
celu_backward = nary(reference.celu_grad_of, &pg_celu_grad)
shrink_backward = nary(reference.shrink_grad_of, &pg_shrink_grad)
threshold_backward = nary(reference.threshold_grad_of, &pg_threshold_grad)

cdef Nary _prelu_grad = nary(reference.prelu_grad_of, &pg_prelu_grad)
cdef Nary _prelu_weight_grad = nary(reference.prelu_weight_grad_of, &pg_prelu_weight_grad)


def _prelu_backward(grad, input, weight, needs):
    return (
        _prelu_grad.call((grad, input, weight), ()) if (<tuple>needs)[0] else None,
        _prelu_weight_grad.call2(grad, input) if (<tuple>needs)[1] else None,
    )


prelu_backward = PlainKernel(_prelu_backward)

cdef Binary _glu = glu
cdef Nary _glu_gate_grad = nary(reference.glu_gate_grad_of, &pg_glu_gate_grad)


def _glu_backward(grad, input, gate, needs):
    return (
        _glu.call2(grad, gate) if (<tuple>needs)[0] else None,
        _glu_gate_grad.call((grad, input, gate), ()) if (<tuple>needs)[1] else None,
    )


glu_backward = PlainKernel(_glu_backward)
