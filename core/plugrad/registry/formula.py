"""Formulas: the language of `plugrad.elementwise`, as a graph of distinct subexpressions.

(a) A formula is Python arithmetic over parameters, numbers and the functions of one table; anything
    else is refused when it is read. Nothing that the author wrote is ever evaluated as code.
(b) Each distinct subexpression is one row of a `Graph`, named by its number, and arguments have
    smaller numbers than what uses them. Common subexpressions therefore need no search, and going
    through the numbers backwards is reverse-mode differentiation.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from plugrad.registry.errors import DeclarationError
from plugrad.registry.functions import FUNCTIONS, HOLDS, INFIX
from plugrad.registry.schema import did_you_mean, is_identifier, one_of

__all__ = ["Graph", "Reader", "parse", "read_formula"]

TAKEN = ("pi", "ops", "tol")  # names with a meaning of their own in what is written from a formula

COMPARISONS: dict[type[ast.AST], str] = {
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}

BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
}


# -------------------------------------------------------------------------------------------- graph

Row = tuple[Any, ...]


class Graph:
    """Distinct subexpressions, each one row.

    A row is ``("name", text)``, ``("number", value)`` or an operation and the numbers of its
    arguments' rows.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._numbers: dict[Row, int] = {}

    def name(self, text: str) -> int:
        return self._row(("name", text))

    def number(self, value: float) -> int:
        return self._row(("number", value))

    def _row(self, row: Row) -> int:
        found = self._numbers.get(row)
        if found is None:
            found = self._numbers[row] = len(self.rows)
            self.rows.append(row)
        return found

    def value(self, node: int) -> float | None:
        """The number that a row holds, if it does."""
        row = self.rows[node]
        return row[1] if row[0] == "number" else None

    def arguments(self, node: int) -> tuple[int, ...]:
        row = self.rows[node]
        return () if row[0] in ("name", "number") else row[1:]

    def apply(self, operation: str, *args: int) -> int:
        """The row of an operation, simplified where that cannot change a value."""
        values = [self.value(arg) for arg in args]
        if operation not in HOLDS and None not in values:
            folded = fold(operation, values)
            if folded is not None:
                return self.number(folded)
        if operation in ("*", "/", "**") and values[1] == 1:
            return args[0]
        if operation == "*" and values[0] == 1:
            return args[1]
        if operation == "-" and values[1] == 0:
            return args[0]
        if operation == "+" and (merged := self._merged(*args)) is not None:
            return merged
        inner = [self._negated(arg) for arg in args]
        if operation == "neg" and inner[0] is not None:
            return inner[0]
        if operation in ("+", "-") and inner[1] is not None:
            return self.apply("-" if operation == "+" else "+", args[0], inner[1])
        if operation == "+" and inner[0] is not None:
            return self.apply("-", args[1], inner[0])
        if operation in ("*", "/") and inner != [None, None]:
            bare = (arg if i is None else i for arg, i in zip(args, inner))
            product = self.apply(operation, *bare)
            return product if None not in inner else self.apply("neg", product)
        return self._row((operation, *args))

    def _merged(self, left: int, right: int) -> int | None:
        """``where(c, a, 0) + where(c, 0, b)`` is ``where(c, a, b)``."""
        a, b = self.rows[left], self.rows[right]
        if a[0] != "where" or b[0] != "where" or a[1] != b[1]:
            return None
        if self.value(a[3]) == 0 and self.value(b[2]) == 0:
            return self.apply("where", a[1], a[2], b[3])
        return None

    def _negated(self, node: int) -> int | None:
        """What a row is the negative of: signs move outwards, where they become differences."""
        row = self.rows[node]
        if row[0] == "number" and row[1] < 0:
            return self.number(-row[1])
        return row[1] if row[0] == "neg" else None


def fold(operation: str, values: list[Any]) -> float | None:
    """The value of an operation on numbers; None where it has none that is finite."""
    function = FUNCTIONS.get(operation) or INFIX[operation]
    with np.errstate(all="ignore"):
        try:
            value = float(function.numpy(*(float(v) for v in values)))
        except (ArithmeticError, ValueError):
            return None
    if not math.isfinite(value):
        return None
    return int(value) if all(isinstance(v, int) for v in values) and value == int(value) else value


# ------------------------------------------------------------------------------------------ reading


@cache
def parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class Reader:
    """Turns a syntax tree into rows of a graph.

    Parameters
    ----------
    graph : Graph
        Where the rows go.
    names : mapping of str to int
        The rows of names that mean something already.
    unknown : callable
        Gives the row of any other name, or raises.
    refuse : callable
        Makes the error for what is no formula.
    """

    def __init__(
        self,
        graph: Graph,
        names: Mapping[str, int],
        unknown: Callable[[str], int],
        refuse: Callable[[str], Exception],
    ) -> None:
        self.graph, self.names, self.unknown, self.refuse = graph, names, unknown, refuse

    def value(self, node: ast.expr) -> int:
        """The row of an expression that has a number for its value."""
        found = self._read(node)
        if self.graph.rows[found][0] in HOLDS:
            raise self.refuse(
                f"the comparison {ast.unparse(node)!r} only makes sense as the first argument of where()"
            )
        return found

    def condition(self, node: ast.expr) -> int:
        """The row of a comparison."""
        found = self._read(node)
        if self.graph.rows[found][0] not in HOLDS:
            raise self.refuse(
                f"{ast.unparse(node)!r} is no comparison, which the first argument of where() must be"
            )
        return found

    def _read(self, node: ast.expr) -> int:
        apply = self.graph.apply
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return apply(BINARY[type(node.op)], self.value(node.left), self.value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return apply("neg", self.value(node.operand))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd):
            return self.value(node.operand)
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, (int, float))
            and (not isinstance(node.value, bool))
        ):
            if not math.isfinite(node.value):
                raise self.refuse(f"{ast.unparse(node)} is not finite")
            return self.graph.number(node.value)
        if isinstance(node, ast.Name):
            return self.names[node.id] if node.id in self.names else self.unknown(node.id)
        if (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and type(node.ops[0]) in COMPARISONS
        ):
            left, right = self.value(node.left), self.value(node.comparators[0])
            return apply(COMPARISONS[type(node.ops[0])], left, right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._call(node.func.id, node)
        raise self.refuse(
            f"{ast.unparse(node)!r} is not part of a formula: expected numbers, parameters, + - * / **, "
            "functions by their bare name, and comparisons inside where()"
        )

    def _call(self, name: str, node: ast.Call) -> int:
        function = FUNCTIONS.get(name)
        if function is None:
            raise self.refuse(
                f"there is no function {name!r}; known are "
                f"{one_of(sorted(FUNCTIONS))}{did_you_mean(name, FUNCTIONS)}"
            )
        count = len(function.gradients)
        if len(node.args) != count or node.keywords:
            raise self.refuse(
                f"{name} takes {count} argument{'s' * (count > 1)}, got {ast.unparse(node)!r}"
            )
        if name != "where":
            return self.graph.apply(name, *(self.value(arg) for arg in node.args))
        condition, *branches = node.args
        args = [self.condition(condition), *(self.value(branch) for branch in branches)]
        left, right = self.graph.arguments(args[0])
        a, b = self.graph.value(left), self.graph.value(right)
        if a is not None and b is not None:
            return args[1 if HOLDS[self.graph.rows[args[0]][0]](a, b) else 2]
        if all(self.graph.value(arg) is not None for arg in args[1:]):
            # Two numbers have no dtype to choose from, whereas their products with a tensor do.
            raise self.refuse(
                f"both branches of {ast.unparse(node)!r} are numbers; "
                "multiply inside, as in where(x > 0, 2 * x, 3 * x)"
            )
        return self.graph.apply(name, *args)


def read_formula(
    name: str,
    expression: str,
    parameters: tuple[str, ...] | None,
    constants: tuple[str, ...],
) -> tuple[Graph, int, tuple[str, ...]]:
    """Read an expression.

    Parameters
    ----------
    name : str
        The operator's, for errors.
    expression : str
    parameters : tuple of str or None
        The tensors; None: all names that are no constants, in order of first appearance.
    constants : tuple of str

    Returns
    -------
    graph : Graph
    root : int
        The row of the whole expression.
    parameters : tuple of str

    Raises
    ------
    DeclarationError
        It is no formula, or uses a name or function that is unknown.
    """

    def refuse(why: str) -> DeclarationError:
        return DeclarationError(f"{name}: in the expression {expression!r}, {why}")

    if not isinstance(expression, str):
        raise DeclarationError(f"{name}: an expression is a string, got {expression!r}")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise refuse(f"there is a syntax error: {error}") from None
    for each in (*(parameters or ()), *constants):
        if not is_identifier(each) or each in FUNCTIONS or each in TAKEN:
            raise DeclarationError(
                f"{name}: {each!r} cannot be the name of a parameter of an expression"
            )
    graph = Graph()
    found: dict[str, int] = {}
    known = None if parameters is None else (*parameters, *constants)

    def unknown(text: str) -> int:
        if text in FUNCTIONS or text in TAKEN or text.startswith("_"):
            raise refuse(f"{text!r} cannot be a parameter, choose another name")
        if known is not None and text not in known:
            raise refuse(
                f"{text!r} is no parameter; those are {one_of(known)}{did_you_mean(text, known)}"
            )
        return found.setdefault(text, graph.name(text))

    try:
        root = Reader(graph, {"pi": graph.number(math.pi)}, unknown, refuse).value(tree)
    except RecursionError:
        raise refuse("the nesting is too deep") from None
    if parameters is None:
        parameters = tuple(text for text in found if text not in constants)
    missing = [each for each in (*parameters, *constants) if each not in found]
    if missing or not parameters:
        raise refuse(f"{missing[0]!r} is not used" if missing else "there is no parameter")
    return graph, root, parameters
