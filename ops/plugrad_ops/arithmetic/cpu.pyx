# cython: boundscheck=False, wraparound=False
"""CPU kernels of the arithmetic family: one line a loop, one line a kernel.

Functions of the C library serve short arrays only (see `plugrad_ops.loops`, note c).
"""

cimport numpy as cnp
import numpy as np

from plugrad.graph.op cimport Kernel
from plugrad.graph.op import PlainKernel
cimport plugrad_ops.vector_math  # its macros  # no-cython-lint
from plugrad_ops.loops cimport Binary, Unary, binary, pg_binary_loops, pg_unary_loops, unary

from plugrad.backends import CPU

cnp.import_array()


cdef extern from *:
    """
    PG_BINARY(pg_add, x + y)
    PG_BINARY(pg_sub, x - y)
    PG_BINARY(pg_mul, x * y)
    PG_BINARY(pg_div, x / y)
    PG_BINARY(pg_maximum, (x >= y || x != x) ? x : y)   /* NaN if either is NaN, as NumPy */
    PG_BINARY(pg_minimum, (x <= y || x != x) ? x : y)
    PG_COMPARE(pg_eq, x == y)
    PG_COMPARE(pg_ne, x != y)
    PG_COMPARE(pg_lt, x < y)
    PG_COMPARE(pg_le, x <= y)
    PG_COMPARE(pg_gt, x > y)
    PG_COMPARE(pg_ge, x >= y)

    PG_UNARY(pg_neg, -x)
    PG_UNARY(pg_abs, PG_F(fabs, x))
    PG_UNARY(pg_square, x * x)
    PG_UNARY(pg_reciprocal, 1 / x)
    PG_UNARY(pg_sqrt, PG_F(sqrt, x))
    PG_UNARY(pg_rsqrt, 1 / PG_F(sqrt, x))
    PG_UNARY(pg_exp_loops, PG_EXP(x))
    PG_UNARY(pg_exp2, PG_F(exp2, x))
    PG_UNARY(pg_expm1, PG_F(expm1, x))
    PG_UNARY(pg_log, PG_F(log, x))
    PG_UNARY(pg_log2, PG_F(log2, x))
    PG_UNARY(pg_log10, PG_F(log10, x))
    PG_UNARY(pg_log1p, PG_F(log1p, x))
    PG_UNARY(pg_sin, PG_F(sin, x))
    PG_UNARY(pg_cos, PG_F(cos, x))
    PG_UNARY(pg_erf_loops, PG_ERF(x))
    PG_UNARY(pg_erfc_loops, PG_ERFC(x))
    """
    const pg_binary_loops pg_add, pg_sub, pg_mul, pg_div, pg_maximum, pg_minimum
    const pg_binary_loops pg_eq, pg_ne, pg_lt, pg_le, pg_gt, pg_ge
    const pg_unary_loops pg_neg, pg_abs, pg_square, pg_reciprocal, pg_sqrt, pg_rsqrt
    const pg_unary_loops pg_exp_loops, pg_exp2, pg_expm1, pg_log, pg_log2, pg_log10, pg_log1p, pg_sin, pg_cos
    const pg_unary_loops pg_erf_loops, pg_erfc_loops


cdef enum:
    SHORT = 64


def reciprocal_sqrt(a):
    """1 / sqrt(a)."""
    return np.reciprocal(np.sqrt(a))


def erf_of(a):
    """The error function of an array of any floating dtype and layout, in at least float32."""
    return _by_loop(np.asarray(a), &pg_erf_loops)


def erfc_of(a):
    """1 - erf(a), without the cancellation."""
    return _by_loop(np.asarray(a), &pg_erfc_loops)


cdef object _by_loop(cnp.ndarray a, const pg_unary_loops *loops):
    narrow = a.dtype == np.float16 or a.dtype == np.float32
    cdef cnp.ndarray x = np.asarray(a, dtype=np.float32 if narrow else np.float64, order="C")
    cdef cnp.ndarray out = np.empty_like(x)
    cdef Py_ssize_t n = cnp.PyArray_SIZE(x)
    cdef int kind = 0 if narrow else 1
    with nogil:
        loops.of[kind](cnp.PyArray_DATA(x), cnp.PyArray_DATA(out), n)
    return out.astype(a.dtype, copy=False)


cdef class Pow(Kernel):
    """Powers; 2, 3 and one half need no call of the C library for every element."""

    cdef Kernel otherwise

    def __init__(self, function):
        super().__init__(function)
        self.otherwise = CPU.kernel(function)

    cdef object call2(self, object a, object b):
        if isinstance(b, (int, float)) and isinstance(a, np.ndarray) and a.dtype.kind == "f":
            if b == 2:
                return (<Unary>square).call1(a)
            if b == 3:
                return (<Binary>mul).call2((<Unary>square).call1(a), a)
            if b == 0.5:
                return (<Unary>sqrt).call1(a)
        return self.otherwise.call2(a, b)

    cdef object call(self, tuple args, tuple kwnames):
        return self.call2(args[0], args[1])


add = binary(np.add, &pg_add)
sub = binary(np.subtract, &pg_sub)
mul = binary(np.multiply, &pg_mul)
div = binary(np.true_divide, &pg_div)
maximum = binary(np.maximum, &pg_maximum)
minimum = binary(np.minimum, &pg_minimum)
eq = binary(np.equal, &pg_eq, cnp.NPY_BOOL)
ne = binary(np.not_equal, &pg_ne, cnp.NPY_BOOL)
lt = binary(np.less, &pg_lt, cnp.NPY_BOOL)
le = binary(np.less_equal, &pg_le, cnp.NPY_BOOL)
gt = binary(np.greater, &pg_gt, cnp.NPY_BOOL)
ge = binary(np.greater_equal, &pg_ge, cnp.NPY_BOOL)

neg = unary(np.negative, &pg_neg)
absolute = unary(np.absolute, &pg_abs)
square = unary(np.square, &pg_square)
reciprocal = unary(np.reciprocal, &pg_reciprocal)
sqrt = unary(np.sqrt, &pg_sqrt)
pow = Pow(np.power)
rsqrt = unary(reciprocal_sqrt, &pg_rsqrt)
exp = unary(np.exp, &pg_exp_loops)
exp2 = unary(np.exp2, &pg_exp2, SHORT)
expm1 = unary(np.expm1, &pg_expm1, SHORT)
log = unary(np.log, &pg_log, SHORT)
log2 = unary(np.log2, &pg_log2, SHORT)
log10 = unary(np.log10, &pg_log10, SHORT)
log1p = unary(np.log1p, &pg_log1p, SHORT)
sin = unary(np.sin, &pg_sin, SHORT)
cos = unary(np.cos, &pg_cos, SHORT)
erf = unary(erf_of, &pg_erf_loops)
erfc = unary(erfc_of, &pg_erfc_loops)


# ---- backward kernels: the rules of `rules.pyx` on arrays, without a Tensor around each --------------------------

cdef Binary _product = mul


def _mul_backward(grad, input, other, needs):
    return (
        _product.call2(grad, _conj(other)) if (<tuple>needs)[0] else None,
        _product.call2(grad, _conj(input)) if (<tuple>needs)[1] else None,
    )


cdef inline object _conj(object value):
    if cnp.PyArray_Check(value):
        return np.conjugate(value) if cnp.PyArray_ISCOMPLEX(<cnp.ndarray>value) else value
    return value.conjugate() if isinstance(value, complex) else value


mul_backward = PlainKernel(_mul_backward)
