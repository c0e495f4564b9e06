"""CUDA kernels of the arithmetic family that one expression does not describe.

Division with remainder and powers refuse some integers, as NumPy does; clamp has bounds that may be absent; round has
its number of decimals. Everything else is an expression at the operator's declaration.
"""

from __future__ import annotations

from plugrad.backends.dtypes import finfo, kind
from plugrad_ops.expressions import holds, kernel, require_kind

# -------------------------------------------------------------------- division with remainder


def floor_divide(input, other):
    """The kernel of ``standard::floor_divide``."""
    _refuse_zero("floor_divide", input, other)
    return kernel("floor_divide(input, other)", "input", "other", name="floor_divide")(input, other)


def remainder(input, other):
    """The kernel of ``standard::remainder``."""
    _refuse_zero("remainder", input, other)
    return kernel("remainder(input, other)", "input", "other", name="remainder")(input, other)


# The remainder of the least integer by -1 overflows in C; it is 0.
WHOLE_FMOD = "T(-1) < T(0) && T(other) == T(-1) ? T(0) : T(input) % T(other)"


def fmod(input, other):
    """The kernel of ``standard::fmod``."""
    _refuse_zero("fmod", input, other)
    text = WHOLE_FMOD if _of_integers(input, other) else "fmod(input, other)"
    return kernel(text, "input", "other", name="fmod")(input, other)


def _refuse_zero(name, input, other):
    """Integers have no infinity. Whether an array holds a 0 only the device knows."""
    require_kind(name, "uifc", input, other)
    if _of_integers(input, other):
        sound = holds("x != 0", other) if hasattr(other, "dtype") else other != 0
        if not sound:
            raise ZeroDivisionError(f"{name}: an integer tensor is divided by 0")


def _of_integers(*operands):
    """Whether an operation is one of integers: its arrays have been promoted to one dtype."""
    return any(x.dtype.kind in "ui" for x in operands if hasattr(x, "dtype"))


# ----------------------------------------------------------------------------- divisors, multiples

DIVISORS = """
// The size of the least integer is one that its own type cannot hold.
template <class X> PLUGRAD_FN u64 size_of(X x) { return x < X(0) ? u64(0) - (u64)x : (u64)x; }
template <class X> PLUGRAD_FN u64 gcd_of(X a, X b) {
    u64 x = size_of(a), y = size_of(b);
    while (y) {
        const u64 rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}
template <class X> PLUGRAD_FN X lcm_of(X a, X b) {
    const u64 divisor = gcd_of(a, b);
    return divisor ? (X)(size_of(a) / divisor * size_of(b)) : X(0);
}
"""


def gcd(input, other):
    """The kernel of ``standard::gcd``."""
    text = "T(gcd_of(T(input), T(other)))"
    return kernel(text, "input", "other", name="gcd", header=DIVISORS)(input, other)


def lcm(input, other):
    """The kernel of ``standard::lcm``."""
    text = "lcm_of(T(input), T(other))"
    return kernel(text, "input", "other", name="lcm", header=DIVISORS)(input, other)


# ------------------------------------------------------------------------------------- powers

POWERS = {2: "input * input", 3: "input * input * input", 0.5: "sqrt(input)"}


def pow(input, exponent):
    """The kernel of ``standard::pow``; 2, 3 and one half need no call of the general function."""
    require_kind("pow", "uifc", input, exponent)
    number = not hasattr(exponent, "dtype")
    if not _of_integers(input, exponent):
        if number and exponent in POWERS:
            return kernel(POWERS[exponent], "input", name="pow")(input)
    elif exponent < 0 if number else not holds("x >= 0", exponent):
        raise ValueError("pow: integers to negative integer powers are not allowed")
    return kernel("pow(input, exponent)", "input", "exponent", name="pow")(input, exponent)


# ---------------------------------------------------------------------------- rounding, bounds


def round(input, *, decimals=0):
    """The kernel of ``standard::round``; integers are whole already, whatever `decimals` says."""
    if decimals == 0 or kind(input.dtype) != "f":
        return kernel("rint(input)", "input", name="round")(input)
    scaled = "rint(input * scale) / scale" if decimals > 0 else "rint(input / scale) * scale"
    return kernel(scaled, "input", constants=("scale",), name="round")(
        input, scale=10.0 ** abs(decimals)
    )


def clamp(input, min=None, max=None):
    """The kernel of ``standard::clamp``."""
    if min is None and max is None:
        raise ValueError("clamp: give min, max or both; got neither")
    if max is None:
        return kernel("nan_max(input, min)", "input", "min", name="clamp")(input, min)
    if min is None:
        return kernel("nan_min(input, max)", "input", "max", name="clamp")(input, max)
    return kernel("nan_min(nan_max(input, min), max)", "input", "min", "max", name="clamp")(
        input, min, max
    )


def logit(input, *, eps=None):
    """The kernel of ``standard::logit``."""
    if eps is None:
        return kernel("log(input / (1 - input))", "input", name="logit")(input)
    inside = "nan_min(nan_max(input, low), high)"
    text = f"log({inside} / (1 - {inside}))"
    return kernel(text, "input", constants=("low", "high"), name="logit")(
        input, low=float(eps), high=1.0 - eps
    )


def nan_to_num(input, *, nan=0.0, posinf=None, neginf=None):
    """The kernel of ``standard::nan_to_num``."""
    if kind(input.dtype) != "f":
        return kernel("input", "input", name="nan_to_num")(input)
    limits = finfo(input.dtype)
    return kernel(
        "isnan(input) ? hole : input == INF ? top : input == -INF ? bottom : input",
        "input",
        constants=("hole", "top", "bottom"),
        name="nan_to_num",
    )(
        input,
        hole=0.0 if nan is None else float(nan),
        top=float(limits.max if posinf is None else posinf),
        bottom=float(limits.min if neginf is None else neginf),
    )
