"""Elementwise operators: arithmetic, comparison, rounding, transcendental and special functions."""

from calls import (
    ALONE,
    ELEMENTWISE,
    EXTREME,
    Call,
    Case,
    above_one,
    binary,
    nonzero,
    positive,
    real,
    small,
    symmetric,
    ternary,
    unary,
    uniform,
    unit,
)

BITS = ("integer",)
far = uniform(-6, 6)


def numbered(low, high):
    """A tensor and a Python number, as in ``pow(x, 3)``."""

    def make(d):
        number = d.integer(low, high) if d.kind == "integer" or d.maybe() else d.choice([0.5, -1.5])
        return Call({"input": d.array(d.shape()), "exponent": number}, positional=d.choice([1, 2]))

    return Case(make, **ALONE)


def _shift(d):
    shape = d.shape()
    return Call(
        {"input": d.array(shape), "other": d.rng.integers(0, 7, d.broadcast(shape)).astype(d.dtype)}
    )


def _clamp(d):
    low, high = d.choice([(-1, 1), (None, 1), (-1, None), (1, -1)])
    if d.dtype.kind in "ub":  # a number must fit the dtype
        low, high = d.choice([(1, 2), (None, 1), (1, None)])
    if d.kind != "integer" and d.maybe():
        shape = d.shape()
        bounds = [d.array(d.broadcast(shape)) if b is not None else None for b in (low, high)]
        return Call(dict(zip(("input", "min", "max"), (d.array(shape), *bounds))))
    return Call({"input": d.array(d.shape()), "min": low, "max": high}, positional=d.choice([1, 3]))


def _where(d):
    shape = d.shape()
    a, b = d.array(shape), d.array(d.broadcast(shape))
    how = d.choice(["tensors", "first", "second"])
    return Call(
        {
            "condition": d.booleans(d.broadcast(shape)),
            "input": 2 if how == "first" else a,
            "other": -1.5 if how == "second" else b,
        },
        positional=d.choice([1, 3])
        if how == "tensors"
        else 3,  # PyTorch has other names for numbers
    )


def _where_method(d):
    shape = d.shape()
    return Call(
        {
            "input": d.array(shape),
            "condition": d.booleans(d.broadcast(shape)),
            "other": d.array(d.broadcast(shape)),
        }
    )


def _ldexp(d):
    shape = d.shape()
    return Call({"input": d.array(shape), "other": d.integers(d.broadcast(shape), -3, 4)})


def _divided(**choices):
    return binary(real, nonzero, **choices)


def _polygamma(d):
    return Call({"n": d.integer(0, 3), "input": d.array(d.shape(), positive)})


def _multigammaln(d):
    return Call({"input": d.array(d.shape(), uniform(2.1, 6)), "p": d.integer(1, 3)})


def _lerp(d):
    shape = d.shape()
    weight = d.choice([0.25, 0.5, 1.5]) if d.maybe() else d.array(d.broadcast(shape))
    return Call({"input": d.array(d.broadcast(shape)), "end": d.array(shape), "weight": weight})


_scaled = ("input", "tensor1", "tensor2")

TABLE = {
    # ---- arithmetic
    "abs": unary(),
    "absolute": unary(),
    "add": binary(alpha=[2, 3]).but(exact=False),
    "sub": binary(alpha=[2, 3]).but(exact=False),
    "subtract": binary(alpha=[2]).but(exact=False),
    "rsub": binary(alpha=[2]).but(exact=False),
    "mul": binary(),
    "multiply": binary(),
    "div": _divided(rounding_mode=[None, "floor", "trunc"]),
    "divide": _divided(rounding_mode=[None, "floor", "trunc"]),
    "true_divide": _divided(),
    "floor_divide": _divided(),
    "remainder": _divided(),
    "fmod": _divided(),
    "neg": unary(),
    "negative": unary(),
    "positive": unary(),
    "reciprocal": unary(nonzero),
    "square": unary(),
    "pow": binary(positive, real, number=False, names=("input", "exponent")),
    "float_power": binary(positive, real, number=False, names=("input", "exponent")),
    "sqrt": unary(positive),
    "rsqrt": unary(positive),
    "addcmul": ternary(real, real, real, names=_scaled, value=[1, 2])
    .but(exact=False)
    .without(EXTREME),
    "addcdiv": ternary(real, real, nonzero, names=_scaled, value=[1, 2]).floating.without(EXTREME),
    "lerp": Case(_lerp, **ELEMENTWISE).but(exact=False).floating,
    "dist": binary(number=False).but(exact=False).floating.without(EXTREME),
    "hypot": binary(number=False).floating,
    "ldexp": Case(_ldexp, **ELEMENTWISE).floating,
    "copysign": binary(),
    "sgn": unary(),
    "sign": unary(),
    "signbit": unary(),
    "heaviside": binary(number=False, names=("input", "values")).but(orders=0),
    "nan_to_num": unary(nan=[0.0, 2.0], posinf=[5.0], neginf=[-5.0]),
    "gcd": binary(number=False).but(kinds=BITS),
    "lcm": binary(number=False).but(kinds=BITS),
    # ---- rounding
    "ceil": unary(),
    "floor": unary(),
    "round": unary(decimals=[0, 1, -1]),
    "trunc": unary(),
    "fix": unary(),
    "frac": unary().floating,
    # ---- selection
    "clamp": Case(_clamp, **ELEMENTWISE),
    "clip": Case(_clamp, **ELEMENTWISE),
    "clamp_min": ternary(real, real, names=("input", "min")),
    "clamp_max": ternary(real, real, names=("input", "max")),
    "maximum": binary(number=False),
    "minimum": binary(number=False),
    "where": Case(_where, **ELEMENTWISE),
    # ---- comparison
    **{
        name: binary()
        for name in (
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "not_equal",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
        )
    },
    "isclose": binary(number=False, rtol=[0.3], atol=[0.5], equal_nan=[True]),
    "allclose": binary(number=False, rtol=[0.3], atol=[0.5], equal_nan=[True]),
    "equal": binary(number=False),
    "isfinite": unary(),
    "isinf": unary(),
    "isnan": unary(),
    "isposinf": unary(),
    "isneginf": unary(),
    "isreal": unary(),
    # ---- logic and bits
    "logical_and": binary(number=False),
    "logical_or": binary(number=False),
    "logical_xor": binary(number=False),
    "logical_not": unary(),
    "bitwise_and": binary().but(kinds=BITS),
    "bitwise_or": binary().but(kinds=BITS),
    "bitwise_xor": binary().but(kinds=BITS),
    "bitwise_not": unary().but(kinds=BITS),
    "bitwise_left_shift": Case(_shift, **ELEMENTWISE).but(kinds=BITS),
    "bitwise_right_shift": Case(_shift, **ELEMENTWISE).but(kinds=BITS),
    # ---- exponentials and logarithms
    "exp": unary(),
    "exp2": unary(),
    "expm1": unary(),
    "log": unary(positive),
    "log2": unary(positive),
    "log10": unary(positive),
    "log1p": unary(uniform(-0.9, 3)),
    "logaddexp": binary(number=False).floating,
    "logaddexp2": binary(number=False).but(exact=False).floating,
    "xlogy": binary(real, positive, number=False),
    "xlog1py": binary(real, positive, number=False),
    "entr": unary(positive),
    "logit": unary(unit, eps=[None, 1e-3, 0.2]),
    "expit": unary(far),
    # ---- circular and hyperbolic
    "sin": unary(far),
    "cos": unary(far),
    "tan": unary(symmetric),
    "asin": unary(symmetric),
    "acos": unary(symmetric),
    "atan": unary(),
    "atan2": binary(number=False),
    "sinh": unary(),
    "cosh": unary(),
    "tanh": unary(),
    "asinh": unary(),
    "acosh": unary(above_one),
    "atanh": unary(symmetric),
    "arcsin": unary(symmetric),
    "arccos": unary(symmetric),
    "arctan": unary(),
    "arctan2": binary(number=False),
    "arcsinh": unary(),
    "arccosh": unary(above_one),
    "arctanh": unary(symmetric),
    "sinc": unary().but(exact=False, second=1e6),
    "deg2rad": unary(),
    "rad2deg": unary(),
    "sigmoid": unary(far),
    # ---- special functions
    "erf": unary(),
    "erfc": unary(),
    "erfinv": unary(symmetric).but(loose=8),
    "ndtr": unary().but(exact=False),
    # PyTorch's trigamma has nine digits.
    "lgamma": unary(positive).but(loose=16, second=1e4),
    "gammaln": unary(positive).but(loose=16, second=1e4),
    "digamma": unary(positive).but(loose=16, gradient=1e4),
    "psi": unary(positive).but(loose=16, gradient=1e4),
    "polygamma": Case(_polygamma, **ALONE).but(loose=1e6),
    "multigammaln": Case(_multigammaln, **ALONE).but(loose=64, second=1e4),
    "mvlgamma": Case(_multigammaln, **ALONE).but(loose=64, second=1e4),
    "i0": unary(small).but(loose=16),
    "i0e": unary(small).but(loose=16),
    "i1": unary(small).but(loose=16),
    "i1e": unary(small).but(loose=16),
    # ---- methods with the arguments in another order
    "Tensor.polygamma": Case(
        lambda d: Call({"input": d.array(d.shape(), positive), "n": d.integer(0, 3)}), **ALONE
    ).but(loose=1e6),
    "Tensor.where": Case(_where_method, **ELEMENTWISE),
    # ---- Python's operators
    "Tensor.__add__": binary(),
    "Tensor.__radd__": binary(),
    "Tensor.__sub__": binary(),
    "Tensor.__rsub__": binary(),
    "Tensor.__mul__": binary(),
    "Tensor.__rmul__": binary(),
    "Tensor.__truediv__": _divided(),
    "Tensor.__rtruediv__": binary(nonzero, real),
    "Tensor.__floordiv__": _divided(),
    "Tensor.__mod__": _divided(),
    "Tensor.__pow__": numbered(-2, 4),
    "Tensor.__neg__": unary(),
    "Tensor.__pos__": unary(),
    "Tensor.__abs__": unary(),
    **{f"Tensor.__{name}__": binary() for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{f"Tensor.__{name}__": binary().but(kinds=BITS) for name in ("and", "or", "xor")},
    "Tensor.__invert__": unary().but(kinds=BITS),
}
