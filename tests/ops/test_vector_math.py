"""Vectorised functions against NumPy in extended precision: over their whole range, at its ends, and at special values."""

import numpy as np
import pytest

import plugrad
from plugrad import Tensor

FINFO = {np.float32: np.finfo(np.float32), np.float64: np.finfo(np.float64)}
DTYPES = (np.float32, np.float64)
LONG = np.finfo(np.longdouble).nmant > 60
COUNT = 6000

REFERENCES = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
LIMITS = {
    "tan": 3.5,
    "acosh": 3.0,
    "atanh": 3.0,
    "atan": 2.6,
    "asin": 2.6,
    "sinh": 2.6,
}  # units in the last place


def magnitudes(rng, dtype, low, high):
    """Numbers of both signs, evenly spread by their logarithms."""
    sizes = np.exp(rng.uniform(np.log(low), np.log(high), COUNT))
    return (sizes * rng.choice([-1.0, 1.0], COUNT)).astype(dtype)


def points(name, dtype, rng):
    finfo = FINFO[dtype]
    tiny, huge = float(finfo.tiny), float(finfo.max)
    top = np.log(huge)
    if name in ("exp", "expm1", "sinh", "cosh"):
        wide = rng.uniform(-top, top, COUNT) * (1.0 if name != "cosh" else 1.0005)
        return np.concatenate([wide.astype(dtype), magnitudes(rng, dtype, tiny, 1.0)])
    if name == "exp2":
        return rng.uniform(np.log2(tiny), np.log2(huge), COUNT).astype(dtype)
    if name in ("log", "log2", "log10"):
        near = rng.uniform(0.5, 2.0, COUNT).astype(dtype)
        below = magnitudes(rng, dtype, finfo.smallest_subnormal, tiny)
        return np.abs(np.concatenate([magnitudes(rng, dtype, tiny, huge), near, below]))
    if name == "log1p":
        small = magnitudes(rng, dtype, tiny, 0.99)
        return np.concatenate([np.abs(magnitudes(rng, dtype, tiny, huge)), small])
    if name in ("sin", "cos", "tan"):
        quarters = rng.integers(-600_000, 600_000, COUNT) * (np.pi / 2)  # where something cancels
        spread = [rng.uniform(-scale, scale, COUNT) for scale in (10.0, 1e6, 1e9)]
        return np.concatenate([*spread, quarters, magnitudes(rng, dtype, tiny, 1.0)]).astype(dtype)
    if name in ("asin", "acos", "atanh"):
        edge = 1.0 if name != "atanh" else 0.999999
        wide = rng.uniform(-edge, edge, COUNT).astype(dtype)
        return np.concatenate([wide, magnitudes(rng, dtype, tiny, edge)])
    if name == "acosh":
        return 1 + np.abs(magnitudes(rng, dtype, finfo.eps, huge))
    return magnitudes(rng, dtype, tiny, huge)


def errors(found, exact):
    """In units in the last place of the exact value."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(found.dtype)
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    unit = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, 1)))
    away = np.abs(found.astype(np.longdouble) - exact) / unit
    return np.where(same, 0.0, np.where(np.isnan(away), np.inf, away))


@pytest.mark.skipif(not LONG, reason="the reference needs an extended type")
@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_function_is_right_to_the_last_places(name, dtype):
    seed = np.random.SeedSequence().entropy % 2**32
    print(f"seed {seed}")
    x = points(name, dtype, np.random.default_rng(seed))
    found = getattr(plugrad, name)(Tensor(x)).array
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype(np.longdouble))
    assert found.dtype == dtype
    away = errors(found, exact)
    worst = int(np.argmax(away))
    assert away[worst] <= LIMITS.get(name, 2.1), (x[worst], found[worst], exact[worst])


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_are_those_of_numpy(name, dtype):
    finfo = FINFO[dtype]
    values = [0.0, 1.0, 2.0, np.inf, finfo.max, finfo.tiny, finfo.smallest_subnormal, np.nan, 1e9]
    x = np.array([*values, *(-v for v in values)], dtype)
    found = getattr(plugrad, name)(Tensor(x)).array
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](x)
    rtol = 8 * finfo.eps
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=float(finfo.smallest_subnormal))
    exact = (expected == 0) | np.isinf(expected)
    np.testing.assert_array_equal(np.signbit(found[exact]), np.signbit(expected[exact]))


def test_logarithms_of_powers_of_their_base_are_whole():
    np.testing.assert_array_equal(
        plugrad.log10(Tensor(10.0 ** np.arange(0, 300))).array, np.arange(0, 300)
    )
    np.testing.assert_array_equal(
        plugrad.log2(Tensor(2.0 ** np.arange(-1074, 1024))).array, np.arange(-1074, 1024)
    )


# ---- of two arguments ------------------------------------------------------------------------------------------

SPECIAL = [0.0, 1.0, 2.0, 0.5, 3.0, 7.0, 4.5, 2.0**53, np.inf, np.nan, 1e30, 1e-30, 1e-42]
PAIRS = {
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "floor_divide": np.floor_divide,
    "logaddexp": np.logaddexp,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_pairs_are_those_of_numpy(name, dtype):
    values = np.array([*SPECIAL, *(-v for v in SPECIAL)], dtype)
    x, y = (each.ravel() for each in np.meshgrid(values, values))
    found = getattr(plugrad, name)(Tensor(x.copy()), Tensor(y.copy())).array
    with np.errstate(all="ignore"):
        expected = PAIRS[name](x, y)
    if name in ("fmod", "remainder", "floor_divide", "maximum", "minimum"):
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=4 * FINFO[dtype].eps, atol=1e-44)
    exact = (expected == 0) | np.isinf(expected)
    if name not in ("maximum", "minimum"):  # of 0 and -0 either will do
        np.testing.assert_array_equal(np.signbit(found[exact]), np.signbit(expected[exact]))


@pytest.mark.skipif(not LONG, reason="the reference needs an extended type")
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_are_right_over_the_whole_range(dtype):
    seed = np.random.SeedSequence().entropy % 2**32
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(-80, 80, COUNT)).astype(dtype)
    y = rng.uniform(-8, 8, COUNT) * np.where(rng.random(COUNT) < 0.5, 1, 0.1)
    near = rng.uniform(0.9, 1.1, COUNT).astype(dtype)
    x, y = (
        np.concatenate([x, near]),
        np.concatenate([y, rng.uniform(-800, 800, COUNT)]).astype(dtype),
    )
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    away = errors(plugrad.pow(Tensor(x), Tensor(y)).array, exact)
    worst = int(np.argmax(away))
    assert away[worst] <= 2, (x[worst], y[worst], exact[worst])


@pytest.mark.parametrize("dtype", DTYPES)
def test_remainders_are_exact_where_the_quotient_is_long(dtype):
    seed = np.random.SeedSequence().entropy % 2**32
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(-20, 60, COUNT)).astype(dtype) * rng.choice([-1, 1], COUNT).astype(dtype)
    y = np.exp(rng.uniform(-20, 20, COUNT)).astype(dtype) * rng.choice([-1, 1], COUNT).astype(dtype)
    for several in (slice(None), np.abs(x / y) < 1e6):  # with and without blocks for the C library
        a, b = x[several], y[several]
        np.testing.assert_array_equal(plugrad.fmod(Tensor(a), Tensor(b)).array, np.fmod(a, b))
        found = plugrad.remainder(Tensor(a), Tensor(b)).array
        np.testing.assert_array_equal(found, np.remainder(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu_keeps_its_digits_far_below_zero(dtype):
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-35 if dtype == np.float64 else -12, 12, 4001).astype(dtype)
    wide = x.astype(np.float64)
    exact = wide * np.exp(special.log_ndtr(wide))
    rtol = 40 * FINFO[dtype].eps if dtype == np.float32 else 1e-12  # that of log_ndtr
    found = plugrad.nn.functional.gelu(Tensor(x)).array
    np.testing.assert_allclose(found, exact, rtol=rtol)
