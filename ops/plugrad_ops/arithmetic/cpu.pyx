# cython: boundscheck=False, wraparound=False
"""CPU kernels of the arithmetic family: one line a loop, one line a kernel."""

cimport numpy as cnp
import numpy as np

from plugrad.graph.op cimport Kernel
cimport plugrad_ops.vector_logs  # its macros  # no-cython-lint
from plugrad_ops.loops cimport Binary, Unary, binary, pg_binary_loops, pg_unary_loops, unary
from plugrad_ops.nary cimport Nary, nary, pg_nary_loops

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
    PG_UNARY(pg_exp2_loops, PG_EXP2(x))
    PG_UNARY(pg_expm1_loops, PG_EXPM1(x))
    PG_UNARY(pg_log_loops, PG_LOG(x))
    PG_UNARY(pg_log2_loops, PG_LOG2(x))
    PG_UNARY(pg_log10_loops, PG_LOG10(x))
    PG_UNARY(pg_log1p_loops, PG_LOG1P(x))
    PG_UNARY(pg_sign, x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x)
    PG_UNARY(pg_floor, PG_F(floor, x))
    PG_UNARY(pg_ceil, PG_F(ceil, x))
    PG_UNARY(pg_trunc, PG_F(trunc, x))
    PG_UNARY(pg_rint, PG_F(rint, x))
    PG_UNARY(pg_frac, x - PG_F(trunc, x))
    PG_UNARY(pg_erf_loops, PG_ERF(x))
    PG_UNARY(pg_erfc_loops, PG_ERFC(x))
    PG_TWO_GUARDED(pg_pow_loops, x > 0 && x < (real)INFINITY && PG_F(fabs, y) < (real)INFINITY,
        PG_POW_OF(x, y), PG_POW(x, y))
    """
    const pg_binary_loops pg_add, pg_sub, pg_mul, pg_div, pg_maximum, pg_minimum
    const pg_binary_loops pg_eq, pg_ne, pg_lt, pg_le, pg_gt, pg_ge
    const pg_unary_loops pg_neg, pg_abs, pg_square, pg_reciprocal, pg_sqrt, pg_rsqrt
    const pg_unary_loops pg_exp_loops, pg_exp2_loops, pg_expm1_loops
    const pg_unary_loops pg_log_loops, pg_log2_loops, pg_log10_loops, pg_log1p_loops
    const pg_unary_loops pg_sign, pg_floor, pg_ceil, pg_trunc, pg_rint, pg_frac, pg_erf_loops, pg_erfc_loops
    const pg_nary_loops pg_pow_loops


def reciprocal_sqrt(a):
    """1 / sqrt(a)."""
    return np.reciprocal(np.sqrt(a))


cdef object whole(object round_floats, object a):
    """Rounded; integers and bools are whole already."""
    return round_floats(a) if a.dtype.kind == "f" else a.copy()


def floor_of(a):
    return whole(np.floor, a)


def ceil_of(a):
    return whole(np.ceil, a)


def trunc_of(a):
    return whole(np.trunc, a)


def rint_of(a):
    return whole(np.rint, a)


def round_of(a, decimals):
    """To the nearest multiple of ``10**-decimals``, ties to even."""
    return np.round(a, decimals) if a.dtype.kind == "f" else a.copy()


def frac_of(a):
    """What truncation leaves out."""
    return a - np.trunc(a)


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
    """Powers; a few are shorter to compute than a power."""

    cdef object call2(self, object a, object b):
        if isinstance(b, (int, float)) and isinstance(a, np.ndarray) and a.dtype.kind == "f":
            if b == 2:
                return (<Unary>square).call1(a)
            if b == 3:
                return (<Binary>mul).call2((<Unary>square).call1(a), a)
            if b == 4:
                return (<Unary>square).call1((<Unary>square).call1(a))
            if b == 0.5:
                return (<Unary>sqrt).call1(a)
            if b == -1:
                return (<Unary>reciprocal).call1(a)
        return (<Nary>power).call2(a, b)

    cdef object call(self, tuple args, tuple kwnames):
        return self.call2(args[0], args[1])


cdef class Round(Kernel):
    """To a number of decimals; to none, by a loop."""

    cdef Kernel otherwise

    def __init__(self, function):
        super().__init__(function)
        self.otherwise = CPU.kernel(function)

    cdef object call(self, tuple args, tuple kwnames):
        return (<Unary>rint).call1(args[0]) if args[1] == 0 else self.otherwise.call(args, ())


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
power = nary(np.power, &pg_pow_loops)
pow = Pow(np.power)
rsqrt = unary(reciprocal_sqrt, &pg_rsqrt)
exp = unary(np.exp, &pg_exp_loops)
exp2 = unary(np.exp2, &pg_exp2_loops)
expm1 = unary(np.expm1, &pg_expm1_loops)
log = unary(np.log, &pg_log_loops)
log2 = unary(np.log2, &pg_log2_loops)
log10 = unary(np.log10, &pg_log10_loops)
log1p = unary(np.log1p, &pg_log1p_loops)
sign = unary(np.sign, &pg_sign)
floor = unary(floor_of, &pg_floor)
ceil = unary(ceil_of, &pg_ceil)
trunc = unary(trunc_of, &pg_trunc)
rint = unary(rint_of, &pg_rint)
round = Round(round_of)
frac = unary(frac_of, &pg_frac)
erf = unary(erf_of, &pg_erf_loops)
erfc = unary(erfc_of, &pg_erfc_loops)
