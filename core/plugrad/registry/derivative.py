"""The gradient of a formula, and formulas as Python source.

Reverse mode on the rows of a `Graph`: rows are visited from the last to the first, and each hands
its incoming gradient on to its arguments by the formulas of the table. What comes out is the code
that one would write by hand: subexpressions are shared, and the output is reused where the
derivative contains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from plugrad.registry.formula import Graph, Reader, parse
from plugrad.registry.functions import FUNCTIONS, HOLDS, INFIX

__all__ = ["Writer", "gradients", "kink_distances"]


def gradients(graph: Graph, root: int, parameters: Iterable[str]) -> list[int | None]:
    """The row of each parameter's gradient in terms of ``grad``; None: zero everywhere."""
    variables = [graph.name(parameter) for parameter in parameters]
    depends = set(variables)
    for node in range(root + 1):
        if not depends.isdisjoint(graph.arguments(node)):
            depends.add(node)
    found = pull_back(graph, root, graph.name("grad"), depends)
    return [found.get(variable) for variable in variables]


def pull_back(graph: Graph, root: int, seed: int, depends: set[int]) -> dict[int, int]:
    """The gradients of `root` by each name, for the incoming gradient `seed`."""
    incoming = {root: seed}

    def add(node: int, term: int) -> None:
        incoming[node] = graph.apply("+", incoming[node], term) if node in incoming else term

    for node in range(root, -1, -1):
        operation, args = graph.rows[node][0], graph.arguments(node)
        if node not in incoming or not args or operation in HOLDS:
            continue
        function = FUNCTIONS.get(operation) or INFIX[operation]
        names = {"y": node, **dict(zip("abc", args))}
        for arg, gradient in zip(args, function.gradients):
            if gradient is None or arg not in depends:
                continue
            if function.selects:
                # What was not selected may be infinite or NaN, and 0 * inf is no gradient: the selection
                # is made among finished gradients, not on the way to them.
                for name, inner in pull_back(graph, arg, incoming[node], depends).items():
                    add(name, substitute(graph, gradient, names | {"g": inner}))
            else:
                add(arg, substitute(graph, gradient, names | {"g": incoming[node]}))
    return {node: incoming[node] for node in incoming if graph.rows[node][0] == "name"}


def kink_distances(graph: Graph, root: int) -> list[int]:
    """Rows whose zeros are the points where the derivative of `root` does not exist."""
    found = []
    for node in reachable(graph, [root]):
        operation, *args = graph.rows[node]
        if operation in HOLDS:
            found.append(graph.apply("-", *args))
        elif operation in FUNCTIONS and (kink := FUNCTIONS[operation].kink) is not None:
            found.append(substitute(graph, kink, dict(zip("abc", args))))
    return list(dict.fromkeys(node for node in found if graph.value(node) is None))


def substitute(graph: Graph, formula: str, names: Mapping[str, int]) -> int:
    """A formula of the table with rows for its letters."""
    return Reader(graph, names, _never, ValueError).value(parse(formula))


def _never(text: str) -> int:
    raise ValueError(f"a formula of the table uses the unknown letter {text!r}")


def reachable(graph: Graph, roots: Iterable[int], stop: Iterable[int] = ()) -> list[int]:
    """The rows that `roots` are made of, arguments first; what lies behind `stop` is left out."""
    seen: set[int] = set()
    stops = set(stop)
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node not in stops:
                stack += graph.arguments(node)
    return sorted(seen)


# ------------------------------------------------------------------------------------------- source

SUM, PRODUCT, SIGN, POWER, ATOM = range(5)
PRECEDENCE = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "neg": SIGN, "**": POWER}


class Writer:
    """Writes rows as Python; what is used more than once gets a name.

    Parameters
    ----------
    graph : Graph
    named : mapping of int to str
        Rows that have a name already, such as the operator's output.
    taken : iterable of str
        Names that temporaries must not have.
    """

    def __init__(self, graph: Graph, named: Mapping[int, str], taken: Iterable[str]) -> None:
        self.graph = graph
        self.taken = set(taken)
        self.count = 0
        self.done: dict[int, tuple[str, int]] = {node: (text, ATOM) for node, text in named.items()}

    def fresh(self, base: str) -> str:
        """`base`, changed until no other name is the same."""
        while base in self.taken:
            base += "_"
        self.taken.add(base)
        return base

    def temporaries(self, roots: list[int]) -> Iterator[str]:
        """Assignments for the subexpressions that `roots` use more than once together."""
        nodes = reachable(self.graph, roots, self.done)
        uses = dict.fromkeys(nodes, 0)
        for node in roots:
            uses[node] += 1
        for node in nodes:
            if node not in self.done:
                for arg in self.graph.arguments(node):
                    uses[arg] += 1
        for node in nodes:
            if uses[node] > 1 and node not in self.done and self.graph.arguments(node):
                text = self.text(node, SUM - 1)
                self.count += 1
                name = self.fresh(f"t{self.count}")
                self.done[node] = name, ATOM
                yield f"{name} = {text}"

    def text(self, node: int, at_least: int = SUM) -> str:
        """The expression of a row, in parentheses if it binds less tightly than `at_least`."""
        text, precedence = self.done.get(node) or self._text(node)
        return text if precedence >= at_least else f"({text})"

    def _text(self, node: int) -> tuple[str, int]:
        operation, *args = self.graph.rows[node]
        if operation == "name":
            return args[0], ATOM
        if operation == "number":
            return repr(args[0]), ATOM if args[0] >= 0 else SIGN
        if operation in HOLDS:
            return f"{self.text(args[0], SUM)} {operation} {self.text(args[1], SUM)}", SUM - 1
        if operation in FUNCTIONS:
            return f"ops.{operation}({', '.join(self.text(arg, SUM - 1) for arg in args)})", ATOM
        precedence = PRECEDENCE[operation]
        if operation == "neg":
            return f"-{self.text(args[0], SIGN)}", SIGN
        left, right = precedence, precedence + 1
        if operation == "**":
            left, right = right, left
        return f"{self.text(args[0], left)} {operation} {self.text(args[1], right)}", precedence
