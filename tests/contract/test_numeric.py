"""Numerical derivatives: steps, refinement and the tolerance, against derivatives known exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugrad.contract import numeric

finite = st.floats(min_value=-1e6, max_value=1e6, allow_subnormal=False)


@given(st.lists(finite, min_size=1, max_size=8))
def test_steps_are_powers_of_two_of_the_right_size(values):
    x = np.array(values)
    h = numeric.steps(x)
    assert (np.frexp(h)[0] == 0.5).all()
    assert (h > 0).all()
    scale = np.maximum(np.abs(x), 1e-3 * np.abs(x).max())
    large = scale > 0
    assert (h[large] < 1e-2 * np.maximum(np.abs(x), 0.05 * min(np.abs(x).max(), 1.0))[large]).all()


def test_steps_of_zeros_and_of_nothing():
    np.testing.assert_array_equal(numeric.steps(np.zeros(2)), numeric.steps(np.ones(2)))
    assert numeric.steps(np.zeros((0, 3))).shape == (0, 3)
    assert np.isfinite(numeric.steps(np.array([np.inf, np.nan, 1.0]))).all()


@given(st.integers(-1000, 1000), st.integers(-1000, 1000).map(float))
def test_a_linear_function_of_integers_is_differentiated_exactly(slope, x):
    value, _ = numeric.along(
        lambda arrays: slope * arrays[0], [np.array([x])], 0, np.array([2.0**-16])
    )
    assert value[0] == slope * 2.0**-16


FUNCTIONS = [
    ("exp", np.exp, np.exp, 0.3),
    ("steep", lambda x: np.sin(60 * x), lambda x: 60 * np.cos(60 * x), 0.31),
    ("pole", lambda x: 1 / x, lambda x: -1 / x**2, 1e-3),
    ("large offset", lambda x: 1e6 + x * x, lambda x: 2 * x, 0.7),
    ("tiny", lambda x: 1e-12 * np.tanh(x), lambda x: 1e-12 / np.cosh(x) ** 2, 0.4),
    ("large argument", np.sqrt, lambda x: 0.5 / np.sqrt(x), 1e8),
    ("cancelling", lambda x: 1 - np.cos(x), np.sin, 1e-2),
    ("saturated", lambda x: 1 - np.tanh(8 * x) ** 2, None, 1.5),
]


@pytest.mark.parametrize(
    ("function", "derivative", "x"), [f[1:] for f in FUNCTIONS], ids=[f[0] for f in FUNCTIONS]
)
def test_refinement_is_as_good_as_it_says(function, derivative, x):
    point = np.array([x])
    h = numeric.steps(point)
    slope, error, _ = numeric.refine(lambda arrays: function(arrays[0]), [point], 0, h)
    slope, error = slope[0] / h[0], error[0] / h[0]
    if derivative is None:
        t = np.tanh(8 * np.longdouble(x))
        wanted = float(-2 * t * 8 * (1 - t * t))
    else:
        wanted = float(derivative(x))
    assert abs(slope - wanted) <= 8 * error
    assert error <= 1e-4 * abs(wanted) + 1e-12 / x


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_refinement_finds_polynomials(seed):
    rng = np.random.default_rng(seed)
    coefficients = rng.standard_normal(5)
    x = rng.standard_normal(3)
    slope, error, _ = numeric.refine(
        lambda arrays: np.polyval(coefficients, arrays[0]), [x], 0, numeric.steps(x)
    )
    wanted = np.polyval(np.polyder(coefficients), x)
    got = slope / numeric.steps(x)
    assert (np.abs(got - wanted) <= 8 * error / numeric.steps(x) + 1e-12).all(), seed


def test_a_jump_does_not_settle():
    _, error, noise = numeric.refine(
        lambda arrays: np.floor(arrays[0]), [np.array([1.0])], 0, np.array([2.0**-17])
    )
    assert error[0] > 1e-3
    assert error[0] > 64 * noise[0]


def test_jacobian_block_and_elementwise_slopes_agree():
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((3, 4)), rng.standard_normal(4)

    def f(arrays):
        return (np.sin(arrays[0]) * arrays[1]).reshape(-1)

    block, noise = numeric.jacobian_block(f, [x, y], 0, 12)
    np.testing.assert_allclose(block, np.diag((np.cos(x) * y).reshape(-1)), atol=1e-9)
    assert (noise[block == 0] >= 0).all()
    slope, _ = numeric.elementwise_slopes(f, [x, y], 1, (3, 4), numeric.steps(y))
    np.testing.assert_allclose(slope.reshape(3, 4), np.sin(x), atol=1e-9)


def test_apart_counts_relative_to_element_scale_and_slack():
    one = np.array([1.0])
    assert not numeric.apart(one, one + 1e-7, 0.0, 1.0)[0]
    assert numeric.apart(one, one + 1e-5, 0.0, 1.0)[0]
    assert not numeric.apart(one, one + 1e-5, 1e-4, 1.0)[0]
    assert numeric.apart(0 * one, 1e-20 * one, 0.0, 1e-20)[0]
    assert not numeric.apart(0 * one, 1e-20 * one, 0.0, 1.0)[0]
    assert numeric.apart(np.array([np.nan]), one, 0.0, 1.0)[0]
    assert not numeric.apart(np.array([np.inf]), np.array([np.inf]), 0.0, 1.0)[0]


@given(
    st.sampled_from([(2, 3, 4), (3, 4), (4,), (1, 4), (2, 1, 4), (), (2, 1, 1)]),
)
def test_sum_to_is_the_adjoint_of_broadcasting(shape):
    rng = np.random.default_rng(3)
    big, small = rng.standard_normal((2, 3, 4)), rng.standard_normal(shape)
    left = np.sum(big * np.broadcast_to(small, big.shape))
    summed = numeric.sum_to(big, shape)
    assert summed.shape == shape
    np.testing.assert_allclose(left, np.sum(summed * small))


def test_differs_counts_rounding_of_the_largest_element():
    a = np.array([1.0, 1e-12])
    assert numeric.differs(a, a) is None
    assert numeric.differs(a + np.array([0.0, 1e-16]), a) is None
    assert numeric.differs(a + np.array([0.0, 1e-9]), a) == 1
    assert numeric.differs(np.array([np.nan, 1.0]), np.array([np.nan, 1.0])) is None
    assert numeric.differs(np.array([np.nan, 1.0]), np.array([0.0, 1.0])) == 0
    assert numeric.differs(np.array([1, 2]), np.array([1, 3])) == 1
    assert numeric.differs(np.zeros(2), np.zeros(3)) == 0


def test_what_cancelled_is_judged_by_the_size_of_its_terms():
    # Equal seeds give softmax a gradient of zero: two ways of summing leave different rounding of terms near 1.
    left, none = np.array([1.1e-16, -5e-17]), np.zeros(2)
    assert numeric.differs(left, none, 1024) is not None
    assert numeric.differs(left, none, 1024, around=1.0) is None
    assert numeric.differs(np.array([1e-9, 0.0]), none, 1024, around=1.0) == 0


def test_random_sizes_are_exact_and_differ():
    sizes = numeric.random_sizes(np.random.default_rng(3), 1000)
    assert (np.abs(sizes) >= 0.5).all()
    assert (np.abs(sizes) <= 1.0).all()
    assert (sizes * 1024 == np.rint(sizes * 1024)).all()
    assert len(np.unique(sizes)) > 500
    assert (sizes > 0).any()
    assert (sizes < 0).any()


def test_moving_several_arrays_at_once_adds_what_each_of_them_changes():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(4), rng.standard_normal(4)

    def f(arrays):
        return np.sin(arrays[0]) * arrays[1] ** 2

    steps = {k: numeric.steps(array) for k, array in enumerate([x, y])}
    together, noise = numeric.along_all(f, [x, y], steps)
    alone = sum(numeric.along(f, [x, y], k, step)[0] for k, step in steps.items())
    np.testing.assert_allclose(together, alone, rtol=1e-8)
    assert (noise > 0).all()
    exact = np.cos(x) * y**2 * steps[0] + 2 * np.sin(x) * y * steps[1]
    np.testing.assert_allclose(together, exact, rtol=1e-8)
