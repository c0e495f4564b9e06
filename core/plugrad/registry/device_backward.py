"""`backward_kernel(cuda=…)`: a fused backward on the device, made a kernel when a backward first needs it.

(a) An expression per input names what it uses: ``grad`` (with several outputs ``grad_<output>`` for each that has a
    gradient), inputs, outputs and constants. What it names is saved, as for a rule.
(b) Only gradients that are needed are computed: there is one kernel per combination of needed inputs, made when it
    first occurs, and each writes all its gradients in one pass.
(c) A kernel by name or a callable takes what the CPU's backward kernel takes or, where there is none, the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plugrad.registry.cuda import (
    Origin,
    check_expression_operator,
    check_names,
    check_reference,
    is_reference,
    load_kernel,
    on_tensors,
)
from plugrad.registry.errors import DeclarationError
from plugrad.registry.schema import Schema, did_you_mean, one_of

if TYPE_CHECKING:
    from plugrad.registry.on_device import OnDevice

__all__ = ["Expressions", "FormulaBackward", "make_backward", "read_backward"]

Plan = tuple[tuple[str, int], ...]

TAKEN = {name: f"{name}_value" for name in ("out", "shape", "dtype")}
"""Names that a kernel's own call has a meaning for, and what they are in its text."""


@dataclass(frozen=True)
class Expressions:
    """Gradients as C expressions.

    Attributes
    ----------
    texts : dict
        Input to expression; an input that is left out has no gradient.
    names : tuple of str
        What they use, in the order in which the values are passed after the incoming gradient.
    origin : Origin
    """

    texts: Mapping[str, str]
    names: tuple[str, ...]
    origin: Origin | None = None


@dataclass(frozen=True)
class FormulaBackward:
    """The gradients of an operator's own formula, written as C on first use.

    Attributes
    ----------
    names : tuple of str
        What the backward kernel for the CPU takes after ``grad``, without ``needs``.
    """

    names: tuple[str, ...]


def gradient_names(schema: Schema) -> tuple[str, ...]:
    """What an expression calls the incoming gradients; "" for an output that has none."""
    if len(schema.outputs) == 1:
        return ("grad",)
    return tuple(
        "" if dead else f"grad_{output}"
        for output, dead in zip(schema.outputs, schema.nondifferentiable)
    )


# --------------------------------------------------------------------------------------- declaration


def read_backward(operator: OnDevice, cuda: Any, origin: Origin) -> tuple[Any, Plan | None]:
    """What was given as ``backward_kernel(cuda=…)``, checked.

    Returns
    -------
    kernel : Expressions, str or callable
    plan : tuple or None
        (kind, index) of what it is passed; None: what the CPU's backward is passed.

    Raises
    ------
    DeclarationError
        It is none of the forms, or an expression uses an unknown name or no incoming gradient.
    """
    name, schema = operator.name, operator.schema
    if isinstance(cuda, str) and is_reference(cuda):
        check_reference(name, operator.module, cuda)
        return cuda, None
    if isinstance(cuda, str):
        if len(schema.inputs) != 1:
            raise DeclarationError(
                f"{name}: the CUDA backward {cuda!r} is one expression, but there are the inputs "
                f"{one_of(schema.inputs)}; give {{input: expression}} or the name of a kernel"
            )
        cuda = {schema.inputs[0]: cuda}
    if isinstance(cuda, Mapping):
        return read_expressions(name, schema, dict(cuda), origin)
    if not callable(cuda):
        raise DeclarationError(
            f"{name}: backward_kernel(cuda=…) takes a C expression, {{input: expression}}, the name of a kernel "
            f"('module:attribute') or a callable, got {cuda!r}"
        )
    return cuda, None


def read_expressions(
    name: str, schema: Schema, texts: dict[str, str], origin: Origin
) -> tuple[Expressions, Plan]:
    grads = [grad for grad in gradient_names(schema) if grad]
    known = (*grads, *schema.inputs, *schema.outputs, *schema.constants)
    used: set[str] = set()
    for key, text in texts.items():
        if key not in schema.inputs:
            raise DeclarationError(
                f"{name}: the CUDA backward gives a gradient for {key!r}, which is no input "
                f"({one_of(schema.inputs)}){did_you_mean(key, schema.inputs)}"
            )
        if not isinstance(text, str):
            raise DeclarationError(
                f"{name}: the CUDA backward of {key!r} is a C expression, got {text!r}"
            )
        check_expression_operator(name, schema, text)
        found = check_names(name, f"the CUDA backward of {key!r}", text, known)
        if not set(grads).intersection(found):
            raise DeclarationError(
                f"{name}: the CUDA backward of {key!r} is {text!r}, without the incoming gradient "
                f"({one_of(grads)}), in which it must be linear"
            )
        used |= set(found)
    if not texts:
        raise DeclarationError(f"{name}: the CUDA backward gives no gradient at all")
    for i in schema.mutates:
        if schema.inputs[i] in used:
            raise DeclarationError(
                f"{name}: the CUDA backward needs {schema.inputs[i]!r}, which the operator overwrites"
            )
    plan: list[tuple[str, int]] = [("grad", 0)]
    names: list[str] = []
    for kind, all_names in (
        ("input", schema.inputs),
        ("output", schema.outputs),
        ("constant", schema.constants),
    ):
        for i, each in enumerate(all_names):
            if each in used:
                plan.append((kind, i))
                names.append(each)
    if len(schema.inputs) > 1:
        plan.append(("needs", 0))
    return Expressions(texts, tuple(names), origin), tuple(plan)


# ----------------------------------------------------------------------------------------- first use


def make_backward(operator: OnDevice, given: Any) -> Callable[..., Any]:
    """The function on arrays for what `read_backward` gave, or for the gradients of a formula."""
    if isinstance(given, FormulaBackward):
        from plugrad.registry.c_formula import backward_expressions

        schema = operator.schema
        assert operator.expression is not None
        texts = backward_expressions(
            operator.name, operator.expression, schema.inputs, schema.constants
        )
        if texts is None:
            assert operator.rule is not None
            return on_tensors(operator.rule)
        given = Expressions(texts, given.names, operator.origin)
    if isinstance(given, Expressions):
        return Gradients(operator, given)
    return load_kernel(operator, given) if isinstance(given, str) else given


def without_taken(text: str) -> str:
    """An expression with other names for `TAKEN` ones."""
    from plugrad.backends.cuda.expression import tokens_of

    return "".join(
        TAKEN.get(token, token) if kind == "name" else token for kind, token in tokens_of(text)
    )


class Gradients:
    """Gradients by expressions; called with the incoming gradient, the values of the names and ``needs``."""

    def __init__(self, operator: OnDevice, given: Expressions) -> None:
        self.name = operator.name
        self.schema = operator.schema
        self.given = given
        self.grads = gradient_names(operator.schema)
        self.kernels: dict[tuple[bool, ...], tuple[Any, ...]] = {}

    def __call__(self, grad: Any, *values: Any) -> Any:
        single = len(self.schema.inputs) == 1
        needs = (True,) if single else tuple(values[-1])
        grads = (grad,) if len(self.grads) == 1 else tuple(grad)
        known = (*grads, *values)
        kernel, arrays, constants, places = self.kernels.get(needs) or self._make(needs)
        result: list[Any] = [None] * len(self.schema.inputs)
        if kernel is not None:
            found = kernel(*(known[i] for i in arrays), **{name: known[i] for name, i in constants})
            for place, gradient in zip(places, found if isinstance(found, tuple) else (found,)):
                result[place] = gradient
        return result[0] if single else tuple(result)

    def _make(self, needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """The kernel for the gradients that are needed; where its arguments stand, and its results belong."""
        inputs, constants = self.schema.inputs, self.schema.constants
        texts = {
            each: self.given.texts[each]
            for each, needed in zip(inputs, needs)
            if needed and each in self.given.texts
        }
        entry: tuple[Any, ...] = (None, (), (), ())
        if texts:
            from plugrad.backends.cuda.elementwise import Elementwise

            known = (*self.grads, *self.given.names)
            used: set[str] = set()
            for text in texts.values():
                used |= set(check_names(self.name, "the CUDA backward", text, known))
            arrays = [i for i, n in enumerate(known) if n in used and n not in constants]
            numbers = [(n, i) for i, n in enumerate(known) if n in used and n in constants]
            origin = self.given.origin
            if origin is not None:
                origin = origin.at(next(iter(texts.values())))
            texts = {each: without_taken(text) for each, text in texts.items()}
            kernel = Elementwise(
                texts if len(texts) > 1 else next(iter(texts.values())),
                inputs=tuple(TAKEN.get(known[i], known[i]) for i in arrays),
                constants=tuple(n for n, _ in numbers),
                name=f"backward of {self.name}",
                origin=origin.file if origin else "",
                line=origin.line if origin else 0,
            )
            entry = kernel, arrays, numbers, [inputs.index(each) for each in texts]
        self.kernels[needs] = entry
        return entry
