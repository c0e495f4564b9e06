"""Formulas as C expressions: what `plugrad.elementwise` gives a CUDA device, forward and backward.

The rows are those that the NumPy source is written from (`derivative.py`), so that both devices compute one formula.
Subexpressions that are used twice are written twice; compilers share them.
"""

from __future__ import annotations

from collections.abc import Mapping

from plugrad.registry.derivative import ATOM, PRODUCT, SIGN, SUM, Writer, gradients
from plugrad.registry.formula import Graph, read_formula
from plugrad.registry.functions import FUNCTIONS, HOLDS

__all__ = ["LONGEST", "backward_expressions", "forward_expression"]

LONGEST = 20_000
"""Characters; a formula that is longer once its shared parts are written out is not worth a kernel."""

RENAMED = {"maximum": "nan_max", "minimum": "nan_min"}


class CWriter(Writer):
    """Writes rows as C over variables of one floating type."""

    def __init__(self, graph: Graph, named: Mapping[int, str]) -> None:
        super().__init__(graph, named, ())

    def _text(self, node: int) -> tuple[str, int]:
        operation, *args = self.graph.rows[node]
        if operation == "number":
            # Never an integer: 1 / 3 is 0 in C.
            return repr(float(args[0])), ATOM if args[0] >= 0 else SIGN
        if operation in HOLDS:
            left, right = (self.text(arg, SUM) for arg in args)
            return f"{left} {operation} {right}", SUM - 1
        if operation == "where":
            condition, chosen, other = (self.text(arg, SUM - 1) for arg in args)
            return f"({condition} ? {chosen} : {other})", ATOM
        if operation == "relu":
            return f"nan_max({self.text(args[0])}, 0.0)", ATOM
        if operation == "reciprocal":
            return f"1.0 / {self.text(args[0], SIGN)}", PRODUCT
        if operation in FUNCTIONS:
            listed = ", ".join(self.text(arg) for arg in args)
            return f"{RENAMED.get(operation, operation)}({listed})", ATOM
        if operation == "**":
            if self.graph.value(args[1]) == 2:
                return f"square({self.text(args[0])})", ATOM
            return f"pow({self.text(args[0])}, {self.text(args[1])})", ATOM
        return super()._text(node)


def forward_expression(name: str, formula: str, constants: tuple[str, ...]) -> str:
    """The C expression of a formula that was accepted before; its names are the formula's."""
    graph, root, _ = read_formula(name, formula, None, constants)
    return CWriter(graph, {}).text(root)


def backward_expressions(
    name: str, formula: str, parameters: tuple[str, ...], constants: tuple[str, ...]
) -> dict[str, str] | None:
    """The gradient of each parameter as a C expression of ``grad``, the names of the formula and ``out``.

    Parameters whose gradient is zero everywhere are left out. None: an expression would be too long.
    """
    graph, root, _ = read_formula(name, formula, parameters, constants)
    found = {}
    for parameter, node in zip(parameters, gradients(graph, root, parameters)):
        if node is None:
            continue
        if written_length(graph, node, root) > LONGEST:
            return None
        found[parameter] = CWriter(graph, {root: "out"}).text(node)
    return found


def written_length(graph: Graph, node: int, root: int) -> int:
    """A bound for the length of a row's text, found without writing it: that may be exponential."""
    lengths: list[int] = []
    for i in range(node + 1):
        row = graph.rows[i]
        own = 24 if row[0] == "number" else 12 + len(str(row[0] if row[0] != "name" else row[1]))
        lengths.append(3 if i == root else own + sum(lengths[arg] for arg in graph.arguments(i)))
    return lengths[node]
