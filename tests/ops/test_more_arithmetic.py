"""Angles, interpolation, signs, closeness and whole numbers: values, kinks, special values, dtypes."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, ops

INF, NAN = math.inf, math.nan


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype), requires_grad=True)


def gradients(out, *leaves):
    return [g.tolist() for g in plugrad.autograd.grad(out.sum(), leaves)]


# ---- angles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "alias", "reference", "x"),
    [
        ("asinh", "arcsinh", np.arcsinh, [-2.0, 0.0, 1e200]),
        ("acosh", "arccosh", np.arccosh, [1.0, 1.5, 1e200]),
        ("atanh", "arctanh", np.arctanh, [-0.5, 0.0, 1.0]),
    ],
)
def test_inverse_hyperbolic_functions(name, alias, reference, x):
    with np.errstate(divide="ignore"):
        expected = reference(x)
    for each in (name, alias):
        np.testing.assert_allclose(getattr(plugrad, each)(leaf(x)).array, expected, rtol=4e-16)
        np.testing.assert_allclose(getattr(leaf(x), each)().array, expected, rtol=4e-16)


def test_derivatives_of_huge_arguments_do_not_vanish():
    for name in ("asinh", "acosh"):
        x = leaf([1e200])
        ((slope,),) = gradients(getattr(ops, name)(x), x)
        assert slope == pytest.approx(1e-200)


def test_the_gradient_at_the_origin_is_zero():
    for function in (ops.hypot, ops.atan2):
        x, y = leaf([0.0, 3.0]), leaf([0.0, 4.0])
        dx, dy = plugrad.autograd.grad(function(x, y).sum(), [x, y], create_graph=True)
        assert (dx.tolist()[0], dy.tolist()[0]) == (0, 0)
        second = plugrad.autograd.grad((dx + dy).sum(), [x, y])
        assert (second[0].tolist()[0], second[1].tolist()[0]) == (0, 0)


def test_lengths_and_angles_neither_overflow_nor_vanish():
    x, y = leaf([3e200, 3e-200]), leaf([4e200, 4e-200])
    out = ops.hypot(x, y)
    np.testing.assert_allclose(out.array, [5e200, 5e-200], rtol=1e-15)
    np.testing.assert_allclose(gradients(out, x, y), [[0.6, 0.6], [0.8, 0.8]], rtol=1e-15)
    dx, dy = gradients(ops.atan2(x, y), x, y)
    np.testing.assert_allclose(dx, [0.16e-200, 0.16e200], rtol=1e-14)
    np.testing.assert_allclose(dy, [-0.12e-200, -0.12e200], rtol=1e-14)


def test_degrees():
    x = leaf([math.pi, -math.pi / 2])
    assert plugrad.rad2deg(x).tolist() == [180.0, -90.0]
    np.testing.assert_allclose(plugrad.deg2rad(plugrad.rad2deg(x)).array, x.array, rtol=1e-15)


# ---- interpolation, fused products ---------------------------------------------------------------------------


def test_lerp_meets_both_ends_exactly():
    a, b = leaf([0.1, 1e16]), leaf([0.7, 1.0])
    assert plugrad.lerp(a, b, 0.0).tolist() == a.tolist()
    assert plugrad.lerp(a, b, 1.0).tolist() == b.tolist()
    weight = leaf([0.0, 1.0])
    out = a.lerp(b, weight)
    assert out.tolist() == [0.1, 1.0]
    _, _, dw = gradients(out, a, b, weight)
    assert dw == [0.7 - 0.1, 1.0 - 1e16]


def test_products_and_quotients_added():
    x, a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0]), leaf([2.0, 8.0])
    assert plugrad.addcmul(x, a, b, value=0.5).tolist() == [4.0, 18.0]
    assert x.addcdiv(a, b, value=-2).tolist() == [-2.0, 1.0]
    assert gradients(plugrad.addcdiv(x, a, b), x, a, b) == [[1, 1], [0.5, 0.125], [-0.75, -0.0625]]
    assert plugrad.rsub(x, 5.0, alpha=2).tolist() == [3.0, 1.0]


def test_in_place_forms():
    x = plugrad.tensor([1.0, -2.0])
    x.addcmul_(plugrad.tensor([1.0, 1.0]), plugrad.tensor([3.0, 4.0]))
    assert x.tolist() == [4.0, 2.0]
    assert x.lerp_(plugrad.tensor([0.0, 0.0]), 0.5).tolist() == [2.0, 1.0]
    assert x.copysign_(-1.0).tolist() == [-2.0, -1.0]
    assert x.clamp_min_(-1.5).tolist() == [-1.5, -1.0]
    assert x.frac_().tolist() == [-0.5, 0.0]
    assert x.erfinv_().tolist() == pytest.approx([-0.4769362762044699, 0.0])


def test_float_power_is_computed_in_float64():
    x = leaf([0.0, 2.0, -2.0], np.float32)
    out = plugrad.float_power(x, 2)
    assert out.dtype == np.float64
    (dx,) = plugrad.autograd.grad(out.sum(), [x])
    assert dx.dtype == np.float32
    assert dx.tolist() == [0, 4, -4]
    assert plugrad.float_power(plugrad.tensor([2, 3]), -1).tolist() == [0.5, 1 / 3]


def test_ldexp():
    out = plugrad.ldexp(plugrad.tensor([1.0, -3.0]), plugrad.tensor([3, -1]))
    assert out.tolist() == [8.0, -1.5]
    assert out.dtype == np.float32


def test_logaddexp2_of_infinities():
    x, y = leaf([-INF, INF, 1.0]), leaf([-INF, INF, 1.0])
    out = ops.logaddexp2(x, y)
    assert out.tolist() == [-INF, INF, 2.0]
    assert gradients(out, x, y) == [[0, 0.5, 0.5], [0, 0.5, 0.5]]


def test_bounds_on_one_side():
    x = leaf([-1.0, 0.5, 2.0])
    assert plugrad.clamp_min(x, 0.5).tolist() == [0.5, 0.5, 2.0]
    assert gradients(x.clamp_max(0.5), x) == [[1, 0, 0]]


# ---- signs, infinities, NaN ----------------------------------------------------------------------------------


def test_copysign():
    x, y = leaf([2.0, -3.0, 0.0, 1.0]), leaf([-1.0, -0.0, -1.0, NAN])
    out = plugrad.copysign(x, y)
    assert out.tolist() == [-2.0, -3.0, -0.0, math.copysign(1.0, NAN)]
    dx, dy = gradients(out, x, y)
    assert dx == [-1, 1, 0, 1]
    assert dy == [0, 0, 0, 0]


def test_signbit_sees_the_sign_of_zero():
    assert plugrad.signbit(leaf([0.0, -0.0, -INF, 1.0])).tolist() == [False, True, True, False]
    assert plugrad.signbit(plugrad.tensor([-1, 0])).tolist() == [True, False]


def test_heaviside():
    x, v = leaf([-1.0, 0.0, 2.0, NAN]), leaf([5.0, 6.0, 7.0, 8.0])
    out = plugrad.heaviside(x, v)
    assert out.tolist()[:3] == [0.0, 6.0, 1.0]
    assert math.isnan(out.tolist()[3])
    assert gradients(out, x, v) == [[0, 0, 0, 0], [0, 1, 0, 0]]
    assert plugrad.heaviside(plugrad.tensor([0, 3]), plugrad.tensor([7, 7])).tolist() == [7, 1]


def test_nan_to_num():
    for dtype in (np.float16, np.float32, np.float64):
        x = leaf([NAN, INF, -INF, 1.5], dtype)
        limit = float(np.finfo(dtype).max)
        out = x.nan_to_num()
        assert out.tolist() == [0.0, limit, -limit, 1.5]
        assert gradients(out, x) == [[0, 0, 0, 1]]
    assert plugrad.nan_to_num(x, 1.0, 2.0, 3.0).tolist() == [1.0, 2.0, 3.0, 1.5]
    assert plugrad.nan_to_num(plugrad.tensor([1, 2])).dtype == np.int64


def test_kinds_of_infinity():
    x = leaf([INF, -INF, NAN, 1.0])
    assert plugrad.isposinf(x).tolist() == [True, False, False, False]
    assert plugrad.isneginf(x).tolist() == [False, True, False, False]
    assert plugrad.isreal(x).tolist() == [True] * 4
    assert plugrad.isposinf(plugrad.tensor([1])).tolist() == [False]


def test_closeness():
    a, b = leaf([1.0, INF, NAN, -INF, 0.0]), leaf([1.0 + 1e-9, INF, NAN, INF, 1e-7])
    assert plugrad.isclose(a, b).tolist() == [True, True, False, False, False]
    assert plugrad.isclose(a, b, equal_nan=True).tolist()[2] is True
    assert plugrad.allclose(a[:2], b[:2]) is True
    assert a.allclose(b) is False
    with pytest.raises(RuntimeError, match="0 or greater"):
        plugrad.isclose(a, b, atol=-1.0)


def test_equality_as_a_bool():
    a = leaf([1.0, 2.0])
    assert plugrad.equal(a, a.clone()) is True
    assert a.equal(leaf([1.0])) is False
    assert plugrad.equal(leaf([NAN]), leaf([NAN])) is False
    with pytest.raises(RuntimeError, match="dtypes must agree"):
        plugrad.equal(a, plugrad.tensor([1, 2]))


# ---- whole numbers -------------------------------------------------------------------------------------------


def test_fmod_has_the_sign_of_the_dividend():
    x, y = leaf([5.0, -5.0, 5.0, 5.0]), leaf([3.0, 3.0, -3.0, INF])
    out = plugrad.fmod(x, y)
    assert out.tolist() == [2.0, -2.0, 2.0, 5.0]
    assert gradients(out, x, y) == [[1, 1, 1, 1], [-1, 1, 1, 0]]
    assert plugrad.fmod(plugrad.tensor([-7, 7]), 3).tolist() == [-1, 1]
    with pytest.raises(ZeroDivisionError, match="fmod"):
        plugrad.fmod(plugrad.tensor([1]), 0)


def test_divisors_and_multiples():
    a, b = plugrad.tensor([12, -18, 0, 0]), plugrad.tensor([8, 12, 5, 0])
    assert plugrad.gcd(a, b).tolist() == [4, 6, 5, 0]
    assert plugrad.lcm(a, b).tolist() == [24, 36, 0, 0]
    with pytest.raises(TypeError, match="gcd"):
        plugrad.gcd(leaf([1.0]), a)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_shifts_reach_and_pass_the_width(dtype):
    x = Tensor(np.array([1, 3, 100], dtype))
    bits = x.dtype.itemsize * 8
    by = Tensor(np.array([0, 1, bits], dtype))
    assert plugrad.bitwise_left_shift(x, by).tolist() == [1, 6, 0]
    assert plugrad.bitwise_right_shift(x, by).tolist() == [1, 1, 0]
    if x.dtype.kind == "i":
        assert plugrad.bitwise_right_shift(Tensor(np.array([-5, -5], dtype)), Tensor(np.array([1, 100], dtype))).tolist() == [-3, -1]  # fmt: skip


def test_parts_beside_the_point():
    x = leaf([1.75, -1.75, 3.0])
    assert plugrad.frac(x).tolist() == [0.75, -0.75, 0.0]
    assert gradients(x.frac(), x) == [[1, 1, 1]]
    assert plugrad.fix(x).tolist() == [1.0, -1.0, 3.0]


def test_numpy_functions_find_their_operators():
    x = leaf([3.0])
    assert np.hypot(x, 4.0).tolist() == [5.0]
    assert np.fmod(x, 2.0).tolist() == [1.0]
    assert np.arctan2(x, x).tolist() == [math.pi / 4]
    assert np.isnan(x).tolist() == [False]
