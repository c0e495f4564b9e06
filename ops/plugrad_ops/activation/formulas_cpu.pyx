# cython: boundscheck=False, wraparound=False
"""CPU kernels of activations that are declared as expressions; see cpu.pyx."""

cimport numpy as cnp
import numpy as np

from plugrad.graph.op import PlainKernel
cimport plugrad_ops.vector_logs  # its macros  # no-cython-lint
from plugrad_ops.loops cimport binary, pg_binary_loops, pg_unary_loops, unary
from plugrad_ops.nary cimport Nary, nary, pg_nary_loops

cnp.import_array()


cdef extern from *:
    """
    #define PG_E(v) PG_F(pg_decay, v)
    #define PG_SIGMOID(v) ((v >= 0 ? 1 : PG_E(v)) / (1 + PG_E(v)))
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
    """
    const pg_unary_loops pg_hardsigmoid, pg_hardswish, pg_mish, pg_selu, pg_softsign, pg_tanhshrink
    const pg_binary_loops pg_prelu
    const pg_nary_loops pg_celu, pg_softshrink, pg_hardshrink, pg_threshold
    const pg_nary_loops pg_hardsigmoid_grad, pg_hardswish_grad, pg_mish_grad, pg_selu_grad, pg_softsign_grad
    const pg_nary_loops pg_tanhshrink_grad, pg_celu_grad, pg_shrink_grad, pg_threshold_grad
    const pg_nary_loops pg_prelu_grad, pg_prelu_weight_grad


# ---- the same in NumPy ---------------------------------------------------------------------------------------

SCALE, ALPHA = 1.0507009873554804934193349852946, 1.7580993408473768599402175208123


def hardsigmoid_of(x):
    return np.clip(x / 6 + 0.5, 0, 1)


def hardswish_of(x):
    return np.where(x <= -3, 0, x * hardsigmoid_of(x))


def mish_of(x):
    return x * np.tanh(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def selu_of(x):
    return np.where(x >= 0, SCALE * x, ALPHA * np.expm1(np.minimum(x, 0)))


def softsign_of(x):
    return x / (np.abs(x) + 1)


def tanhshrink_of(x):
    return x - np.tanh(x)


def prelu_of(x, weight):
    return np.where(x > 0, x, weight * x)


def celu_of(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


def softshrink_of(x, lambd):
    return np.where(np.abs(x) <= lambd, 0, x - lambd * np.sign(x))


def hardshrink_of(x, lambd):
    return np.where(np.abs(x) <= lambd, 0, x)


def threshold_of(x, threshold, value):
    return np.where(x <= threshold, np.asarray(value, x.dtype), x)


def hardsigmoid_grad_of(grad, input):
    return np.where((input <= -3) | (input >= 3), 0, grad / 6)


def hardswish_grad_of(grad, input):
    return np.where(input <= -3, 0, np.where(input >= 3, grad, grad * (input / 3 + 0.5)))


def mish_grad_of(grad, input):
    decay = np.exp(-np.abs(input))
    t = np.tanh(np.maximum(input, 0) + np.log1p(decay))
    return grad * (t + input * (1 - t * t) * (np.where(input >= 0, 1, decay) / (1 + decay)))


def selu_grad_of(grad, input):
    return grad * np.where(input >= 0, SCALE, ALPHA * np.exp(np.minimum(input, 0)))


def softsign_grad_of(grad, input):
    scale = 1 / (np.abs(input) + 1)
    return grad * (scale * scale)


def tanhshrink_grad_of(grad, input):
    t = np.tanh(input)
    return grad * (t * t)


def celu_grad_of(grad, input, alpha):
    return np.where(input > 0, grad, grad * np.exp(np.minimum(input, 0) / alpha))


def shrink_grad_of(grad, input, lambd):
    return np.where(np.abs(input) <= lambd, 0, grad)


def threshold_grad_of(grad, input, threshold):
    return np.where(input <= threshold, 0, grad)


def prelu_grad_of(grad, input, weight):
    return np.where(input > 0, grad, weight * grad)


def prelu_weight_grad_of(grad, input):
    return np.where(input > 0, 0, grad * input)


# ---- kernels -------------------------------------------------------------------------------------------------

hardsigmoid = unary(hardsigmoid_of, &pg_hardsigmoid)
hardswish = unary(hardswish_of, &pg_hardswish)
mish = unary(mish_of, &pg_mish)
selu = unary(selu_of, &pg_selu)
softsign = unary(softsign_of, &pg_softsign)
tanhshrink = unary(tanhshrink_of, &pg_tanhshrink)
prelu = binary(prelu_of, &pg_prelu)
celu = nary(celu_of, &pg_celu)
softshrink = nary(softshrink_of, &pg_softshrink)
hardshrink = nary(hardshrink_of, &pg_hardshrink)
threshold = nary(threshold_of, &pg_threshold)

hardsigmoid_backward = nary(hardsigmoid_grad_of, &pg_hardsigmoid_grad)
hardswish_backward = nary(hardswish_grad_of, &pg_hardswish_grad)
mish_backward = nary(mish_grad_of, &pg_mish_grad)
selu_backward = nary(selu_grad_of, &pg_selu_grad)
softsign_backward = nary(softsign_grad_of, &pg_softsign_grad)
tanhshrink_backward = nary(tanhshrink_grad_of, &pg_tanhshrink_grad)
celu_backward = nary(celu_grad_of, &pg_celu_grad)
shrink_backward = nary(shrink_grad_of, &pg_shrink_grad)
threshold_backward = nary(threshold_grad_of, &pg_threshold_grad)

cdef Nary _prelu_grad = nary(prelu_grad_of, &pg_prelu_grad)
cdef Nary _prelu_weight_grad = nary(prelu_weight_grad_of, &pg_prelu_weight_grad)


def _prelu_backward(grad, input, weight, needs):
    return (
        _prelu_grad.call((grad, input, weight), ()) if (<tuple>needs)[0] else None,
        _prelu_weight_grad.call2(grad, input) if (<tuple>needs)[1] else None,
    )


prelu_backward = PlainKernel(_prelu_backward)
