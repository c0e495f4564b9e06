# cython: boundscheck=False, wraparound=False
"""CPU kernels of activations that are declared as expressions; see cpu.pyx."""

cimport numpy as cnp
import numpy as np

cimport plugrad_ops.vector_math  # its macros  # no-cython-lint
from plugrad_ops.loops cimport Binary, binary, pg_binary_loops, pg_unary_loops, unary

cnp.import_array()


cdef extern from *:
    """
    #define PG_E(v) PG_EXP(-PG_F(fabs, v))                     /* at most 1 */
    #define PG_SIGMOID(v) ((v >= 0 ? 1 : PG_E(v)) / (1 + PG_E(v)))
    /* tanh(log(1 + exp(v))), by the exponential alone */
    #define PG_UP(v) (v >= 0 ? 1 + 2 * PG_E(v) : PG_E(v) * (PG_E(v) + 2))
    #define PG_MISH(v) (PG_UP(v) / (PG_UP(v) + 2 * (v >= 0 ? PG_E(v) * PG_E(v) : 1)))
    #define PG_SCALE ((real)1.0507009873554804934193349852946)
    #define PG_ALPHA ((real)1.7580993408473768599402175208123)

    PG_UNARY(pg_hardsigmoid, x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + (real)0.5)
    PG_UNARY(pg_hardswish, x <= -3 ? 0 : x >= 3 ? x : x * (x / 6 + (real)0.5))
    PG_UNARY(pg_mish, x * PG_MISH(x))
    PG_UNARY(pg_selu, x >= 0 ? PG_SCALE * x : PG_ALPHA * PG_F(expm1, x))
    PG_UNARY(pg_tanhshrink, x - PG_TANH(x))

    /* y: the constant */
    PG_BINARY(pg_celu, x > 0 ? x : y * PG_F(expm1, x / y))
    PG_BINARY(pg_softshrink, PG_F(fabs, x) <= y ? 0 : x > 0 ? x - y : x + y)
    PG_BINARY(pg_hardshrink, PG_F(fabs, x) <= y ? 0 : x)

    /* x: the incoming gradient; y: the input */
    PG_BINARY(pg_hardsigmoid_grad, y <= -3 || y >= 3 ? 0 : x / 6)
    PG_BINARY(pg_hardswish_grad, y <= -3 ? 0 : y >= 3 ? x : x * (y / 3 + (real)0.5))
    PG_BINARY(pg_mish_grad, x * (PG_MISH(y) + y * (1 - PG_MISH(y) * PG_MISH(y)) * PG_SIGMOID(y)))
    PG_BINARY(pg_selu_grad, x * (y >= 0 ? PG_SCALE : PG_ALPHA * PG_EXP(y)))
    """
    const pg_unary_loops pg_hardsigmoid, pg_hardswish, pg_mish, pg_selu, pg_tanhshrink
    const pg_binary_loops pg_celu, pg_softshrink, pg_hardshrink
    const pg_binary_loops pg_hardsigmoid_grad, pg_hardswish_grad, pg_mish_grad, pg_selu_grad


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


def tanhshrink_of(x):
    return x - np.tanh(x)


def celu_of(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


def softshrink_of(x, lambd):
    return np.where(np.abs(x) <= lambd, 0, x - lambd * np.sign(x))


def hardshrink_of(x, lambd):
    return np.where(np.abs(x) <= lambd, 0, x)


def hardsigmoid_grad_of(grad, x):
    return np.where((x <= -3) | (x >= 3), 0, grad / 6)


def hardswish_grad_of(grad, x):
    return np.where(x <= -3, 0, np.where(x >= 3, grad, grad * (x / 3 + 0.5)))


def mish_grad_of(grad, x):
    decay = np.exp(-np.abs(x))
    t = np.tanh(np.maximum(x, 0) + np.log1p(decay))
    return grad * (t + x * (1 - t * t) * (np.where(x >= 0, 1, decay) / (1 + decay)))


def selu_grad_of(grad, x):
    return grad * np.where(x >= 0, SCALE, ALPHA * np.exp(np.minimum(x, 0)))


# ---- kernels -------------------------------------------------------------------------------------------------

hardsigmoid = unary(hardsigmoid_of, &pg_hardsigmoid)
hardswish = unary(hardswish_of, &pg_hardswish)
mish = unary(mish_of, &pg_mish)
selu = unary(selu_of, &pg_selu)
tanhshrink = unary(tanhshrink_of, &pg_tanhshrink)
celu = binary(celu_of, &pg_celu)
softshrink = binary(softshrink_of, &pg_softshrink)
hardshrink = binary(hardshrink_of, &pg_hardshrink)

cdef Binary _hardsigmoid_grad = binary(hardsigmoid_grad_of, &pg_hardsigmoid_grad)
cdef Binary _hardswish_grad = binary(hardswish_grad_of, &pg_hardswish_grad)
cdef Binary _mish_grad = binary(mish_grad_of, &pg_mish_grad)
cdef Binary _selu_grad = binary(selu_grad_of, &pg_selu_grad)


def hardsigmoid_backward(grad, input):
    return _hardsigmoid_grad.call2(grad, input)


def hardswish_backward(grad, input):
    return _hardswish_grad.call2(grad, input)


def mish_backward(grad, input):
    return _mish_grad.call2(grad, input)


def selu_backward(grad, input):
    return _selu_grad.call2(grad, input)
