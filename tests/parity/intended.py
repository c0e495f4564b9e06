"""Where plugrad differs from PyTorch on purpose, each with its reason and a call that shows it.

The comparison leaves out exactly what is listed here; an entry whose example shows no difference any more fails a test.
``python tests/parity/differences.py`` writes the list into docs/pytorch.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Intended:
    """A difference that stays.

    Attributes
    ----------
    names : str
        The operators, without what they stand in, separated by spaces.
    aspect : {"value", "zero", "gradient", "second", "error", "dtype", "shape"}
        In what they differ: "zero" is the sign of zeros, "second" the gradient of the gradient.
    where, reason : str
        In words, for the page.
    when : callable
        ``when(arguments)``: whether a call shows it, or where in its first tensor.
    example : str
        An expression of ``lib``, ``F`` (its ``nn.functional``), ``x`` and ``y``; its value, or the gradient to ``x`` of its sum.
    theirs, ours : Any
        What PyTorch and plugrad give for the example, ``"error"`` for an exception.
    x, y : Any
        Values of the example's tensors, float64.
    """

    names: str
    aspect: str
    where: str
    reason: str
    when: Callable[[dict[str, Any]], Any]
    example: str
    theirs: Any
    ours: Any
    x: Any = None
    y: Any = None


# ---- conditions ------------------------------------------------------------------------------------------


def always(a):
    return True


def first(a):
    return next(v for v in a.values() if isinstance(v, np.ndarray))


def at(value):
    """Where the first tensor has that value."""
    return lambda a: np.isnan(first(a)) if value != value else first(a) == value


def arrays(a):
    return np.broadcast_arrays(*(np.asarray(v) for v in list(a.values())[:3] if _numeric(v)))


def _numeric(value):
    return isinstance(value, np.ndarray | int | float) and not isinstance(value, bool)


def any_nan(a):
    """Where one of the tensors is NaN."""
    return np.logical_or.reduce([np.isnan(v) for v in arrays(a)])


def tie(a):
    """Where the first two tensors are alike."""
    x, y, *_ = arrays(a)
    return x == y


def both_zero(a):
    x, y, *_ = arrays(a)
    return (x == 0) & (y == 0)


def nonfinite(a):
    return ~np.logical_and.reduce([np.isfinite(v) for v in arrays(a)])


def outside(low, high):
    return lambda a: ~((first(a) > low) & (first(a) < high))


def constant(a):
    """Where all that is reduced together may be alike."""
    x = first(a)
    return x.size < 2 or len(np.unique(x)) < x.size or bool(np.any(x == 0))


def repeated(a):
    x = first(a)
    return len(np.unique(x)) < x.size


def has(name, *values):
    return lambda a: a.get(name) in values


def zero_vector(a):
    """Where all of the first or second tensor along some dimension is 0."""
    return any(bool(np.any(v == 0)) for v in a.values() if isinstance(v, np.ndarray))


def at_bound(a):
    x, low, high = (a.get(name) for name in ("input", "min", "max"))
    return (
        sum(np.asarray(x == bound) for bound in (low, high) if bound is not None)
        + (np.asarray(low == high) & True if low is not None and high is not None else False)
        > 0
    )


def at_threshold(a):
    return a["input"] * a.get("beta", 1.0) == a.get("threshold", 20.0)


def at_ends(a):
    return (a["input"] <= 0) | (a["input"] >= 1)


def zero_or_tie(a):
    return a["input"] == 0


def gamma_poles(a):
    x = first(a)
    return ~(np.isfinite(x) & ((x > 0) | (x != np.round(x))) & (np.abs(x) < 20))


def exponent_zero(a):
    return np.asarray(a["exponent"] == 0)


def base_zero(a):
    return np.asarray(a["input"] == 0)


def near_origin(a):
    x, y, *_ = arrays(a)
    return ~(np.maximum(abs(x), abs(y)) > 1e-20)


def max_ties(a):
    return a.get("mode") == "max" and repeated({"weight": a["weight"]})


def no_degrees(a):
    shape, dim = np.shape(first(a)), a.get("dim")
    dims = range(len(shape)) if dim is None else np.atleast_1d(dim)
    return math.prod(shape[int(d)] for d in dims if shape) <= a.get("correction", 1)


def at_margin(a):
    if "input1" in a:
        return (a["input1"] - a["input2"]) * a["target"] == a.get("margin", 0.0)
    return (a["input"] == a.get("margin", 1.0)) & (a["target"] == -1)


def zero_target(a):
    return not a.get("log_target") and bool(np.any(a["target"] == 0))


def denominator_extreme(a):
    return ~((np.abs(arrays(a)[0]) < 1e20) & (np.abs(arrays(a)[1]) < 1e20))


def negative_power(a):
    e = np.asarray(a["exponent"])
    return (
        e.dtype.kind == "i"
        and isinstance(a["exponent"], np.ndarray)
        and bool(np.any(a["exponent"] < 0))
    )


def far_apart(a):
    x, y, *_ = arrays(a)
    with np.errstate(all="ignore"):
        return ~(np.abs(x / y) < 1e7)


def far_out(a):
    return ~(np.abs(first(a)) < 80)


def no_input(a):
    return not first(a).size


KINK = "the subgradient of least norm"
FINITE = "finite where the first derivative is"
NAN_GRADIENT = "the gradient at NaN is NaN"
NUMBER = "the value is a number"
OUTSIDE = "there is no derivative where there is no value"
INF, NAN_ = np.inf, np.nan

# fmt: off
INTENDED: tuple[Intended, ...] = (
    # ---- kinks and ties
    Intended("clamp clip", "gradient", "at a bound", KINK,
        at_bound, "x.clamp(min=0.0)", [0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 1.0]),
    Intended("selu", "gradient", "at 0", KINK,
        at(0), "lib.selu(x)", [1.7580993408473766], [1.0507009873554805], [0.0]),
    Intended("celu", "second", "at 0", "that of the negative side",
        at(0), "lib.celu(x, alpha=0.5)", [0.0], [2.0], [0.0]),
    Intended("prelu", "second", "at 0", "that of the negative side, to input and weight in turn",
        zero_or_tie, "lib.prelu(x, y)", [0.0], [1.0], [0.0], [0.25]),
    Intended("softplus", "second", "at the threshold", "the side of softplus counts",
        at_threshold, "F.softplus(x, threshold=1.0)", [0.0], [0.19661193324148185], [1.0]),
    Intended("maximum minimum clamp clip clamp_min clamp_max", "gradient", "at NaN", "NaN counts as a tie",
        any_nan, "lib.maximum(x, y)", [1.0], [0.5], [1.0], [NAN_]),
    Intended("quantile nanquantile", "gradient", "at ties", "the first of equal elements; PyTorch's depends on their number",
        repeated, "lib.quantile(x, 0.0)", [0.0] * 8 + [1.0] + [0.0] * 8, [1.0] + [0.0] * 16, [1.0] * 17),
    Intended("normalize cosine_similarity", "gradient", "at a zero vector", "0 and not 1/eps, by which training explodes",
        zero_vector, "F.normalize(x, dim=0)", [1e12, 1e12], [0.0, 0.0], [0.0, 0.0]),
    Intended("binary_cross_entropy", "gradient", "at inputs 0 and 1", "the derivative from inside",
        at_ends, "F.binary_cross_entropy(x, y)", [0.0], [-1.0], [1.0], [1.0]),
    Intended("xlogy", "gradient", "at (0, 0)", "0 times any logarithm is 0",
        both_zero, "lib.xlogy(y, x)", [NAN_], [0.0], [0.0], [0.0]),
    Intended("xlog1py", "gradient", "at (0, -1)", "0 times any logarithm is 0",
        lambda a: (arrays(a)[0] == 0) & (arrays(a)[1] == -1), "lib.special.xlog1py(y, x)", [NAN_], [0.0], [-1.0], [0.0]),
    Intended("hypot", "gradient", "at (0, 0)", KINK,
        both_zero, "lib.hypot(x, y)", [NAN_], [0.0], [0.0], [0.0]),
    Intended("clamp_min clamp_max", "gradient", "at ties", "shared, as in maximum and minimum",
        tie, "lib.clamp_min(x, y)", [1.0], [0.5], [2.0], [2.0]),
    Intended("hinge_embedding_loss margin_ranking_loss", "gradient", "at the margin", KINK,
        at_margin, "F.hinge_embedding_loss(x, y, margin=0.5)", [-1.0], [0.0], [0.5], [-1.0]),
    Intended("kl_div", "gradient", "to a target of 0", "the derivative of t log t there",
        zero_target, "F.kl_div(y, x, reduction='sum')", [NAN_], [-INF], [0.0], [1.0]),
    # ---- NaN and infinity
    Intended("sign sgn heaviside", "value", "at NaN", "NaN stays NaN",
        any_nan, "lib.sign(x)", [0.0], [NAN_], [NAN_]),
    Intended("abs absolute", "gradient", "at NaN", NAN_GRADIENT,
        any_nan, "lib.abs(x)", [0.0], [NAN_], [NAN_]),
    Intended("logaddexp logaddexp2", "gradient", "at infinities", "that of the larger one; 0 where both are -infinity",
        nonfinite, "lib.logaddexp(x, y)", [NAN_], [0.0], [-INF], [-INF]),
    Intended("elu celu selu", "gradient", "at NaN", NAN_GRADIENT,
        any_nan, "lib.celu(x, alpha=0.5)", [1.0], [NAN_], [NAN_]),
    Intended("relu6 hardtanh", "gradient", "at NaN", "that of what is out of bounds",
        any_nan, "F.relu6(x)", [1.0], [0.0], [NAN_]),
    Intended("embedding_bag", "gradient", "mode='max' at ties", "equal elements share, as in amax",
        max_ties, "F.embedding_bag(lib.tensor([[0, 1]]), x, mode='max')", [[1.0], [0.0]], [[0.5], [0.5]], [[2.0], [2.0]]),
    Intended("atan2 arctan2", "gradient", "near (0, 0)", "no square underflows",
        near_origin, "lib.atan2(x, y)", [0.0], [1e200], [0.0], [1e-200]),
    Intended("index_reduce scatter_reduce", "gradient", "include_self=False and a tie with what it leaves out", "what is left out has no share",
        has("include_self", False), "y.index_reduce(0, lib.zeros(1, dtype=lib.int64), x, 'amax', include_self=False)", [0.5], [1.0], [1.0], [1.0]),
    Intended("hardshrink softshrink", "gradient", "at NaN", "1; PyTorch's depends on the number of elements",
        nonfinite, "F.hardshrink(x)", [0.0] * 8, [1.0] * 8, [NAN_] * 8),
    Intended("i1e logit", "gradient", "at NaN", NAN_GRADIENT,
        nonfinite, "lib.special.i1e(x)", [0.5], [NAN_], [NAN_]),
    Intended("copysign", "gradient", "at infinity", "that of the absolute value",
        nonfinite, "lib.copysign(x, y)", [NAN_], [1.0], [INF], [1.0]),
    Intended("var std var_mean std_mean", "value", "where the correction is not less than the number of elements", "nothing can be said",
        no_degrees, "lib.var(x, correction=2)", INF, NAN_, [1.0, 2.0]),
    Intended("gelu", "value", "at infinity, in float32", NUMBER,
        nonfinite, "F.gelu(x.to(lib.float32))", [NAN_] * 2, [INF] * 2, [INF] * 2),
    Intended("hardswish", "value", "at -infinity", "the limit",
        nonfinite, "F.hardswish(x)", [NAN_], [0.0], [-INF]),
    Intended("softsign", "gradient", "at infinity", "the limit",
        nonfinite, "F.softsign(x)", [NAN_], [0.0], [INF]),
    Intended("hardsigmoid", "gradient", "at NaN", "the slope of the middle",
        any_nan, "F.hardsigmoid(x)", [0.0], [1 / 6], [NAN_]),
    Intended("Tensor.__rtruediv__", "gradient", "at huge numbers and infinities", "PyTorch multiplies by the reciprocal",
        denominator_extreme, "x.__rtruediv__(y)", [NAN_], [-INF], [1e200], [INF]),
    Intended("fmod remainder", "value", "where the quotient needs more digits than there are", "exact, as in NumPy",
        far_apart, "lib.fmod(x, y)[:1]", [NAN_], [4.18199169208316e-201], [1e200] * 8, [1e-200] * 8),
    Intended("acosh arccosh", "gradient", "below 1", OUTSIDE,
        outside(1, INF), "lib.acosh(x)", [0.5773502691896258], [NAN_], [-2.0]),
    Intended("logit", "gradient", "outside of (0, 1)", "the derivative from inside",
        outside(0, 1), "lib.logit(x)", [INF], [-INF], [-0.0]),
    Intended("polygamma", "value", "at its poles and infinities", "an infinity and not a large number",
        gamma_poles, "lib.special.polygamma(1, x)", [1.6451975368302367e32], [INF], [-2.0]),
    Intended("pow", "gradient", "of -0 and -infinity to the power 1/2", "as of any power, and not as of sqrt",
        lambda a: (((first(a) == 0) | (first(a) == -INF)) & np.asarray(not isinstance(a["exponent"], np.ndarray))), "x ** 0.5", [-INF], [INF], [-0.0]),
    Intended("digamma psi polygamma lgamma gammaln mvlgamma multigammaln", "gradient", "at its poles", "an infinity and not a large number",
        gamma_poles, "lib.digamma(x)", [1.6451975368302367e32], [INF], [-2.0]),
    Intended("i0 i1", "value", "at infinity", NUMBER,
        far_out, "lib.i0(x)", [NAN_], [INF], [INF]),
    Intended("ndtr", "value", "far below 0", "relative precision holds to the last",
        lambda a: first(a) < -5, "lib.special.ndtr(x)", [0.0], [4.906713927148187e-198], [-30.0]),
    # ---- second derivatives
    Intended("atan2 arctan2 hypot", "second", "at (0, 0)", FINITE,
        both_zero, "lib.atan2(x, y)", [NAN_], [0.0], [0.0], [0.0]),
    Intended("copysign", "second", "at 0", FINITE,
        at(0), "lib.copysign(x, y)", [NAN_], [0.0], [0.0], [1.0]),
    Intended("logit", "second", "at the ends of what eps leaves", FINITE,
        outside(0, 1), "lib.logit(x, eps=0.1)", [NAN_], [0.0], [0.0]),
    Intended("xlog1py", "second", "where the second is not above -1", "there is no value",
        lambda a: arrays(a)[1] <= -1, "lib.special.xlog1py(x, y)", [-1.0], [1.0], [0.0], [-2.0]),
    Intended("norm vector_norm matrix_norm renorm std std_mean", "second", "of what is constant", FINITE,
        constant, "lib.norm(x)", [NAN_, NAN_], [0.0, 0.0], [0.0, 0.0]),
    Intended("sinc", "second", "at 0", FINITE,
        at(0), "lib.sinc(x)", [NAN_], [-3.289868133696453], [0.0]),
    Intended("pow float_power", "second", "where the base is 0", FINITE,
        base_zero, "lib.pow(x, y)", [NAN_], [0.0], [0.0], [3.0]),
    Intended("pow float_power", "second", "where the exponent is 0", "the mixed derivative is 1 / base",
        exponent_zero, "lib.pow(y, x)", [0.4804530139182014], [0.9804530139182014], [0.0], [2.0]),
    # ---- what PyTorch has wrong
    Intended("polar", "gradient", "where the absolute value is not positive", "PyTorch's is that to its absolute value",
        lambda a: ~(arrays(a)[0] > 0) | nonfinite(a), "lib.real(lib.polar(x, y))", [0.0], [1.0], [0.0], [0.0]),
    Intended("ldexp", "gradient", "always", "PyTorch's is 0 where the exponent is an integer tensor",
        always, "lib.ldexp(x, y.to(lib.int64))", [0.0], [0.5], [1.0], [-1.0]),
    Intended("cholesky_solve cholesky_inverse", "gradient", "above the diagonal", "that part of the factor is not read",
        always, "lib.cholesky_inverse(x)[0, 0]", [[-2.5, 1.25], [1.0, -0.5]], [[-2.5, 0.0], [1.0, -0.5]], [[1.0, 0.0], [0.5, 1.0]]),
    Intended("bincount", "dtype", "with weights and no input", "the dtype of the weights",
        no_input, "lib.bincount(y.to(lib.int64), x)", "int64", "float64", [], []),
    Intended("cumprod", "gradient", "of complex numbers with a real dtype", "that of what is multiplied, their real parts",
        lambda a: first(a).dtype.kind == "c" and "dtype" in a,
        "lib.cumprod(x, 0, dtype=lib.float64)", [1 + 1j, 0.5 - 0.5j], [2.0, 1.0], [1 + 1j, 1 - 1j]),
    # ---- conventions
    Intended("masked_fill", "dtype", "a value that the dtype does not hold", "promoted as everywhere; PyTorch truncates the value",
        lambda a: first(a).dtype == np.bool_, "lib.masked_fill(x.to(lib.int64), y.to(lib.bool), 1.5)", "int64", "float32", [1.0], [1.0]),
    Intended("all any", "dtype", "of uint8", "a question is answered by a bool",
        lambda a: first(a).dtype == np.uint8, "lib.all(x.to(lib.uint8))", "uint8", "bool", [1.0]),
    Intended("add sub subtract index_add addmm addmv addr baddbmm addbmm", "dtype", "factors times bools", "a product with an integer is an integer",
        lambda a: first(a).dtype == np.bool_ and bool({"alpha", "beta"} & a.keys()),
        "lib.add(x.to(lib.bool), y.to(lib.bool), alpha=2)", "bool", "int64", [1.0], [1.0]),
    Intended("relu relu6 softshrink hardswish maximum minimum clamp clip clamp_min clamp_max remainder entr angle", "zero", "of -0", "no promise; PyTorch's depends on the number of elements",
        always, "lib.remainder(x, y)", [-0.0], [0.0], [-0.0], [2.0]),
    Intended("pow", "error", "integers to a negative tensor of integers", "an error, as with a number, and not a truncated quotient",
        negative_power, "lib.pow(x.to(lib.int64), y.to(lib.int64))", [0], "error", [2.0], [-1.0]),
)
# fmt: on
