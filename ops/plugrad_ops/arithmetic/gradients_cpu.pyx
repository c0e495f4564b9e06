# cython: boundscheck=False, wraparound=False
"""Backward kernels of arithmetic, exponentials and logarithms: the rules on arrays, in one pass.

Each has a loop, the same in NumPy for other dtypes (conjugates included), and the rule's names for its arguments.
"""

cimport numpy as cnp
import numpy as np

from plugrad.backends.real cimport real_type
from plugrad.backends.sums cimport summable, sums_of_products
from plugrad.graph.op cimport Kernel
from plugrad.graph.op import PlainKernel
cimport plugrad_ops.vector_logs  # its macros  # no-cython-lint
from plugrad_ops.loops cimport Binary, Unary, pg_unary_loops, unary
from plugrad_ops.nary cimport Nary, nary, pg_nary_loops

from math import log

from plugrad_ops.arithmetic import cpu

cnp.import_array()


cdef extern from *:
    """
    #define PG_LN2 ((real)0.69314718055994530942)
    #define PG_LN10 ((real)2.30258509299404568402)

    /* x / z * (y / z). Where the greater quotient overflows that is inf * 0, or too much: then it is the last to be
       formed, of a product that does not underflow. */
    #define PG_OVER_SQUARE(name, T, half)                                                   \\
        PG_INLINE T name(T x, T y, T z) {                                                   \\
            const int first = PG_F(fabs, x) > PG_F(fabs, y);                                \\
            const T most = PG_PICK(first, x, y), least = PG_PICK(first, y, x) / z;          \\
            const int over = PG_F(fabs, most) > PG_F(fabs, z) * half;                       \\
            const T found = PG_PICK(over, least * most, most) / z;                          \\
            return PG_PICK(over, found, found * least); }
    PG_OVER_SQUARE(pg_over_square, double, 0x1p1023)
    PG_OVER_SQUARE(pg_over_squaref, float, 0x1p127f)
    #define PG_DIVISOR(x, y, z) _Generic((x), float: pg_over_squaref, default: pg_over_square)(x, y, z)

    /* x: the incoming gradient; y: the output */
    PG_TWO(pg_sqrt_grad, x / (2 * y))
    PG_TWO(pg_rsqrt_grad, (real)-0.5 * x * (y * y * y))
    PG_TWO(pg_reciprocal_grad, -x * (y * y))
    PG_TWO(pg_exp2_grad, x * y * PG_LN2)
    PG_TWO(pg_expm1_grad, x * (y + 1))
    /* x: the incoming gradient; y: the input */
    PG_TWO(pg_abs_grad, y > 0 ? x : y < 0 ? -x : x * y)
    PG_TWO(pg_square_grad, 2 * x * y)
    PG_TWO(pg_cube_grad, 3 * x * (y * y))
    PG_TWO(pg_fourth_grad, 4 * x * (y * y * y))
    PG_TWO(pg_log2_grad, x / (y * PG_LN2))
    PG_TWO(pg_log10_grad, x / (y * PG_LN10))
    PG_TWO(pg_log1p_grad, x / (y + 1))
    PG_TWO(pg_erf_grad, x * PG_EXP(-(y * y)) * (real)1.12837916709551257390)
    PG_TWO(pg_erfc_grad, x * PG_EXP(-(y * y)) * (real)-1.12837916709551257390)
    /* y and z: the inputs */
    PG_THREE(pg_divisor_grad, -PG_DIVISOR(x, y, z))
    PG_THREE(pg_base_grad, x * (PG_POW(PG_PICK(z == 0, (real)1, y), z - 1) * z))
    PG_THREE(pg_exponent_grad, x * (PG_POW(y, z) * PG_LOG((y == 0) & (z >= 0) ? (real)1 : y)))
    PG_TWO(pg_logit_grad, PG_PICK((y < 0) | (y > 1), (real)NAN, x / (y * (1 - y))))
    PG_UNARY(pg_logit, PG_LOG(x / (1 - x)))
    PG_THREE(pg_product, x * y * z)
    /* y: the input; for exponents -1 and 1/2, where -0 and -infinity are what they are to any power */
    PG_TWO(pg_inverse_grad, -x / (y * y))
    PG_TWO(pg_root_grad, (real)0.5 * x * PG_PICK(y == -(real)INFINITY, (real)0, 1 / PG_F(sqrt, y + 0)))
    """
    const pg_nary_loops pg_sqrt_grad, pg_rsqrt_grad, pg_reciprocal_grad, pg_exp2_grad, pg_expm1_grad
    const pg_nary_loops pg_abs_grad, pg_square_grad, pg_cube_grad, pg_fourth_grad
    const pg_nary_loops pg_log2_grad, pg_log10_grad, pg_log1p_grad, pg_erf_grad, pg_erfc_grad
    const pg_nary_loops pg_divisor_grad, pg_base_grad, pg_exponent_grad, pg_inverse_grad, pg_root_grad
    const pg_nary_loops pg_product, pg_logit_grad
    const pg_unary_loops pg_logit


cdef enum:
    MOST_DIMS = 64


cdef inline object conj(object value):
    if cnp.PyArray_Check(value):
        return np.conjugate(value) if cnp.PyArray_ISCOMPLEX(<cnp.ndarray>value) else value
    return value.conjugate() if isinstance(value, (complex, np.complexfloating)) else value


# ---- the same in NumPy ---------------------------------------------------------------------------------------

def sqrt_grad_of(grad, out):
    return grad / (conj(out) * 2)


def rsqrt_grad_of(grad, out):
    return grad * conj(out * out * out) * -0.5


def reciprocal_grad_of(grad, out):
    return -grad * conj(out * out)


def exp2_grad_of(grad, out):
    return grad * out * log(2.0)


def expm1_grad_of(grad, out):
    return grad * (out + 1)


def abs_grad_of(grad, input):
    return grad * np.sign(input)  # of a complex number, that is the number over its size


def square_grad_of(grad, input):
    return grad * conj(input) * 2


def cube_grad_of(grad, input):
    return grad * (input * input) * 3


def fourth_grad_of(grad, input):
    return grad * (input * input * input) * 4


def log2_grad_of(grad, input):
    return grad / (input * log(2.0))


def log10_grad_of(grad, input):
    return grad / (input * log(10.0))


def log1p_grad_of(grad, input):
    return grad / (input + 1)


def erf_grad_of(grad, input):
    return grad * np.exp(-(input * input)) * 1.12837916709551257390


def erfc_grad_of(grad, input):
    return grad * np.exp(-(input * input)) * -1.12837916709551257390


def divisor_grad_of(grad, input, other):
    first, second = grad / conj(other), conj(input / other)
    found = -(first * second)
    if not np.isfinite(found).all():  # as in pg_over_square
        swapped = np.abs(first) < np.abs(second)
        most, least = np.where(swapped, conj(input), grad), np.where(swapped, first, second)
        found = np.where(np.isfinite(found), found, -(least * most) / conj(other))
    return found


def base_grad_of(grad, input, exponent):
    return grad * conj(np.where(np.equal(exponent, 0), 1, input) ** (exponent - 1) * exponent)


def logit_of(input, eps=None):
    if eps is not None:
        input = np.minimum(np.maximum(input, eps), 1 - eps)
    return np.log(input / (1 - input))


def logit_grad_of(grad, input):
    return np.where((input < 0) | (input > 1), np.nan, grad / (input * (1 - input)))


def product_of(grad, one, other):
    return grad * one * other


def inverse_grad_of(grad, input):
    return -grad / (input * input)


def root_grad_of(grad, input):
    return grad * 0.5 * input**-0.5


def exponent_grad_of(grad, input, exponent):
    base = np.asarray(input, grad.dtype)
    flat = (base == 0) & (np.real(exponent) >= 0)
    return grad * conj(base**exponent * np.log(np.where(flat, 1, base)))


# ---- kernels -------------------------------------------------------------------------------------------------

sqrt_backward = nary(sqrt_grad_of, &pg_sqrt_grad)
rsqrt_backward = nary(rsqrt_grad_of, &pg_rsqrt_grad)
reciprocal_backward = nary(reciprocal_grad_of, &pg_reciprocal_grad)
exp2_backward = nary(exp2_grad_of, &pg_exp2_grad)
expm1_backward = nary(expm1_grad_of, &pg_expm1_grad)
abs_backward = nary(abs_grad_of, &pg_abs_grad)
square_backward = nary(square_grad_of, &pg_square_grad)
log2_backward = nary(log2_grad_of, &pg_log2_grad)
log10_backward = nary(log10_grad_of, &pg_log10_grad)
log1p_backward = nary(log1p_grad_of, &pg_log1p_grad)
erf_backward = nary(erf_grad_of, &pg_erf_grad)
erfc_backward = nary(erfc_grad_of, &pg_erfc_grad)

cdef Unary _logit = unary(logit_of, &pg_logit)
cdef Nary _logit_grad = nary(logit_grad_of, &pg_logit_grad)
product = nary(product_of, &pg_product)

cdef Nary _product = product
cdef Kernel _power = cpu.power
cdef Binary _mul = cpu.mul
cdef Binary _div = cpu.div
cdef Nary _square_grad = square_backward
cdef Nary _cube_grad = nary(cube_grad_of, &pg_cube_grad)
cdef Nary _fourth_grad = nary(fourth_grad_of, &pg_fourth_grad)
divisor_gradient = nary(divisor_grad_of, &pg_divisor_grad)
cdef Nary _divisor_grad = divisor_gradient
cdef Nary _inverse_grad = nary(inverse_grad_of, &pg_inverse_grad)
cdef Nary _root_grad = nary(root_grad_of, &pg_root_grad)
cdef Nary _base_grad = nary(base_grad_of, &pg_base_grad)
cdef Nary _exponent_grad = nary(exponent_grad_of, &pg_exponent_grad)


def _mul_backward(grad, input, other, needs):
    return (
        _mul.call2(grad, conj(other)) if (<tuple>needs)[0] else None,
        to_factor(grad, input, other) if (<tuple>needs)[1] else None,
    )


cdef object to_factor(object grad, object input, object factor):
    """The gradient of a factor; of one that is smaller than the product, as a row, summed at once to its shape."""
    cdef int number = real_type(grad)
    cdef object found = None
    if number >= 0 and real_type(input) == number and real_type(factor) == number:
        found = summed_product(grad, input, factor)
    return _mul.call2(grad, conj(input)) if found is None else found


cdef object summed_product(cnp.ndarray grad, cnp.ndarray input, cnp.ndarray factor):
    """None where the product is not summed, or not that simply."""
    cdef int nd = cnp.PyArray_NDIM(grad), missing = nd - cnp.PyArray_NDIM(factor), d
    cdef bint[MOST_DIMS] summed
    cdef object found
    if (
        cnp.PyArray_SIZE(factor) >= cnp.PyArray_SIZE(grad) or missing < 0 or cnp.PyArray_NDIM(input) != nd
        or not summable(grad) or not summable(input)
    ):
        return None
    for d in range(nd):
        if cnp.PyArray_DIM(input, d) != cnp.PyArray_DIM(grad, d):
            return None
        summed[d] = d < missing or cnp.PyArray_DIM(factor, d - missing) != cnp.PyArray_DIM(grad, d)
    found = sums_of_products(grad, input, summed)
    return found if found is None or missing == 0 else found.reshape((<object>factor).shape)


def _div_backward(grad, input, other, needs):
    return (
        _div.call2(grad, conj(other)) if (<tuple>needs)[0] else None,
        _divisor_grad.call((grad, input, other), ()) if (<tuple>needs)[1] else None,
    )


def _pow_backward(grad, input, exponent, needs):
    return (
        to_base(grad, input, exponent) if (<tuple>needs)[0] else None,
        to_exponent(grad, input, exponent) if (<tuple>needs)[1] else None,
    )


cdef object to_base(object grad, object base, object exponent):
    if not isinstance(exponent, (int, float)):
        return _base_grad.call((grad, base, exponent), ())
    if exponent == 0:
        return np.zeros_like(grad)
    if exponent == 1:
        return grad
    if exponent == 2:
        return _square_grad.call2(grad, base)
    if grad.dtype.kind == "f":
        if exponent == 3:
            return _cube_grad.call2(grad, base)
        if exponent == 4:
            return _fourth_grad.call2(grad, base)
        if exponent == -1:
            return _inverse_grad.call2(grad, base)
        if exponent == 0.5:
            return _root_grad.call2(grad, base)
    return _product.call((grad, conj(_power.call2(base, exponent - 1)), exponent), ())


cdef object to_exponent(object grad, object base, object exponent):
    if isinstance(base, (int, float)) and base > 0 and grad.dtype.kind == "f":
        return _product.call((grad, _power.call2(base, exponent), log(base)), ())
    return _exponent_grad.call((grad, base, exponent), ())


cdef class Logit(Kernel):
    """With bounds, by NumPy."""

    cdef object call(self, tuple args, tuple kwnames):
        return _logit.call1(args[0]) if args[1] is None else _logit.otherwise.call(args, ())


logit = Logit(logit_of)


def logit_backward(grad, input, eps):
    if eps is None:
        return _logit_grad.call2(grad, input)
    inside = (input > eps) & (input < 1 - eps)
    safe = np.where(inside, input, 0.5)
    return np.where(inside, grad / (safe * (1 - safe)), 0)


mul_backward = PlainKernel(_mul_backward)
div_backward = PlainKernel(_div_backward)
pow_backward = PlainKernel(_pow_backward)
