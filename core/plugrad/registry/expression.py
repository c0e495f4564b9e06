"""`plugrad.elementwise`: a whole operator from one expression.

The expression becomes three functions, written as Python source that `inspect.getsource` shows: the
reference on arrays, the rule, and the same rule on arrays as the backward kernel. CUDA takes the
expression as it stands.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from plugrad.backends.creation import full
from plugrad.graph.tensor import Tensor
from plugrad.registry.cuda import caller, check_cuda
from plugrad.registry.declaration import operator
from plugrad.registry.derivative import Writer, gradients, kink_distances, reachable
from plugrad.registry.device_backward import FormulaBackward
from plugrad.registry.errors import DeclarationError
from plugrad.registry.formula import Graph, read_formula
from plugrad.registry.functions import FUNCTIONS, NUMPY
from plugrad.registry.operator import Operator
from plugrad.registry.schema import as_names, check_name

__all__ = ["elementwise"]


def elementwise(
    name: str,
    expression: str,
    *,
    parameters: str | Iterable[str] | None = None,
    constants: Mapping[str, float] | None = None,
    doc: str | None = None,
    samples: Callable[..., Any] | None = None,
    kinks: Mapping[float, Any] | Callable[..., Any] | None = None,
    method: bool = False,
    cpu: Callable[..., Any] | None = None,
    cpu_backward: Callable[..., Any] | None = None,
    cuda: Any = None,
    replaces: str | None = None,
    fingerprint: bytes = b"",
) -> Operator:
    """Declare an elementwise operator by its formula; the derivative is made from it.

    Parameters
    ----------
    name : str
        ``"namespace::name"``.
    expression : str
        Numbers, ``pi``, parameters, ``+ - * / **``, ``where(a > b, …, …)`` and the functions of
        ``plugrad.registry.functions.FUNCTIONS`` by their bare names.
    parameters : tuple of str, optional
        The tensors in order; by default every name in the expression, in order of first appearance.
    constants : dict, optional
        Names in the expression that are keyword-only numbers, with their defaults.
    doc : str, optional
        The docstring; the expression itself unless given.
    samples : callable, optional
        As for `Operator.samples`; by default normal values where the expression is finite for them,
        and values between 0.1 and 0.9.
    kinks : dict or callable, optional
        As for `operator`; by default where an argument of abs, relu, sign, maximum, minimum or a
        comparison changes its sign.
    cpu_backward : callable, optional
        As for `Operator.backward_kernel`; by default the formula's derivative on arrays.
    cuda : optional
        As for `operator`; by default the formula and its derivative are compiled for CUDA too.
    method, cpu, replaces, fingerprint
        As for `operator`.

    Returns
    -------
    Operator

    Raises
    ------
    DeclarationError
        The expression is no formula, uses an unknown name or function, or its derivative is zero
        everywhere.

    Examples
    --------
    >>> mish = plugrad.elementwise("my::mish", "x * tanh(softplus(x))")
    """
    check_name(name)
    defaults = dict(constants or {})
    for constant, value in defaults.items():
        if not isinstance(value, (int, float)):
            raise DeclarationError(
                f"{name}: a constant of an expression is a number, got {constant}={value!r}"
            )
    given = None if parameters is None else as_names(name, "parameters", parameters)
    graph, root, names = read_formula(name, expression, given, tuple(defaults))
    module = sys._getframe(1).f_globals.get("__name__", "__main__")
    origin = caller()
    source = Source(name, module, graph, root, names, defaults)
    reference = source.forward()
    reference.__doc__ = doc or f"{expression.strip()}, element by element."
    made = operator(
        name,
        elementwise=True,
        method=method,
        kinks=source.kinks() if kinks is None else kinks,
        cpu=cpu,
        replaces=replaces,
        fingerprint=fingerprint,
    )(reference)
    made.expression, made.origin = expression, origin
    made.module = made.__module__ = module
    check_cuda(name, made.schema, module, cuda)
    made.cuda = expression if cuda is None else cuda
    rule, kernel = source.backward()
    made.backward(rule)
    made.backward_kernel(kernel if cpu_backward is None else cpu_backward)
    if cuda is None:
        made.backward_kernel(cuda=FormulaBackward(source.head[1:]))
    if samples is None:
        made.default_samples(draw_samples(reference, len(names)))
    else:
        made.samples(samples)
    return made


# ------------------------------------------------------------------------------------------- source


class Source:
    """Writes and compiles the functions of one expression."""

    def __init__(
        self,
        name: str,
        module: str,
        graph: Graph,
        root: int,
        parameters: tuple[str, ...],
        constants: Mapping[str, float],
    ) -> None:
        self.name, self.module, self.graph, self.root = name, module, graph, root
        self.parameters, self.names = parameters, (*parameters, *constants)
        self.own = name.partition("::")[2]
        self.tensors = ", ".join(parameters)
        self.head: tuple[str, ...] = ()  # what the backward takes but for `needs`
        self.keywords = "".join(f", {n}={v!r}" for n, v in constants.items())

    def forward(self) -> Callable[..., Any]:
        """The reference function."""
        star = ", *" if self.keywords else ""
        lines = [f"def {self.own}({self.tensors}{star}{self.keywords}):"]
        if self._lonely([self.root], ()):
            listed = ", ".join(self.names)
            lines.append(f"{listed} = _arrays({listed})")
        writer = Writer(self.graph, {}, (*self.names, "ops"))
        lines += writer.temporaries([self.root])
        lines.append(f"return {writer.text(self.root)}")
        return self._compile(self.own, lines, NUMPY, _arrays=arrays)

    def kinks(self) -> Callable[..., Any] | None:
        """The predicate ``kinks(*arrays, tol, **constants)``, or None if the formula is smooth."""
        distances = kink_distances(self.graph, self.root)
        if not distances:
            return None
        writer = Writer(self.graph, {}, (*self.names, "ops", "tol"))
        lines = [f"def kinks({self.tensors}, *, tol{self.keywords}):"]
        lines += writer.temporaries(distances)
        close = (f"(ops.abs({writer.text(node)}) <= tol)" for node in distances)
        lines.append(f"return {' | '.join(close)}")
        return self._compile("kinks", lines, NUMPY)

    def backward(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The rule on Tensors, and the same on arrays."""
        from plugrad.registry import ops

        targets = gradients(self.graph, self.root, self.parameters)
        wanted = [node for node in targets if node is not None]
        if not wanted:
            raise DeclarationError(
                f"{self.name}: the derivative of its expression is zero everywhere; "
                "declare it with plugrad.operator and nondifferentiable=True"
            )
        used = set(reachable(self.graph, wanted, [self.root]))
        named = {each for each in self.names if self.graph.name(each) in used}
        several = len(self.parameters) > 1
        head = ["grad", *(each for each in self.parameters if each in named)]
        head += ["out"] * (self.root in used)
        head += [each for each in self.names if each in named and each not in head]
        self.head = tuple(head)
        head += ["needs"] * several
        lines = [f"def backward({', '.join(head)}):"]
        for each in self._lonely(wanted, [self.root, self.graph.name("grad")]):
            lines.append(f"{each} = _alike(grad, {each})")
        writer = Writer(self.graph, {self.root: "out"}, (*self.names, *head, "ops"))
        if several:
            lines += self._branches(writer, targets)
        else:
            lines += writer.temporaries(wanted)
            lines.append(f"return {writer.text(wanted[0])}")
        rule = self._compile("backward", lines, ops, _alike=alike)
        return rule, self._compile("backward_kernel", lines, NUMPY, _alike=alike_array)

    def _branches(self, writer: Writer, targets: list[int | None]) -> Iterator[str]:
        """One gradient per parameter, computed if it is needed; what several share comes first."""
        wanted = [node for node in targets if node is not None]
        reached = [set(reachable(self.graph, [node], writer.done)) for node in wanted]
        every = set().union(*reached)
        shared = {node for node in every if sum(node in each for each in reached) > 1}
        # Of what is shared, only rows that are used outside of it need a name.
        outer = {arg for node in every - shared for arg in self.graph.arguments(node)} | set(wanted)
        yield from writer.temporaries(sorted(shared & outer) * 2)  # used twice at least
        results = []
        for parameter, node in zip(self.parameters, targets):
            if node is None:
                results.append("None")
                continue
            result = writer.fresh(f"grad_{parameter}")
            results.append(result)
            yield f"{result} = None"
            yield f"if needs.{parameter}:"
            before = dict(writer.done)
            for line in writer.temporaries([node]):
                yield f"    {line}"
            yield f"    {result} = {writer.text(node)}"
            writer.done = before  # the next branch may run without this one
        yield f"return {', '.join(results)}"

    def _lonely(self, roots: list[int], firm: Iterable[int]) -> list[str]:
        """Names of operands that, being Python numbers, some function could see without any array.

        ``tanh(beta)`` of a number would be a float64 that widens the result, and ``1 / beta``
        would raise where arrays give infinity. What depends on every parameter is firm: one of
        them is an array.
        """
        firm = set(firm)
        depends: dict[int, set[str]] = {}
        lonely: set[str] = set()
        for node in reachable(self.graph, roots, firm):
            operation, args = self.graph.rows[node][0], self.graph.arguments(node)
            if node in firm:
                depends[node] = set()
                continue
            if operation == "where":  # its condition has no dtype to give, and must be an array
                if args[0] not in firm:
                    lonely |= depends[args[0]]
                args = args[1:]
            own = {self.graph.rows[node][1]} if operation == "name" else set()
            depends[node] = own.union(*(depends[arg] for arg in args))
            if not firm.isdisjoint(args) or depends[node].issuperset(self.parameters):
                firm.add(node)
            elif operation in FUNCTIONS or operation in ("/", "**"):
                lonely |= depends[node]
        return [each for each in self.names if each in lonely]

    def _compile(
        self, own: str, lines: list[str], ops: Any, **helpers: Callable[..., Any]
    ) -> Callable[..., Any]:
        text = "\n    ".join(lines) + "\n"
        filename = f"<{own} of {self.name}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        defined: dict[str, Any] = {}
        namespace = {"__name__": self.module, "ops": ops, **helpers}
        # What `formula` read and `Writer` wrote holds nothing but arithmetic and known names.
        exec(compile(text, filename, "exec"), namespace, defined)
        return next(iter(defined.values()))


def arrays(*operands: Any) -> tuple[Any, ...]:
    """The operands; Python numbers become 0-d arrays of the dtype of the result."""
    dtype = np.result_type(*operands)
    return tuple(x if isinstance(x, np.ndarray) else np.asarray(x, dtype) for x in operands)


def alike(grad: Any, operand: Any) -> Any:
    """The operand; a Python number becomes a 0-d Tensor of grad's dtype, on its device."""
    if isinstance(operand, Tensor):
        return operand
    return full((), operand, dtype=grad.dtype, device=grad.device)


def alike_array(grad: Any, operand: Any) -> Any:
    """The operand; a Python number becomes a 0-d array of grad's dtype."""
    return operand if isinstance(operand, np.ndarray) else np.asarray(operand, grad.dtype)


# ------------------------------------------------------------------------------------------ samples


def draw_samples(reference: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Samples for an operator of `count` tensors whose domain is not known."""
    shapes: list[tuple[int, ...]] = [(3, 4), (4,), (3, 1)]

    def sample(make: Any) -> Iterator[Any]:
        def points(draw: Callable[..., Any]) -> list[Any]:
            return [draw(*shapes[i % 3]) for i in range(count)]

        normal = points(make.normal)
        with np.errstate(all="ignore"):
            everywhere = bool(np.all(np.isfinite(reference(*normal))))
        if everywhere:
            yield make.call(*normal)
            yield make.call(*points(lambda *shape: 2.0 * make.normal(*shape)))
        for _ in range(1 if everywhere else 3):
            yield make.call(*points(lambda *shape: make.uniform(*shape, low=0.1, high=0.9)))
        if count > 1:
            yield make.call(make.uniform(3, 4, low=0.1, high=0.9), *[0.75] * (count - 1))

    return sample
