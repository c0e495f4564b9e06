# cython: boundscheck=False, wraparound=False
"""CPU kernels of trigonometric and hyperbolic functions and their inverses, and of lengths; see cpu.pyx."""

cimport numpy as cnp
import numpy as np

from plugrad.graph.op import PlainKernel
cimport plugrad_ops.vector_angles  # its macros  # no-cython-lint
cimport plugrad_ops.vector_logs  # its macros  # no-cython-lint
from plugrad_ops.loops cimport pg_unary_loops, unary
from plugrad_ops.nary cimport Nary, nary, pg_nary_loops

cnp.import_array()


cdef extern from *:
    """
    PG_ANGLE(pg_sin_loops, PG_SIN(x), PG_F(sin, x))
    PG_ANGLE(pg_cos_loops, PG_COS(x), PG_F(cos, x))
    PG_ANGLE(pg_tan_loops, pg_tan(x), PG_F(tan, x))
    PG_UNARY(pg_asin_loops, pg_asin(x))
    PG_UNARY(pg_acos_loops, pg_acos(x))
    PG_UNARY(pg_atan_loops, pg_atan(x))
    PG_UNARY(pg_sinh_loops, PG_F(pg_sinh, x))
    PG_UNARY(pg_cosh_loops, PG_F(pg_cosh, x))
    PG_UNARY(pg_asinh_loops, pg_asinh(x))
    PG_UNARY(pg_acosh_loops, pg_acosh(x))
    PG_UNARY(pg_atanh_loops, pg_atanh(x))
    PG_TWO(pg_atan2_loops, pg_atan2(x, y))
    PG_TWO(pg_hypot_loops, PG_HYPOT(x, y))

    /* x: the incoming gradient; y: the input, of tan the output */
    PG_TWO_GUARDED(pg_sin_grad, PG_F(fabs, y) <= (real)PG_TURNS, x * PG_COS(y), x * PG_F(cos, y))
    PG_TWO_GUARDED(pg_cos_grad, PG_F(fabs, y) <= (real)PG_TURNS, -x * PG_SIN(y), -x * PG_F(sin, y))
    PG_TWO(pg_tan_grad, x * (y * y + 1))
    PG_TWO(pg_asin_grad, x / PG_F(sqrt, (1 - y) * (1 + y)))
    PG_TWO(pg_acos_grad, -x / PG_F(sqrt, (1 - y) * (1 + y)))
    PG_TWO(pg_atan_grad, x / (y * y + 1))
    PG_TWO(pg_asinh_grad, x / PG_HYPOT(y, (real)1))
    PG_TWO(pg_acosh_grad, x / (PG_F(sqrt, y - 1) * PG_F(sqrt, y + 1)))
    PG_TWO(pg_atanh_grad, x / ((1 - y) * (1 + y)))
    /* x: the incoming gradient; y: one component; z: the length, or the other component */
    PG_THREE(pg_hypot_grad, z == 0 ? 0 : x * (y / z))
    PG_THREE(pg_turn, y == 0 && z == 0 ? 0 : x / PG_HYPOT(y, z) * (y / PG_HYPOT(y, z)))
    PG_THREE(pg_turn_back, y == 0 && z == 0 ? 0 : -x / PG_HYPOT(y, z) * (y / PG_HYPOT(y, z)))
    """
    const pg_unary_loops pg_sin_loops, pg_cos_loops, pg_tan_loops, pg_asin_loops, pg_acos_loops, pg_atan_loops
    const pg_unary_loops pg_sinh_loops, pg_cosh_loops, pg_asinh_loops, pg_acosh_loops, pg_atanh_loops
    const pg_nary_loops pg_atan2_loops, pg_hypot_loops, pg_sin_grad, pg_cos_grad, pg_tan_grad
    const pg_nary_loops pg_asin_grad, pg_acos_grad, pg_atan_grad, pg_asinh_grad, pg_acosh_grad, pg_atanh_grad
    const pg_nary_loops pg_hypot_grad, pg_turn, pg_turn_back


cdef inline object conj(object value):
    return np.conjugate(value) if value.dtype.kind == "c" else value


# ---- backward kernels in NumPy -------------------------------------------------------------------------------

def sin_grad_of(grad, input):
    return grad * conj(np.cos(input))


def cos_grad_of(grad, input):
    return -grad * conj(np.sin(input))


def tan_grad_of(grad, out):
    return grad * conj(out * out + 1)


def asin_grad_of(grad, input):
    return grad / np.sqrt((1 - input) * (1 + input))


def acos_grad_of(grad, input):
    return -grad / np.sqrt((1 - input) * (1 + input))


def atan_grad_of(grad, input):
    return grad / (input * input + 1)


def asinh_grad_of(grad, input):
    return grad / np.hypot(input, 1)


def acosh_grad_of(grad, input):
    return grad / (np.sqrt(input - 1) * np.sqrt(input + 1))


def atanh_grad_of(grad, input):
    return grad / ((1 - input) * (1 + input))


def hypot_grad_of(grad, input, out):
    zero = out == 0
    return np.where(zero, 0, grad) * (input / np.where(zero, 1, out))


def turn_of(grad, input, other):
    length = np.hypot(input, other)
    zero = length == 0
    length = np.where(zero, 1, length)
    return np.where(zero, 0, grad) / length * (input / length)


def turn_back_of(grad, input, other):
    return turn_of(-grad, input, other)


# ---- kernels -------------------------------------------------------------------------------------------------

sin = unary(np.sin, &pg_sin_loops)
cos = unary(np.cos, &pg_cos_loops)
tan = unary(np.tan, &pg_tan_loops)
asin = unary(np.arcsin, &pg_asin_loops)
acos = unary(np.arccos, &pg_acos_loops)
atan = unary(np.arctan, &pg_atan_loops)
sinh = unary(np.sinh, &pg_sinh_loops)
cosh = unary(np.cosh, &pg_cosh_loops)
asinh = unary(np.arcsinh, &pg_asinh_loops)
acosh = unary(np.arccosh, &pg_acosh_loops)
atanh = unary(np.arctanh, &pg_atanh_loops)
atan2 = nary(np.arctan2, &pg_atan2_loops)
hypot = nary(np.hypot, &pg_hypot_loops)

sin_backward = nary(sin_grad_of, &pg_sin_grad)
cos_backward = nary(cos_grad_of, &pg_cos_grad)
tan_backward = nary(tan_grad_of, &pg_tan_grad)
asin_backward = nary(asin_grad_of, &pg_asin_grad)
acos_backward = nary(acos_grad_of, &pg_acos_grad)
atan_backward = nary(atan_grad_of, &pg_atan_grad)
asinh_backward = nary(asinh_grad_of, &pg_asinh_grad)
acosh_backward = nary(acosh_grad_of, &pg_acosh_grad)
atanh_backward = nary(atanh_grad_of, &pg_atanh_grad)

cdef Nary _hypot_grad = nary(hypot_grad_of, &pg_hypot_grad)
cdef Nary _turn = nary(turn_of, &pg_turn)
cdef Nary _turn_back = nary(turn_back_of, &pg_turn_back)


def _hypot_backward(grad, input, other, out, needs):
    return (
        _hypot_grad.call((grad, input, out), ()) if (<tuple>needs)[0] else None,
        _hypot_grad.call((grad, other, out), ()) if (<tuple>needs)[1] else None,
    )


def _atan2_backward(grad, input, other, needs):
    return (
        _turn.call((grad, other, input), ()) if (<tuple>needs)[0] else None,
        _turn_back.call((grad, input, other), ()) if (<tuple>needs)[1] else None,
    )


hypot_backward = PlainKernel(_hypot_backward)
atan2_backward = PlainKernel(_atan2_backward)
