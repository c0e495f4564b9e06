"""Whole operators from one expression: the language, the derivative, dtypes, samples, errors."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad.graph.op import READY
from plugrad.registry import DeclarationError
from plugrad.registry.expression import elementwise
from plugrad.registry.functions import FUNCTIONS, NUMPY


def gradient(op, *arrays, grad=None, needs=None, **constants):
    """What the rule gives on arrays, one gradient per input."""
    out = op.function(*arrays, **constants)
    values = dict(zip(op.schema.inputs, arrays)) | op.schema.defaults | constants
    values |= {"out": out, "grad": np.ones_like(out) if grad is None else grad}
    values["needs"] = type("Needs", (), dict.fromkeys(op.schema.inputs, True) | (needs or {}))
    kernel = op.rule_kernel
    found = kernel(*(values[name] for name in inspect.signature(kernel).parameters))
    return found if isinstance(found, tuple) else (found,)


def numerical(op, i, *arrays, step=1e-6, **constants):
    """Central differences in the i-th input."""
    low, high = list(arrays), list(arrays)
    low[i], high[i] = arrays[i] - step, arrays[i] + step
    return (op.function(*high, **constants) - op.function(*low, **constants)) / (2 * step)


X = np.linspace(0.1, 0.9, 9)
Y = X[::-1] ** 2 + 0.03


# --------------------------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("name", [name for name, f in FUNCTIONS.items() if len(f.gradients) == 1])
def test_derivatives_of_functions_of_one_argument(name):
    if name == "sign":
        op = elementwise("my::f", "x * sign(x - 0.45)")
    else:
        op = elementwise("my::f", f"{name}(x)")
    with np.errstate(all="ignore"):
        everywhere = np.all(np.isfinite(op.function(X - 0.95)))
    for x in (X, X - 0.95) if everywhere else (X,):
        np.testing.assert_allclose(gradient(op, x)[0], numerical(op, 0, x), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "expression",
    [
        "x + y",
        "x - y",
        "x * y",
        "x / y",
        "x ** y",
        "-x / -y",
        "maximum(x, y)",
        "minimum(x, y)",
        "where(x > y, x * y, x - y)",
        "where(x <= 2 * y, exp(x), y)",
        "x * sigmoid(y * x)",
        "(x - y) ** 2 / (x + y)",
        "x ** 3 - 2 ** y + x ** -y",
        "log(x) * (y - (x - 1))",
        "tanh(x / y) - -x * +y",
        "exp(x * y) / exp(x * y + 1) ** 0.5",
        "sin(pi * x) * cos(pi * y) / (1 - x / 2) / y",
    ],
)
def test_derivatives_in_two_arguments(expression):
    op = elementwise("my::f", expression)
    assert op.schema.inputs == ("x", "y")
    names = {**vars(NUMPY), "pi": np.pi, "x": X, "y": Y}
    np.testing.assert_allclose(op.function(X, Y), eval(expression, {}, names), rtol=1e-14)
    for i, found in enumerate(gradient(op, X, Y)):
        np.testing.assert_allclose(found, numerical(op, i, X, Y), rtol=1e-7, atol=1e-9)


analytic = st.recursive(
    st.sampled_from(["x", "y", "x", "y", "2", "0.5", "1", "3.0", "-1"]),
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from("+-*"), part).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(part, part).map(lambda t: f"{t[0]} / (3 + sin({t[1]}))"),
        st.tuples(st.sampled_from(["sin", "cos", "tanh"]), part).map(lambda t: f"{t[0]}({t[1]})"),
        part.map(lambda t: f"exp(tanh({t}))"),
        part.map(lambda t: f"-{t}"),
        part.map(lambda t: f"({t}) ** 2"),
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(analytic)
def test_derivatives_of_random_expressions(text):
    """The complex step of the text itself gives the derivative to rounding, sharing no code with ours."""
    text = f"x * y * 0 + ({text}) + x + y"  # both names, whatever was drawn
    op = elementwise("my::f", text)
    x, y = np.array([0.3, -0.7, 1.1]), np.array([0.9, 0.2, -0.4])

    def step(dx, dy):
        names = {**vars(np), "x": x + 1e-30j * dx, "y": y + 1e-30j * dy}
        return np.imag(eval(text, {}, names)) / 1e-30

    with np.errstate(all="ignore"):
        expected = step(1, 0), step(0, 1)
        if not np.all(np.abs(expected) < 1e100):
            return
        scale = 1 + max(np.max(np.abs(e)) for e in expected)
        for found, wanted in zip(gradient(op, x, y), expected):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * scale)


def test_the_incoming_gradient_multiplies():
    op = elementwise("my::f", "x * tanh(softplus(x))")
    seed = np.linspace(-2, 3, X.size)
    np.testing.assert_allclose(gradient(op, X, grad=seed)[0], seed * gradient(op, X)[0], rtol=1e-14)


def test_gradients_broadcast_with_the_output():
    op = elementwise("my::f", "x * exp(y)")
    x, y = X.reshape(3, 3), Y[:3]
    dx, dy = gradient(op, x, y)
    assert dx.shape == dy.shape == (3, 3)
    np.testing.assert_allclose(dy, x * np.exp(y))


def test_ties_share_the_gradient_and_kinks_take_the_smallest():
    zero = np.zeros(1)
    assert [g[0] for g in gradient(elementwise("my::f", "maximum(x, y)"), zero, zero)] == [0.5, 0.5]
    assert [g[0] for g in gradient(elementwise("my::f", "minimum(x, y)"), zero, zero)] == [0.5, 0.5]
    assert gradient(elementwise("my::f", "relu(x)"), zero)[0] == 0
    assert gradient(elementwise("my::f", "abs(x)"), zero)[0] == 0


def test_a_power_of_zero_has_a_finite_gradient_in_the_exponent():
    _, dp = gradient(elementwise("my::f", "x ** p"), np.zeros(1), np.full(1, 2.0))
    assert dp == 0


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("where(x > 0, x, exp(x) - 1)", 1.0),
        ("where(x <= 0, exp(x) - 1, x)", 1.0),
        ("minimum(exp(x), 2.0)", 0.0),
        ("maximum(-exp(x), x)", 1.0),
        ("relu(1 - exp(x)) + x", 1.0),
        ("where(x > 0, where(x > 1, x, log(0 * x)), exp(x)) * 2", 2.0),
    ],
)
def test_an_infinity_that_was_not_selected_leaves_the_gradient_alone(expression, expected):
    with np.errstate(all="ignore"):
        found = gradient(elementwise("my::f", expression), np.array([1e4]))[0]
    np.testing.assert_array_equal(found, [expected])


def test_large_arguments_neither_overflow_nor_warn():
    x = np.array([-1e4, -800.0, 800.0, 1e4])
    with np.errstate(over="raise", invalid="raise"):
        np.testing.assert_array_equal(NUMPY.sigmoid(x), [0, 0, 1, 1])
        np.testing.assert_array_equal(NUMPY.softplus(x), [0, 0, 800, 1e4])
    np.testing.assert_allclose(NUMPY.sigmoid(np.array(-30.0)), np.exp(-30.0), rtol=1e-12)


# ------------------------------------------------------------------------------ the functions made


def test_the_output_is_used_where_the_derivative_contains_it():
    assert elementwise("my::f", "exp(x)")._saved_names == ("out",)
    assert elementwise("my::f", "tanh(x)")._saved_names == ("out",)
    assert elementwise("my::f", "x + y")._saved_names == ()
    assert elementwise("my::f", "x * y")._saved_names == ("x", "y")


def test_common_subexpressions_are_computed_once():
    op = elementwise("my::f", "tanh(x * y) * x + tanh(x * y) * y")
    for function in (op.function, op.rule):
        assert inspect.getsource(function).count("tanh") == 1


def test_a_gradient_that_nobody_needs_is_not_computed():
    op = elementwise("my::f", "x * exp(y)")
    dx, dy = gradient(op, X, Y, needs={"y": False})
    assert dy is None
    np.testing.assert_allclose(dx, np.exp(Y))


def test_temporaries_of_one_gradient_are_not_used_by_another():
    op = elementwise("my::f", "square(sin(x)) * x * square(cos(y)) * y")
    for names in ({"x": False}, {"y": False}):
        for i, found in enumerate(gradient(op, X, Y, needs=names)):
            if found is not None:
                np.testing.assert_allclose(found, numerical(op, i, X, Y), rtol=1e-7, atol=1e-9)


def test_parameters_may_have_the_names_of_temporaries():
    op = elementwise("my::f", "sigmoid(t1 * grad_t1) * t1 * sigmoid(t1 * grad_t1)")
    for i, found in enumerate(gradient(op, X, Y)):
        np.testing.assert_allclose(found, numerical(op, i, X, Y), rtol=1e-7)


def test_an_operator_may_have_the_name_of_a_function_in_it():
    op = elementwise("my::softplus", "softplus(3 * x) / 3")
    np.testing.assert_allclose(op.function(X), NUMPY.softplus(3 * X) / 3)


def test_what_the_operator_says_about_itself():
    op = elementwise("my::mish", " x * tanh(softplus(x))")
    assert op.module == op.function.__module__ == __name__
    assert op.__doc__ == "x * tanh(softplus(x)), element by element."
    assert op.expression == op.cuda == " x * tanh(softplus(x))"
    assert op.schema.elementwise
    assert repr(op) == "<operator my::mish(x)>"
    assert inspect.getsource(op.function).startswith("def mish(x):\n    return x * ")
    assert op.problems() == []
    assert elementwise("my::f", "x * x", doc="A square.", method=True).__doc__ == "A square."


def test_parameters_can_be_put_in_order():
    op = elementwise("my::f", "beta * x", parameters=("x", "beta"))
    assert op.schema.inputs == ("x", "beta")
    assert elementwise("my::f", "beta * x").schema.inputs == ("beta", "x")
    assert elementwise("my::f", "x * x", parameters="x").schema.inputs == ("x",)


def test_constants_are_keyword_only_numbers():
    op = elementwise(
        "my::elu", "where(x > 0, x, alpha * expm1(x)) * exp(alpha)", constants={"alpha": 0.5}
    )
    assert (op.schema.inputs, op.schema.constants) == (("x",), ("alpha",))
    assert op.schema.defaults == {"alpha": 0.5}
    x = X - 0.45
    for alpha in (0.5, 2.0):
        found = gradient(op, x, alpha=alpha)[0]
        np.testing.assert_allclose(found, numerical(op, 0, x, alpha=alpha), rtol=1e-6)


# ------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    "expression",
    [
        "x * tanh(b)",
        "x ** b",
        "x / (1 / b)",
        "maximum(x, b)",
        "where(x > 0.5, b, 1.0) * x",
        "x + where(b > 0, x, b)",
    ],
)
def test_python_numbers_do_not_widen_the_dtype(expression):
    op = elementwise("my::f", expression, parameters=("x", "b"))
    x = X.astype(np.float32)
    assert op.function(x, 0.75).dtype == np.float32
    for found, wanted in zip(gradient(op, x, 0.75), gradient(op, X, np.full_like(X, 0.75))):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_constants_do_not_widen_the_dtype():
    op = elementwise("my::f", "x * exp(a)", constants={"a": 1.0})
    x = X.astype(np.float32)
    assert op.function(x).dtype == gradient(op, x)[0].dtype == np.float32


def test_a_zero_number_divides_like_an_array():
    op = elementwise("my::f", "x * (1 / b)")
    with np.errstate(all="ignore"):
        assert np.all(np.isinf(op.function(X, 0)))


# -------------------------------------------------------------------------------------------- kinks


def test_kinks_are_where_arguments_change_sign():
    op = elementwise("my::f", "relu(x - 1) + maximum(x, 2 * y)")
    x, y = np.array([1.0, 4.0, 2.0]), np.array([9.0, 2.0, 0.0])
    assert op.kinks(x, y, tol=1e-6).tolist() == [True, True, False]
    near = elementwise("my::f", "where(x > a, x, a)", constants={"a": 0.5}).kinks
    assert near(np.array([0.5, 0.6]), tol=1e-3).tolist() == [True, False]
    assert near(np.array([0.5, 0.6]), tol=1e-3, a=0.6).tolist() == [False, True]
    assert elementwise("my::f", "tanh(x)").kinks is None


def test_declared_kinks_are_kept():
    assert elementwise("my::f", "relu(x)", kinks={0: 0}).kinks == {0: 0}


# ------------------------------------------------------------------------------------------ samples


class Make:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def normal(self, *shape):
        return self.rng.standard_normal(shape)

    def uniform(self, *shape, low, high):
        return self.rng.uniform(low, high, shape)

    def call(self, *arrays):
        return arrays


@pytest.mark.parametrize(
    "expression", ["tanh(x)", "log(x)", "x * sigmoid(b * x)", "asin(x) * sqrt(y)"]
)
def test_default_samples_lie_in_the_domain(expression):
    op = elementwise("my::f", expression)
    samples = list(op.sampler(Make()))
    assert len(samples) >= 3
    for arrays in samples:
        assert len(arrays) == len(op.schema.inputs)
        assert np.all(np.isfinite(op.function(*arrays)))


def test_default_samples_reach_beyond_the_unit_interval_where_they_can():
    (first, *_) = elementwise("my::f", "tanh(x)").sampler(Make())
    assert first[0].min() < 0 and first[0].max() > 1


def test_an_author_may_give_other_samples_once():
    op = elementwise("my::f", "tanh(x)")

    @op.samples
    def _(make):
        yield make.call(1)

    assert op.sampler is _
    with pytest.raises(DeclarationError, match="samples were given twice"):
        op.samples(lambda make: ())
    given = elementwise("my::f", "tanh(x)", samples=_)
    with pytest.raises(DeclarationError, match="samples were given twice"):
        given.samples(lambda make: ())


# ------------------------------------------------------------------------------------- the battery


@pytest.mark.parametrize(
    "expression",
    [
        "x * tanh(softplus(x))",
        "x * sigmoid(beta * x)",
        "where(x > 0, x, alpha * (exp(x) - 1))",
        "x * tanh(beta * x)",
        "abs(x) * tanh(y) - maximum(x, y)",
        "log(x) * x ** y",
    ],
)
def test_the_rule_passes_the_battery(expression):
    op = elementwise("my::f", expression)
    plugrad.registry.verify(op, fresh=True)
    assert op.state == READY


# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (
            "x * sigmiod(x)",
            "there is no function 'sigmiod'; known are abs, .*; did you mean 'sigmoid'",
        ),
        ("__import__('os')", "there is no function '__import__'"),
        ("x.real", "'x.real' is not part of a formula"),
        ("x[0]", "is not part of a formula"),
        ("np.exp(x)", "is not part of a formula"),
        ("[x for x in y]", "is not part of a formula"),
        ("x % 2", "is not part of a formula"),
        ("not x", "is not part of a formula"),
        ("x and y", "is not part of a formula"),
        ("x * True", "is not part of a formula"),
        ("x * 2j", "is not part of a formula"),
        ("x + 'a'", "is not part of a formula"),
        ("1e999 * x", "is not finite"),
        ("x > 0", "comparison 'x > 0' only makes sense"),
        ("1 + (x > 0)", "only makes sense as the first argument of where"),
        ("where(x, 1, x)", "'x' is no comparison"),
        ("where(0 < x < 1, x, 1)", "is not part of a formula"),
        ("where(x > 0, 1, 2)", "both branches of .* are numbers; multiply inside"),
        ("exp(x, 2)", r"exp takes 1 argument, got 'exp\(x, 2\)'"),
        ("maximum(x)", "maximum takes 2 arguments"),
        ("exp(x=2)", "exp takes 1 argument"),
        ("x * exp", "'exp' cannot be a parameter"),
        ("x * ops", "'ops' cannot be a parameter"),
        ("x * _y", "'_y' cannot be a parameter"),
        ("2 + 2", "there is no parameter"),
        ("x +", "syntax error"),
        ("x = 2", "syntax error"),
        ("", "syntax error"),
        (3, "an expression is a string, got 3"),
        ("grad * x", "cannot be called 'grad'"),
        ("sign(x)", "derivative of its expression is zero everywhere"),
        ("+".join(["-(x"] * 5000) + ")" * 5000, "nesting is too deep|syntax error"),
    ],
)
def test_what_is_no_formula(expression, words):
    with pytest.raises(DeclarationError, match=words) as caught:
        elementwise("my::f", expression)
    assert "my::f" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"parameters": ("x",)}, "'beta' is no parameter; those are x"),
        ({"parameters": ("x", "beta", "z")}, "'z' is not used"),
        ({"parameters": ("x", "beta"), "constants": {"c": 1}}, "'c' is not used"),
        ({"parameters": ("x", "exp")}, "'exp' cannot be the name of a parameter"),
        ({"constants": {"beta": "1"}}, "a constant of an expression is a number, got beta='1'"),
        ({"constants": {"x": 1, "beta": 1}}, "there is no parameter"),
        ({"kinks": 3}, "kinks is"),
        ({"samples": 3}, "expected a function"),
    ],
)
def test_parameters_that_do_not_fit(given, words):
    with pytest.raises(DeclarationError, match=words):
        elementwise("my::f", "x * beta", **given)
