"""The functions of prelude.cuh, through expressions, against NumPy in float64."""

import math

import numpy as np
import pytest

from plugrad.backends.cuda.array import from_host, to_host
from plugrad.backends.cuda.elementwise import Elementwise

pytestmark = pytest.mark.usefixtures("cuda")

INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 1e-30, -1e-30, 30.0, -90.0, INF, -INF, NAN]
VALUES = np.array([*SPECIAL, *np.linspace(-9, 9, 37)])

erf = np.vectorize(math.erf, otypes=["f8"])
erfc = np.vectorize(math.erfc, otypes=["f8"])


def sigmoid(x):
    return np.where(x >= 0, 1, np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x)))


UNARY = {
    "exp(x)": np.exp,
    "exp2(x)": np.exp2,
    "expm1(x)": np.expm1,
    "log(x)": np.log,
    "log2(x)": np.log2,
    "log10(x)": np.log10,
    "log1p(x)": np.log1p,
    "sqrt(x)": np.sqrt,
    "rsqrt(x)": lambda x: 1 / np.sqrt(x),
    "cbrt(x)": np.cbrt,
    "sin(x)": np.sin,
    "cos(x)": np.cos,
    "tan(x)": np.tan,
    "asin(x)": np.arcsin,
    "acos(x)": np.arccos,
    "atan(x)": np.arctan,
    "sinh(x)": np.sinh,
    "cosh(x)": np.cosh,
    "tanh(x)": np.tanh,
    "asinh(x)": np.arcsinh,
    "acosh(x)": np.arccosh,
    "atanh(x)": np.arctanh,
    "erf(x)": erf,
    "erfc(x)": erfc,
    "abs(x)": np.abs,
    "sign(x)": np.sign,
    "square(x)": np.square,
    "reciprocal(x)": np.reciprocal,
    "floor(x)": np.floor,
    "ceil(x)": np.ceil,
    "trunc(x)": np.trunc,
    "rint(x)": np.rint,
    "relu(x)": lambda x: np.maximum(x, 0),
    "sigmoid(x)": sigmoid,
    "softplus(x)": lambda x: np.logaddexp(x, 0),
    "logsigmoid(x)": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    "normal_cdf(x)": lambda x: erfc(x * -math.sqrt(0.5)) / 2,
    "normal_pdf(x)": lambda x: np.exp(x * x * -0.5) / math.sqrt(2 * math.pi),
    "T(isnan(x)) + 2 * T(isinf(x)) + 4 * T(isfinite(x))": lambda x: (
        np.isnan(x) + 2.0 * np.isinf(x) + 4 * np.isfinite(x)
    ),
}

BINARY = {
    "pow(x, y)": np.power,
    "nan_max(x, y)": np.maximum,
    "nan_min(x, y)": np.minimum,
    "max(x, y)": np.maximum,
    "min(x, y)": np.minimum,
    "remainder(x, y)": np.remainder,
    "floor_mod(x, y)": np.remainder,
    "floor_divide(x, y)": np.floor_divide,
    "fmod(x, y)": np.fmod,
    "copysign(x, y)": np.copysign,
    "atan2(x, y)": np.arctan2,
    "hypot(x, y)": np.hypot,
    "logaddexp(x, y)": np.logaddexp,
    "where(x > y, x, y)": lambda x, y: np.where(x > y, x, y),
}

ULPS = 8  # CUDA's own functions promise up to 4
TAIL = 200  # far out, the rounding of the argument is what remains: 2 x * x ulp


def compare(name, found, wanted, dtype, signs=True):
    """Equal within rounding of the type; NaN, infinities and the sign of zero exactly."""
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        wanted = wanted.astype(dtype)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), err_msg=name)
    with np.errstate(all="ignore"):
        bound = (TAIL if name.startswith("normal") else ULPS) * info.eps * np.abs(
            wanted.astype("f8")
        ) + info.tiny
        off = (
            ~(np.abs(found.astype("f8") - wanted) <= bound) & ~(found == wanted) & ~np.isnan(wanted)
        )
    assert not off.any(), f"{name}: {found[off][:4]} for {wanted[off][:4]}"
    if signs:
        zero = wanted == 0
        np.testing.assert_array_equal(
            np.signbit(found[zero]), np.signbit(wanted[zero]), err_msg=name
        )


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_functions_of_one_number(dtype):
    x = VALUES.astype(dtype)
    texts = {f"r{i}": text for i, text in enumerate(UNARY)}
    found = Elementwise(texts, name="unary functions")(from_host(x))
    with np.errstate(all="ignore"):
        for (text, function), result in zip(UNARY.items(), found):
            compare(text, to_host(result), np.asarray(function(x.astype("f8")), "f8"), dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_of_two_numbers(dtype):
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(VALUES, VALUES))
    texts = {f"r{i}": text for i, text in enumerate(BINARY)}
    found = Elementwise(texts, inputs=("x", "y"), name="binary functions")(
        from_host(x), from_host(y)
    )
    with np.errstate(all="ignore"):
        for (text, function), result in zip(BINARY.items(), found):
            exact = text.startswith(("remainder", "floor", "fmod"))
            # These jump, so they are compared with NumPy in the same type.
            wanted = function(x, y) if exact else function(x.astype("f8"), y.astype("f8"))
            compare(text, to_host(result), np.asarray(wanted, "f8"), dtype, signs=exact)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_arithmetic_of_integers(dtype):
    info = np.iinfo(dtype)
    some = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 5, 7, 100]
    some += [-1, -2, -3, -7] if info.min else []
    x, y = (a.ravel() for a in np.meshgrid(np.array(some, dtype), np.array(some, dtype)))
    functions = {
        "x + y": np.add,
        "x - y": np.subtract,
        "x * y": np.multiply,
        "floor_divide(x, y)": np.floor_divide,
        "remainder(x, y)": np.remainder,
        "nan_max(x, y)": np.maximum,
        "min(x, y)": np.minimum,
        "x & y": np.bitwise_and,
        "x | y": np.bitwise_or,
        "x ^ y": np.bitwise_xor,
        "~x": lambda x, y: np.invert(x),
        "abs(x)": lambda x, y: np.abs(x),
        "sign(x)": lambda x, y: np.sign(x),
        "square(x)": lambda x, y: np.square(x),
        "floor(x)": lambda x, y: x,
        "pow(x, abs(y) & 7)": lambda x, y: np.power(x, np.abs(y) & np.array(7, dtype)),
        "highest<T>()": lambda x, y: np.full_like(x, info.max),
        "lowest<T>()": lambda x, y: np.full_like(x, info.min),
    }
    texts = {f"r{i}": text for i, text in enumerate(functions)}
    found = Elementwise(texts, inputs=("x", "y"), name="integers")(from_host(x), from_host(y))
    with np.errstate(all="ignore"):
        for (text, function), result in zip(functions.items(), found):
            np.testing.assert_array_equal(to_host(result), function(x, y), err_msg=text)


def test_negative_powers_of_integers():
    x, y = np.array([1, -1, -1, 0, 2, -3]), np.array([-3, -3, -2, -1, -1, -2])
    found = Elementwise("pow(x, y)", inputs=("x", "y"))(from_host(x), from_host(y))
    np.testing.assert_array_equal(to_host(found), [1, -1, 1, 0, 0, 0])


def test_half_conversions_are_exact():
    every = np.arange(65536, dtype=np.uint16).view("f2")
    as_float = to_host(Elementwise("x", out_dtype="f4")(from_host(every)))
    np.testing.assert_array_equal(as_float, every.astype("f4"))
    x = np.random.default_rng(0).normal(size=4096).astype("f4") * np.float32(1e3)
    np.testing.assert_array_equal(
        to_host(Elementwise("x", out_dtype="f2")(from_host(x))), x.astype("f2")
    )
