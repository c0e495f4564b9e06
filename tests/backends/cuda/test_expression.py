"""What expressions of kernels may be, and how they are written for the compiler."""

import pytest

from plugrad.backends.cuda.expression import check_expression, check_parameters, names_in, written


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x + alpha * y", ["x", "alpha", "y"]),
        ("exp(x) * sigmoid(-x)", ["x"]),
        ("x < y ? x : y", ["x", "y"]),
        ("a.mean + b.n * other.mean", ["a", "b", "other"]),
        ("static_cast<float>(x) + highest<T>()", ["x", "T"]),
        ("1e5f * x1 + 0x1F", ["x1"]),
        ("x /* and y */ + z", ["x", "z"]),
        ("true ? INF : NAN", ["INF", "NAN"]),
    ],
)
def test_names(text, names):
    assert names_in(text) == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x + foo", "'foo', which is unknown; known names: x, y"),
        ("x + inputs", "known names"),
        ("xx", "did you mean 'x'"),
        ("x ** 2", "pow"),
        ("x // y", "floor_divide"),
        ("x if x > 0 else y", r"c \? a : b"),
        ("x and y", "&&"),
        ("True", "true"),
        ("x; y", "one C expression"),
        ("x, 1", "has a comma"),
        ("(x)), (y", "closes a"),
        ("x * (2", r"does not close its '\('"),
        ("max(x, y", r"does not close its '\('"),
        ("max(x], y", r"closes a '\]'"),
        ("x * 2 +", r"ends with '\+', an operand is missing"),
        ("x && /* or so */", "ends with '&&'"),
        ("", "C text"),
        ("  ", "C text"),
        (None, "C text"),
    ],
)
def test_refused(text, words):
    with pytest.raises(ValueError, match=f"my::op.*{words}"):
        check_expression("my::op", text, ("x", "y"))


def test_names_used_are_returned():
    assert check_expression("op", "y * T(2) + PI", ("x", "y")) == ["y"]


@pytest.mark.parametrize("name", ["class", "T", "INF", "pg_x", "1x", "x y", "x", "float"])
def test_parameters_refused(name):
    with pytest.raises(ValueError, match="op: "):
        check_parameters("op", ("x", name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5 * x", "T(0.5) * x"),
        ("1e-3f * x", "T(1e-3) * x"),
        (".5 + 1. + x", "T(.5) + T(1.) + x"),
        ("2 * x", "2 * x"),
        ("0x1F + x", "0x1F + x"),
        ("x / 2", "x / 2"),
        ("1 / x", "1 / x"),
        ("1 / 2", "1 / T(1) / 2"),
        ("n / m", "n / T(1) / m"),
        ("1 / f(x)", "1 / T(1) / f(x)"),
        ("1 / x.m", "1 / T(1) / x.m"),
        ("1.0 / n", "T(1.0) / n"),
        ("PI / 2", "T(3.14159265358979323846) / 2"),
        ("  x\n+ 1.5 ", "x\n+ T(1.5)"),
    ],
)
def test_written(text, expected):
    assert written(text, "T", {"x"}) == expected
