"""Special functions: known values and identities, poles, accuracy near zeros, derivatives of any order."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, ops

EULER = 0.5772156649015329
ZETA3 = 1.2020569031595943


def leaf(values):
    return Tensor(np.array(values, np.float64), requires_grad=True)


def derivative(function, x, order=1):
    """The derivative of a function of one element, at each element."""
    out = function(x)
    for _ in range(order):
        (out,) = plugrad.autograd.grad(out.sum(), [x], create_graph=True)
    return out.array


def values(function, x):
    return function(Tensor(np.array(x, np.float64))).array


# ---- the gamma function's ------------------------------------------------------------------------------------


def test_digamma_and_its_derivatives_at_one():
    one = leaf([1.0])
    np.testing.assert_allclose(ops.digamma(one).array, [-EULER], rtol=1e-15)
    np.testing.assert_allclose(values(lambda x: plugrad.polygamma(1, x), [1.0]), [math.pi**2 / 6], rtol=1e-15)  # fmt: skip
    np.testing.assert_allclose(values(lambda x: plugrad.polygamma(2, x), [1.0]), [-2 * ZETA3], rtol=1e-15)  # fmt: skip
    np.testing.assert_allclose(values(lambda x: plugrad.polygamma(3, x), [1.0]), [math.pi**4 / 15], rtol=1e-15)  # fmt: skip


@pytest.mark.parametrize("order", range(5))
def test_polygamma_climbs_by_its_recurrence(order):
    x = np.array([-3.3, -0.5, 0.1, 0.7, 4.2, 9.99, 25.0])
    step = (-1) ** order * math.factorial(order) / x ** (order + 1)
    here, next_ = (values(lambda t: plugrad.polygamma(order, t), at) for at in (x, x + 1))
    assert np.all(np.abs(next_ - (here + step)) <= 1e-14 * (np.abs(here) + np.abs(step)))


def test_derivatives_of_lgamma_are_polygamma_functions():
    x = leaf([0.3, 1.7, 6.0, -0.4])
    for order in range(1, 5):
        expected = plugrad.polygamma(order - 1, x.detach()).array
        np.testing.assert_allclose(derivative(ops.lgamma, x, order), expected, rtol=1e-13)


def test_far_left_of_zero_costs_no_accuracy():
    # sum over k of 1 / (k + 1/2 - 10**6)**2: all but the tail of the two-sided sum pi**2
    assert values(lambda t: plugrad.polygamma(1, t), [0.5 - 1e6])[0] == pytest.approx(
        math.pi**2 - 1e-6, rel=1e-12
    )


def test_poles_are_those_of_pytorch():
    x = [0.0, -0.0, -1.0, -2.0]
    assert values(ops.lgamma, x).tolist() == [math.inf] * 4
    found = values(ops.digamma, x)
    assert found[:2].tolist() == [-math.inf, math.inf]
    assert np.isnan(found[2:]).all()
    assert values(lambda t: plugrad.polygamma(1, t), x).tolist() == [math.inf] * 4


def test_high_orders_stay_in_range():
    assert values(lambda t: plugrad.polygamma(180, t), [200.0])[0] == pytest.approx(
        -5.107e-88, rel=1e-3
    )


def test_polygamma_is_called_in_three_ways():
    x = leaf([1.5])
    expected = plugrad.polygamma(2, x).tolist()
    assert x.polygamma(2).tolist() == expected == plugrad.polygamma(n=2, input=x).tolist()
    with pytest.raises(ValueError, match="0 or greater, got -1"):
        plugrad.polygamma(-1, x)
    with pytest.raises(TypeError, match="integer"):
        plugrad.polygamma(1.5, x)


# ---- erfinv --------------------------------------------------------------------------------------------------


def test_erfinv_inverts_erf():
    x = np.concatenate([np.linspace(-0.999, 0.999, 41), [1e-300, 1e-9, 1 - 1e-12, 2**-53 - 1]])
    y = values(ops.erfinv, x)
    small = np.abs(x) < 0.5
    np.testing.assert_allclose([math.erf(v) for v in y[small]], x[small], rtol=4e-16)
    left = [math.erfc(abs(v)) for v in y[~small]]
    np.testing.assert_allclose(left, 1 - np.abs(x[~small]), rtol=3e-14)


def test_erfinv_at_its_ends():
    found = values(ops.erfinv, [-1.0, 1.0, 0.0, -0.0, 1.5, math.nan])
    assert found[:2].tolist() == [-math.inf, math.inf]
    assert np.signbit(found[2:4]).tolist() == [False, True]
    assert np.isnan(found[4:]).all()


# ---- sinc ----------------------------------------------------------------------------------------------------


def test_sinc_and_its_derivatives_at_zero():
    x = leaf([0.0])
    pi = math.pi
    expected = [1.0, 0.0, -(pi**2) / 3, 0.0, pi**4 / 5, 0.0, -(pi**6) / 7]
    found = [derivative(ops.sinc, x, order)[0] for order in range(7)]
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_sinc_is_accurate_near_zero_and_exact_at_whole_numbers():
    x = leaf([1e-6])
    np.testing.assert_allclose(derivative(ops.sinc, x), [-(math.pi**2) / 3 * 1e-6], rtol=1e-11)
    assert np.all(values(ops.sinc, [1.0, -2.0, 1e9]) == 0)


@pytest.mark.parametrize("order", range(5))
def test_sinc_has_no_seam_between_series_and_recurrence(order):
    edge = (1 + order / 2) / math.pi
    left, right = np.nextafter(edge, 0), np.nextafter(edge, 1)
    a, b = values(lambda x: ops.sinc_derivative(x, order=order), [left, right])
    assert a == pytest.approx(b, rel=1e-13, abs=1e-13 * math.pi**order)


# ---- products with logarithms --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "zero"), [("xlogy", 0.0), ("xlog1py", -1.0)])
def test_zero_wins_against_the_logarithm(name, zero):
    function = getattr(ops, name)
    x, y = leaf([0.0, 0.0, 0.0, 2.0]), leaf([zero, zero - 1, math.nan, zero])
    out = function(x, y)
    assert out.tolist()[:2] == [0, 0]
    assert math.isnan(out.tolist()[2])
    assert out.tolist()[3] == -math.inf
    dx, dy = plugrad.autograd.grad(out.sum(), [x, y])
    assert dx.tolist()[:2] == [0, 0]
    assert dy.tolist()[:2] == [0, 0]
    assert dy.tolist()[3] == math.inf


def test_the_mixed_derivative_of_xlogy_at_zero():
    x, y = leaf([0.0]), leaf([4.0])
    (dy,) = plugrad.autograd.grad(ops.xlogy(x, y).sum(), [y], create_graph=True)
    (mixed,) = plugrad.autograd.grad(dy.sum(), [x])
    assert mixed.tolist() == [0.25]


def test_logit_is_the_inverse_of_sigmoid():
    x = np.array([-4.0, 0.0, 3.0])
    np.testing.assert_allclose(values(lambda t: ops.logit(ops.sigmoid(t)), x), x, rtol=1e-14)
    p = leaf([0.0, 0.1, 0.5, 0.9, 1.0])
    out = plugrad.logit(p, 0.1)
    np.testing.assert_allclose(out.array, np.log([1 / 9, 1 / 9, 1, 9, 9]), rtol=1e-14)
    np.testing.assert_allclose(derivative(lambda t: ops.logit(t, eps=0.1), p), [0, 0, 4, 0, 0])


def test_logit_outside_the_unit_interval_is_no_number():
    p = leaf([-0.5, 1.5])
    assert np.isnan(derivative(ops.logit, p)).all()


# ---- Bessel functions, entropy -------------------------------------------------------------------------------


def test_bessel_functions_at_known_points():
    x = [0.0, 1.0, 5.0, 25.0]
    expected = [1.0, 1.2660658777520084, 27.239871823604442, 5774560606.466303]
    np.testing.assert_allclose(values(ops.i0, x), expected, rtol=1e-14)
    expected = [0.0, 0.5651591039924850, 24.335642142450527, 5657865129.878720]
    np.testing.assert_allclose(values(ops.i1, x), expected, rtol=1e-14)
    scaled = values(ops.i0, x) * np.exp(np.negative(x))
    np.testing.assert_allclose(values(ops.i0e, x), scaled, rtol=1e-14)


def test_bessel_functions_solve_their_equation():
    x = leaf([0.5, -3.0, 10.0])
    first, second = derivative(ops.i0, x, 1), derivative(ops.i0, x, 2)
    np.testing.assert_allclose(x.array * second + first, x.array * ops.i0(x).array, rtol=1e-13)
    assert derivative(ops.i1, leaf([0.0])).tolist() == [0.5]


def test_scaled_bessel_functions_do_not_overflow():
    assert np.isfinite(values(ops.i0e, [800.0, -1e300])).all()
    assert np.isinf(values(ops.i0, [800.0])).all()
    assert values(ops.i1, [-800.0]).tolist() == [-math.inf]


def test_entropy():
    x = leaf([0.0, 1.0, -1.0])
    assert values(ops.entr, x.array).tolist() == [0.0, 0.0, -math.inf]
    assert derivative(ops.entr, leaf([0.0, 1.0])).tolist() == [math.inf, -1.0]


# ---- compiled loops ------------------------------------------------------------------------------------------

EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1.5, -1.5, math.inf, -math.inf, math.nan, 0.9995, -0.9999, 1e-300, -1e-300]  # fmt: skip
LOOPS = {
    "lgamma": lambda x: ops.lgamma.function(x),
    "digamma": lambda x: ops.digamma.function(x),
    "polygamma_of_order": lambda x: ops.polygamma_of_order.function(x, order=1),
    "erfinv": lambda x: ops.erfinv.function(x),
    "sinc": lambda x: ops.sinc.function(x),
    "sinc_derivative": lambda x: ops.sinc_derivative.function(x, order=1),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LOOPS)
def test_loops_agree_with_the_formulas_one_number_at_a_time(name, dtype):
    rng = np.random.default_rng(8)
    with np.errstate(under="ignore"):
        x = np.concatenate([EDGES, rng.normal(size=700) * 3, rng.uniform(-1, 1, 700)]).astype(dtype)
    for array in (x, x[:1], x[:700].reshape(70, 10).T, x[::-2], x[:0]):
        found = getattr(ops, name)(plugrad.from_numpy(array)).array
        # Near their zeros functions differ by what the terms that cancel there were rounded by.
        tolerance = 8 * np.finfo(dtype).eps
        np.testing.assert_allclose(found, LOOPS[name](array), rtol=tolerance, atol=4 * tolerance)
        assert found.dtype == array.dtype


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfinv", "sinc"])
def test_compiled_gradients_are_those_of_the_rules(name, dtype):
    rng = np.random.default_rng(9)
    x = rng.uniform(-0.98, 0.98, (50, 60)).astype(dtype)
    for array in (x, x.T, x[::-1, ::2], np.array(x[0, 0])):
        point = plugrad.from_numpy(array).requires_grad_()
        out = getattr(ops, name)(point)
        one = Tensor(np.array(2, dtype)).expand(array.shape)
        for grad in (Tensor(rng.standard_normal(array.shape).astype(dtype)), one):
            (fused,) = plugrad.autograd.grad(out, [point], grad, retain_graph=True)
            (recorded,) = plugrad.autograd.grad(out, [point], grad, create_graph=True)
            tolerance = 1e-5 if dtype == "float32" else 1e-12
            np.testing.assert_allclose(fused.array, recorded.detach().array, tolerance, tolerance)


def test_sinc_is_exact_at_whole_and_half_numbers():
    assert values(ops.sinc, [1.0, -7.0, 2.0**52 + 1, 1e300]).tolist() == [0.0] * 4
    assert values(ops.sinc, [0.5, 2.5])[0] == 2 / math.pi
    assert derivative(ops.sinc, leaf([2.0, 3.0])).tolist() == [0.5, -1 / 3]


def test_lgamma_of_floats_is_exactly_zero_at_its_zeros():
    assert ops.lgamma(Tensor(np.array([1, 2], np.float32))).tolist() == [0.0, 0.0]


# ---- dtypes and names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfinv", "sinc", "logit", "i0"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_lower_dtypes_are_rounded_once(name, dtype):
    x = np.array([0.25, 0.5, 0.75], dtype)
    out = getattr(plugrad, name)(Tensor(x))
    assert out.dtype == np.dtype(dtype)
    exact = getattr(plugrad, name)(Tensor(x.astype(np.float64))).array
    np.testing.assert_allclose(out.array, exact, rtol=2 * np.finfo(dtype).eps, atol=1e-7)


@pytest.mark.parametrize("name", ["lgamma", "digamma", "sinc", "i0"])
def test_integers_give_float32(name):
    assert getattr(plugrad, name)(plugrad.tensor([1, 2])).dtype == np.float32


def test_the_namespace_special():
    assert plugrad.special.expit is plugrad.sigmoid
    assert plugrad.special.psi is plugrad.digamma
    assert plugrad.special.erfinv is plugrad.erfinv
    assert all(callable(getattr(plugrad.special, name)) for name in dir(plugrad.special))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        plugrad.special.nothing  # noqa: B018


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("name", "slope"), [("xlogy", np.log(0.001)), ("xlog1py", np.log1p(0.001))]
)
def test_a_number_whose_logarithm_is_taken_is_not_rounded_to_float32(name, slope, create_graph):
    x = leaf([0.5, 0.0])
    getattr(ops, name)(x, 0.001).sum().backward(create_graph=create_graph)
    np.testing.assert_allclose(x.grad.detach().numpy(), [slope, slope], rtol=1e-15)


def test_products_with_the_logarithm_of_zero_are_flat_at_zero():
    x = leaf([0.5, 0.0])
    ops.xlogy(x, 0.0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [-np.inf, 0.0])
