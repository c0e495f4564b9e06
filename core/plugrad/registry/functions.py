"""The functions of formulas: on arrays, and their gradients.

The gradients are formulas of the same language, so that a new function is one line here. Functions
that NumPy lacks are written so that no argument overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

__all__ = ["FUNCTIONS", "HOLDS", "INFIX", "NUMPY", "Function"]

LN_2, LN_10 = math.log(2.0), math.log(10.0)


# ---------------------------------------------------------------------- functions, without overflow


def sigmoid(x: Any) -> Any:
    t = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, t) / (1 + t)


def softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


class Function(NamedTuple):
    """A function of formulas: on arrays, and the gradient of each argument.

    In a gradient, a, b, c are the arguments, y is the value and g the incoming gradient; None says
    that the derivative is zero wherever it exists. ``kink`` is zero where it does not exist.
    ``selects`` says that the value is one of the arguments, or a number.
    """

    numpy: Callable[..., Any]
    gradients: tuple[str | None, ...]
    kink: str | None = None
    selects: bool = False


FUNCTIONS: dict[str, Function] = {
    "exp": Function(np.exp, ("g * y",)),
    "exp2": Function(np.exp2, (f"g * y * {LN_2}",)),
    "expm1": Function(np.expm1, ("g * (y + 1)",)),
    "log": Function(np.log, ("g / a",)),
    "log2": Function(np.log2, (f"g / (a * {LN_2})",)),
    "log10": Function(np.log10, (f"g / (a * {LN_10})",)),
    "log1p": Function(np.log1p, ("g / (1 + a)",)),
    "sqrt": Function(np.sqrt, ("0.5 * g / y",)),
    "rsqrt": Function(rsqrt, ("-0.5 * g * y / a",)),
    "square": Function(np.square, ("2 * g * a",)),
    "reciprocal": Function(np.reciprocal, ("-g * y * y",)),
    "sin": Function(np.sin, ("g * cos(a)",)),
    "cos": Function(np.cos, ("-g * sin(a)",)),
    "tan": Function(np.tan, ("g * (1 + y * y)",)),
    "asin": Function(np.arcsin, ("g * rsqrt(1 - a * a)",)),
    "acos": Function(np.arccos, ("-g * rsqrt(1 - a * a)",)),
    "atan": Function(np.arctan, ("g / (1 + a * a)",)),
    "sinh": Function(np.sinh, ("g * cosh(a)",)),
    "cosh": Function(np.cosh, ("g * sinh(a)",)),
    "tanh": Function(np.tanh, ("g * (1 - y * y)",)),
    # y * (1 - y) would lose its digits where y is near 1.
    "sigmoid": Function(sigmoid, ("g * y * sigmoid(-a)",)),
    "softplus": Function(softplus, ("g * sigmoid(a)",)),
    "relu": Function(relu, ("where(a > 0, g, 0)",), kink="a", selects=True),
    "abs": Function(np.abs, ("g * sign(a)",), kink="a"),
    "sign": Function(np.sign, (None,), kink="a"),
    # At a tie both arguments share the gradient.
    "maximum": Function(
        np.maximum,
        (
            "where(a > b, g, where(a == b, 0.5 * g, 0))",
            "where(b > a, g, where(a == b, 0.5 * g, 0))",
        ),
        kink="a - b",
        selects=True,
    ),
    "minimum": Function(
        np.minimum,
        (
            "where(a < b, g, where(a == b, 0.5 * g, 0))",
            "where(b < a, g, where(a == b, 0.5 * g, 0))",
        ),
        kink="a - b",
        selects=True,
    ),
    "where": Function(np.where, (None, "where(a, g, 0)", "where(a, 0, g)"), selects=True),
}

INFIX: dict[str, Function] = {
    "+": Function(np.add, ("g", "g")),
    "-": Function(np.subtract, ("g", "-g")),
    "*": Function(np.multiply, ("g * b", "g * a")),
    "/": Function(np.divide, ("g / b", "-g * y / b")),
    # y * log(a) is 0 at a = 0, y = 0, where the plain product would be NaN.
    "**": Function(np.power, ("g * (b * a ** (b - 1))", "g * (y * log(where(a == 0, 1, a)))")),
    "neg": Function(np.negative, ("-g",)),
}

HOLDS = {">": gt, ">=": ge, "<": lt, "<=": le, "==": eq, "!=": ne}
"""Whether a comparison of two numbers holds."""

NUMPY = SimpleNamespace(**{name: function.numpy for name, function in FUNCTIONS.items()})
"""The functions on arrays, under the names that operators have."""
