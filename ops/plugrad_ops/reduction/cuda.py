"""CUDA launchers of the reduction family: what each operator accumulates, as expressions.

(a) float16 is accumulated in float32, integers in 64 bits. Every result has a fixed order of combination, so the same
    input gives the same bits.
(b) Variance takes two passes, as on the CPU: a large mean costs no digits. So do norms whose powers could leave the range.
(c) An empty tuple of dimensions means all of them.
"""

from __future__ import annotations

import math

import numpy as np

from plugrad.backends.cuda import layout
from plugrad.backends.cuda.array import as_strided, copy_into, empty
from plugrad.backends.cuda.elementwise import COPY
from plugrad.backends.cuda.reduction import SUM, Reduction
from plugrad.backends.cuda.scan import CUMPROD, CUMSUM, LINEAR_SCAN, Scan
from plugrad.backends.dtypes import wide
from plugrad_ops.expressions import kernel
from plugrad_ops.reduction.norm import check_not_empty, order_of
from plugrad_ops.reduction.ops import _sum_to_axes, fractional, mean_dtype, total_dtype
from plugrad_ops.reduction.variance import degrees_of, spread_options
from plugrad_ops.shape.dims import normalize_dim, normalize_dims, reduced_shape

# ---- sum, mean, prod -----------------------------------------------------------------------------------------

MEAN = Reduction(finish="a / n", name="mean")
PROD = Reduction(combine="a * b", identity="1", name="prod")


def _real_part(input, dtype):
    """What of `input` a result in `dtype` is of: the real parts of complex numbers where it is real."""
    if input.dtype.kind != "c" or dtype.kind == "c":
        return input
    return kernel("real(input)", "input", out_dtype="real")(input)


def sum(input, *, dim=None, keepdim=False, dtype=None):
    """The kernel of ``standard::sum``."""
    axes = normalize_dims("sum", dim, input.ndim)
    dtype = total_dtype(input.dtype, dtype)
    return SUM(_real_part(input, dtype), axes, keepdim, dtype)


def sum_to(input, *, shape):
    """The kernel of ``standard::sum_to``."""
    axes = _sum_to_axes(input.shape, shape)
    if not axes:
        out = empty(input.shape, input.dtype)
        copy_into(out, input)
        return out
    out = SUM(input, axes, False, input.dtype)
    return as_strided(out, shape, layout.dense_strides(tuple(shape), out.dtype.itemsize))


def mean(input, *, dim=None, keepdim=False, dtype=None):
    """The kernel of ``standard::mean``."""
    axes = normalize_dims("mean", dim, input.ndim)
    dtype = mean_dtype(input.dtype, dtype)
    return MEAN(_real_part(input, dtype), axes, keepdim, dtype)


def prod(input, *, dim=None, keepdim=False, dtype=None):
    """The kernel of ``standard::prod``."""
    axes = normalize_dims("prod", dim, input.ndim)
    dtype = total_dtype(input.dtype, dtype)
    return PROD(_real_part(input, dtype), axes, keepdim, dtype)


# ---- extremes ------------------------------------------------------------------------------------------------

AMAX = Reduction(combine="max(a, b)", identity="lowest<T>()", acc="same", name="amax")
AMIN = Reduction(combine="min(a, b)", identity="highest<T>()", acc="same", name="amin")


def _position(name, leads, identity):
    return Reduction(
        acc={"value": "same", "at": "i64"},
        map={"value": "x", "at": "index"},
        identity={"value": identity, "at": "-1"},
        combine=f"b.at >= 0 && (a.at < 0 || {leads}(b.value, b.at, a.value, a.at)) ? b : a",
        finish="a.at",
        out_dtype=np.int64,
        name=name,
    )


ARGMAX = _position("argmax", "leads_max", "lowest<T>()")
ARGMIN = _position("argmin", "leads_min", "highest<T>()")


def _extreme(reduction, input, dim, axes, keepdim):
    nothing = 0 in [input.shape[axis] for axis in axes]
    if nothing and 0 not in reduced_shape(input.shape, axes, False):
        raise RuntimeError(
            f"{reduction.name}: a tensor of shape {input.shape} has no elements in dim={dim} to choose from"
        )
    return reduction(input, axes, keepdim)


def amax(input, *, dim=None, keepdim=False):
    """The kernel of ``standard::amax``."""
    return _extreme(AMAX, input, dim, normalize_dims("amax", dim, input.ndim), keepdim)


def amin(input, *, dim=None, keepdim=False):
    """The kernel of ``standard::amin``."""
    return _extreme(AMIN, input, dim, normalize_dims("amin", dim, input.ndim), keepdim)


def _one_dim(name, dim, ndim):
    """The axes of a reduction along one dimension, or of everything."""
    if dim is None:
        return tuple(range(ndim))
    axis = normalize_dim(name, dim, ndim)
    return (axis,) if ndim else ()


def argmax(input, *, dim=None, keepdim=False):
    """The kernel of ``standard::argmax``."""
    return _extreme(ARGMAX, input, dim, _one_dim("argmax", dim, input.ndim), keepdim)


def argmin(input, *, dim=None, keepdim=False):
    """The kernel of ``standard::argmin``."""
    return _extreme(ARGMIN, input, dim, _one_dim("argmin", dim, input.ndim), keepdim)


# ---- truth ---------------------------------------------------------------------------------------------------

ALL = Reduction(
    map="x != 0", combine="a & b", identity="1", acc="int", out_dtype=np.bool_, name="all"
)
ANY = Reduction(
    map="x != 0", combine="a | b", identity="0", acc="int", out_dtype=np.bool_, name="any"
)


def all(input, *, dim=None, keepdim=False):
    """The kernel of ``standard::all``."""
    return ALL(input, normalize_dims("all", dim, input.ndim), keepdim)


def any(input, *, dim=None, keepdim=False):
    """The kernel of ``standard::any``."""
    return ANY(input, normalize_dims("any", dim, input.ndim), keepdim)


# ---- variance ------------------------------------------------------------------------------------------------


def _spread(name, finish):
    return Reduction(
        map="square(x - middle)",
        finish=finish,
        inputs=("x", "middle"),
        constants=("degrees",),
        name=name,
    )


VAR = _spread("var", "a / degrees")
STD = _spread("std", "sqrt(a / degrees)")


def _variance(reduction, input, dim, unbiased, keepdim, correction):
    dim, correction = spread_options(dim, unbiased, correction)
    axes = normalize_dims(reduction.name, dim, input.ndim)
    middle = MEAN(input, axes, True, wide(input.dtype))
    degrees = float(degrees_of(input.shape, dim, correction))
    return reduction((input, middle), axes, keepdim, input.dtype, degrees=degrees)


def var(input, *, dim=None, unbiased=None, keepdim=False, correction=1):
    """The kernel of ``standard::var``."""
    return _variance(VAR, input, dim, unbiased, keepdim, correction)


def std(input, *, dim=None, unbiased=None, keepdim=False, correction=1):
    """The kernel of ``standard::std``."""
    return _variance(STD, input, dim, unbiased, keepdim, correction)


# ---- logsumexp -----------------------------------------------------------------------------------------------

# The greatest element, and the sum of exp(x - top): one pass. Equal tops, infinite ones too, have factor 1.
EXPONENTIALS = {
    "acc": {"top": "wide", "total": "wide"},
    "map": {"top": "x", "total": "1"},
    "identity": {"top": "-INF", "total": "0"},
    "combine": {
        "top": "max(a.top, b.top)",
        "total": "a.top >= b.top"
        " ? a.total + b.total * (a.top == b.top ? T(1) : exp(b.top - a.top))"
        " : b.total + a.total * exp(a.top - b.top)",
    },
    "finish": "a.top + log(a.total)",
}
LOGSUMEXP = Reduction(name="logsumexp", **EXPONENTIALS)


def logsumexp(input, *, dim, keepdim=False):
    """The kernel of ``standard::logsumexp``."""
    axes, dtype = normalize_dims("logsumexp", dim, input.ndim), fractional(input.dtype)
    if dtype != input.dtype:
        input = COPY(input, dtype=dtype)
    return LOGSUMEXP(input, axes, keepdim, dtype)


# ---- norms ---------------------------------------------------------------------------------------------------

SIZE = "abs(x)"
GREATEST = Reduction(map=SIZE, combine="max(a, b)", identity="0", acc="same", name="norm")
SMALLEST = Reduction(map=SIZE, combine="min(a, b)", identity="INF", acc="same", name="norm")
NONZERO = Reduction(map="x != 0 ? 1 : 0", name="norm")
SIZES = Reduction(map=SIZE, name="norm")
# Squares of floats neither leave the range of doubles nor vanish in it.
SQUARES = Reduction(map="double(x) * double(x)", finish="sqrt(a)", acc="double", name="norm")
POWERS = Reduction(
    map="pow(abs(x) / (top > 0 && isfinite(top) ? top : T(1)), p)",
    finish="pow(a, 1 / p)",
    inputs=("x", "top"),
    constants=("p",),
    name="norm",
)
SCALED = "root * (top > 0 && isfinite(top) ? top : 1)"


def norm(input, *, p=2.0, dim=None, keepdim=False):
    """The kernel of ``standard::norm``."""
    axes, p = normalize_dims("norm", dim, input.ndim), order_of("norm", p)
    check_not_empty(p, input.shape, axes)
    simple = {math.inf: GREATEST, -math.inf: SMALLEST, 0: NONZERO, 1: SIZES}.get(p)
    if simple is None and p == 2 and input.dtype != np.float64:
        simple = SQUARES
    if simple is not None:
        return simple(input, axes, keepdim, input.dtype)
    dtype = wide(input.dtype)
    top = GREATEST(input, axes, True, dtype)
    root = POWERS((input, top), axes, True, dtype, p=float(p))
    out = kernel(SCALED, "root", "top", out_dtype=input.dtype)(root, top)
    if keepdim:
        return out
    shape = reduced_shape(input.shape, axes, False)
    return as_strided(out, shape, layout.dense_strides(shape, out.dtype.itemsize))


# ---- scans ---------------------------------------------------------------------------------------------------


def cumsum(input, *, dim, dtype=None):
    """The kernel of ``standard::cumsum``."""
    axis = normalize_dim("cumsum", dim, input.ndim)
    dtype = total_dtype(input.dtype, dtype)
    return CUMSUM(_real_part(input, dtype), axis, out_dtype=dtype)


def cumprod(input, *, dim, dtype=None):
    """The kernel of ``standard::cumprod``."""
    axis = normalize_dim("cumprod", dim, input.ndim)
    dtype = total_dtype(input.dtype, dtype)
    return CUMPROD(_real_part(input, dtype), axis, out_dtype=dtype)


def linear_scan(factor, term, *, dim):
    """The kernel of ``standard::linear_scan``."""
    if factor.shape != term.shape:
        raise RuntimeError(
            f"linear_scan: factor and term must have one shape, got {factor.shape} and {term.shape}"
        )
    axis = normalize_dim("linear_scan", dim, term.ndim)
    return LINEAR_SCAN((factor, term), axis, out_dtype=term.dtype)


def _running(name, leads, identity):
    """A scan that keeps the extreme so far and its place; a later equal takes over, and NaN stays."""
    return Scan(
        acc={"value": "same", "at": "i64"},
        map={"value": "x", "at": "index"},
        identity={"value": identity, "at": "-1"},
        combine=f"b.at >= 0 && (a.at < 0 || b.value {leads} a.value || b.value != b.value) ? b : a",
        finish={"values": "a.value", "indices": "a.at"},
        out_dtype={"indices": np.int64},
        name=name,
    )


RUNNING_MAX = _running("running_max", ">=", "lowest<T>()")
RUNNING_MIN = _running("running_min", "<=", "highest<T>()")


def running_max(input, *, dim):
    """The kernel of ``standard::running_max``."""
    return RUNNING_MAX(input, normalize_dim("running_max", dim, input.ndim))


def running_min(input, *, dim):
    """The kernel of ``standard::running_min``."""
    return RUNNING_MIN(input, normalize_dim("running_min", dim, input.ndim))


LOGCUMSUMEXP = Scan(name="logcumsumexp", **EXPONENTIALS)


def logcumsumexp(input, *, dim):
    """The kernel of ``standard::logcumsumexp``."""
    return LOGCUMSUMEXP(input, normalize_dim("logcumsumexp", dim, input.ndim))
