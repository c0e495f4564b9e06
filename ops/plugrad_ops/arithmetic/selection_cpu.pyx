# cython: boundscheck=False, wraparound=False
"""CPU kernels that choose between operands, mix them, or divide with a remainder; see cpu.pyx.

(a) Remainders: with q = trunc(x / y), x - q*y is exact by fma(), and at most one y on the wrong side of 0 where x / y
    was rounded up to q. That needs a quotient below 2**53 (of floats, computed in double, 2**29); blocks with a greater
    one, or with a divisor that is 0 or not finite, go to the C library.
"""

cimport numpy as cnp
import numpy as np

from plugrad.graph.op cimport Kernel
from plugrad.graph.op import PlainKernel
cimport plugrad_ops.vector_logs  # its macros  # no-cython-lint
from plugrad_ops.loops cimport Binary
from plugrad_ops.nary cimport Nary, nary, pg_nary_loops

from plugrad_ops.arithmetic import cpu, gradients_cpu

cnp.import_array()


cdef extern from *:
    """
    #define PG_MAX(a, b) PG_PICK(((a) >= (b)) | ((a) != (a)), a, b)      /* NaN if either is NaN */
    #define PG_MIN(a, b) PG_PICK(((a) <= (b)) | ((a) != (a)), a, b)
    #define PG_SIGMOID(v) (((v) >= 0 ? 1 : PG_F(pg_decay, v)) / (1 + PG_F(pg_decay, v)))
    #define PG_QUOTIENTS _Generic((real)0, float: 536870912.0f, default: 9007199254740992.0)
    #define PG_FITS (PG_F(fabs, x / y) < PG_QUOTIENTS && PG_F(fabs, y) < (real)INFINITY)
    #define PG_FMOD(x, y) _Generic((x), float: pg_fmodf, default: pg_fmod)(x, y)

    PG_INLINE double pg_fmod(double x, double y) {
        const double a = fabs(x), b = fabs(y), rest = fma(-trunc(a / b), b, a);
        return copysign(rest < 0 ? rest + b : rest, x);
    }

    PG_INLINE double pg_fmodf(double x, double y) {
        const double a = fabs(x), b = fabs(y), rest = a - trunc(a / b) * b;
        return copysign(rest < 0 ? rest + b : rest, x);
    }

    /* From the remainder with the sign of x: that with the sign of y, and the quotient rounded down. */
    PG_INLINE double pg_remainder_of(double rest, double y) {
        return rest == 0 ? copysign(0.0, y) : (rest < 0) != (y < 0) ? rest + y : rest;
    }

    PG_INLINE double pg_floored_of(double rest, double x, double y) {
        const double whole = (x - rest) / y, down = whole - (rest != 0 && (rest < 0) != (y < 0) ? 1 : 0);
        const double out = floor(down) + (down - floor(down) > 0.5 ? 1 : 0);
        return y == 0 ? x / y : out == 0 ? copysign(0.0, x / y) : out;
    }

    PG_TWO_GUARDED(pg_fmod_loops, PG_FITS, PG_FMOD(x, y), fmod(x, y))
    PG_TWO_GUARDED(pg_remainder, PG_FITS, pg_remainder_of(PG_FMOD(x, y), y), pg_remainder_of(fmod(x, y), y))
    PG_TWO_GUARDED(pg_floor_divide, PG_FITS, pg_floored_of(PG_FMOD(x, y), x, y), pg_floored_of(fmod(x, y), x, y))
    PG_TWO(pg_logaddexp, x == y ? x + (real)0.69314718055994530942
                                : PG_MAX(x, y) + PG_F(pg_log1p_unit, PG_F(pg_decay, x - y)))
    PG_THREE(pg_clamp, PG_MIN(PG_MAX(x, y), z))
    PG_THREE(pg_lerp, PG_F(fabs, z) < (real)0.5 ? x + z * (y - x) : y - (y - x) * (1 - z))
    PG_FOUR(pg_addcmul, x + w * y * z)
    PG_CHOICE(pg_where, x ? y : z)

    /* x: the incoming gradient; y and z: the operands. Of equal ones each has half. */
    PG_THREE(pg_shared, y > z ? x : y < z ? 0 : x * (real)0.5)
    PG_THREE(pg_won, y > z ? x : 0)
    PG_FOUR(pg_clamp_grad, y > z && y < w ? x : 0)
    PG_THREE(pg_truncated_grad, -x * PG_F(trunc, y / z))
    PG_THREE(pg_times_step, x * (z - y))
    PG_FOUR(pg_logaddexp_grad, w == -(real)INFINITY ? 0 : x * PG_SIGMOID(y == z ? 0 : y - z))
    """
    const pg_nary_loops pg_fmod_loops, pg_remainder, pg_floor_divide, pg_logaddexp, pg_clamp, pg_lerp, pg_addcmul
    const pg_nary_loops pg_where, pg_shared, pg_won, pg_clamp_grad, pg_truncated_grad, pg_times_step
    const pg_nary_loops pg_logaddexp_grad


# ---- the same in NumPy ---------------------------------------------------------------------------------------

def floor_divide_of(input, other):
    refuse_zero("floor_divide", input, other)
    return np.floor_divide(input, other)


def remainder_of(input, other):
    refuse_zero("remainder", input, other)
    return np.remainder(input, other)


def fmod_of(input, other):
    refuse_zero("fmod", input, other)
    return np.fmod(input, other)


cdef int refuse_zero(str name, object input, object other) except -1:
    """Integers have no infinity: NumPy's 0 for x // 0 would be a silent wrong number."""
    integers = np.asarray(input).dtype.kind in "bui" and np.asarray(other).dtype.kind in "bui"
    if integers and not np.all(other):
        raise ZeroDivisionError(f"{name}: an integer tensor is divided by 0")
    return 0


def clamp_of(input, low, high):
    return np.minimum(np.maximum(input, low), high)


def lerp_of(input, end, weight):
    # From the nearer end, so that both are met exactly.
    step = np.subtract(end, input)
    if isinstance(weight, (int, float)):
        return input + weight * step if abs(weight) < 0.5 else end - step * (1.0 - weight)
    near = np.abs(weight) < 0.5
    out = np.where(near, input + weight * step, end - step * (1.0 - weight))
    return out.astype(step.dtype, copy=False)


def addcmul_of(input, tensor1, tensor2, value):
    if isinstance(value, float) and np.result_type(input, tensor1, tensor2).kind in "bui":
        raise RuntimeError(f"addcmul: value must be an integer where the tensors are, got {value!r}")
    return input + tensor1 * tensor2 * value


def shared_of(grad, input, other):
    return np.where(input > other, grad, np.where(input < other, 0, grad * 0.5))


def won_of(grad, input, other):
    return np.where(input > other, grad, 0)


def clamp_grad_of(grad, input, low, high):
    return np.where((input > low) & (input < high), grad, 0)


def truncated_grad_of(grad, input, other):
    return -grad * np.trunc(input / other)


def times_step_of(grad, input, end):
    return grad * (end - input)


def logaddexp_grad_of(grad, input, other, out):
    ahead = np.where(input == other, 0, np.subtract(input, other))
    decay = np.exp(-np.abs(ahead))
    share = np.where(ahead >= 0, 1, decay) / (1 + decay)
    return np.where(out == -np.inf, 0, grad) * share


# ---- kernels -------------------------------------------------------------------------------------------------

where = nary(np.where, &pg_where)
lerp = nary(lerp_of, &pg_lerp)
addcmul = nary(addcmul_of, &pg_addcmul)
fmod = nary(fmod_of, &pg_fmod_loops)
remainder = nary(remainder_of, &pg_remainder)
floor_divide = nary(floor_divide_of, &pg_floor_divide)
logaddexp = nary(np.logaddexp, &pg_logaddexp)

cdef Binary _maximum = cpu.maximum
cdef Binary _minimum = cpu.minimum
cdef Binary _mul = cpu.mul
cdef Nary _where = where
cdef Nary _floor_divide = floor_divide
cdef Nary _clamp = nary(clamp_of, &pg_clamp)
cdef Nary _shared = nary(shared_of, &pg_shared)
cdef Nary _won = nary(won_of, &pg_won)
cdef Nary _clamp_grad = nary(clamp_grad_of, &pg_clamp_grad)
cdef Nary _truncated_grad = nary(truncated_grad_of, &pg_truncated_grad)
cdef Nary _product = gradients_cpu.product
cdef Nary _times_step = nary(times_step_of, &pg_times_step)
cdef Nary _logaddexp_grad = nary(logaddexp_grad_of, &pg_logaddexp_grad)


cdef class Clamp(Kernel):
    """Between bounds of which one may be missing."""

    cdef object call(self, tuple args, tuple kwnames):
        input, low, high = args
        if low is None and high is None:
            raise ValueError("clamp: give min, max or both; got neither")
        if high is None:
            return _maximum.call2(input, low)
        if low is None:
            return _minimum.call2(input, high)
        return _clamp.call(args, ())


clamp = Clamp(clamp_of)


# ---- backward ------------------------------------------------------------------------------------------------

cdef inline bint is_number(object value):
    return isinstance(value, (int, float))


cdef tuple share(object grad, object input, object other, bint larger, bint to_input, bint to_other):
    """Gradients of the larger, or the smaller, of two operands; see `_share` in selection.py."""
    cdef Nary loop = _won if is_number(other) or is_number(input) else _shared
    cdef object more = input if larger else other, less = other if larger else input
    return (
        loop.call((grad, more, less), ()) if to_input and not is_number(input) else None,
        loop.call((grad, less, more), ()) if to_other and not is_number(other) else None,
    )


def _maximum_backward(grad, input, other, needs):
    return share(grad, input, other, True, (<tuple>needs)[0], (<tuple>needs)[1])


def _minimum_backward(grad, input, other, needs):
    return share(grad, input, other, False, (<tuple>needs)[0], (<tuple>needs)[1])


def _clamp_backward(grad, input, min, max):
    cdef object to_min = None, to_max = None
    if is_number(min) and is_number(max):
        return _clamp_grad.call((grad, input, min, max), ()), None, None
    if max is not None:
        raised = input if min is None else _maximum.call2(input, min)
        grad, to_max = share(grad, raised, max, False, True, True)
    if min is not None:
        grad, to_min = share(grad, input, min, True, True, True)
    return grad, to_min, to_max


def _where_backward(grad, condition, needs):
    return (
        None,
        _where.call((condition, grad, 0.0), ()) if (<tuple>needs)[1] else None,
        _where.call((condition, 0.0, grad), ()) if (<tuple>needs)[2] else None,
    )


def _lerp_backward(grad, input, end, weight, needs):
    return (
        _lerp_input(grad, weight) if (<tuple>needs)[0] else None,
        _mul.call2(grad, weight) if (<tuple>needs)[1] else None,
        _times_step.call((grad, input, end), ()) if (<tuple>needs)[2] else None,
    )


cdef object _lerp_input(object grad, object weight):
    return _mul.call2(grad, 1.0 - weight) if is_number(weight) else _times_step.call((grad, weight, 1.0), ())


def _addcmul_backward(grad, tensor1, tensor2, value, needs):
    return (
        grad,
        _product.call((grad, conj(tensor2), value), ()) if (<tuple>needs)[1] else None,
        _product.call((grad, conj(tensor1), value), ()) if (<tuple>needs)[2] else None,
    )


cdef inline object conj(object value):
    return value.conjugate() if getattr(value, "dtype", np.dtype(float)).kind == "c" else value


def _fmod_backward(grad, input, other, needs):
    return grad, _truncated_grad.call((grad, input, other), ()) if (<tuple>needs)[1] else None


def _remainder_backward(grad, input, other, needs):
    if not (<tuple>needs)[1]:
        return grad, None
    return grad, _product.call((grad, _floor_divide.call2(input, other), -1.0), ())


def _logaddexp_backward(grad, input, other, out, needs):
    return (
        _logaddexp_grad.call((grad, input, other, out), ()) if (<tuple>needs)[0] else None,
        _logaddexp_grad.call((grad, other, input, out), ()) if (<tuple>needs)[1] else None,
    )


maximum_backward = PlainKernel(_maximum_backward)
minimum_backward = PlainKernel(_minimum_backward)
clamp_backward = PlainKernel(_clamp_backward)
where_backward = PlainKernel(_where_backward)
lerp_backward = PlainKernel(_lerp_backward)
addcmul_backward = PlainKernel(_addcmul_backward)
fmod_backward = PlainKernel(_fmod_backward)
remainder_backward = PlainKernel(_remainder_backward)
logaddexp_backward = PlainKernel(_logaddexp_backward)
