"""What a signature and its flags say about an operator: read once, checked, then plain tuples.

A declaration that cannot work is refused here, before anything is called; the errors name the
operator, what was written and what is expected.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plugrad.registry.errors import DeclarationError
from plugrad.registry.parameters import Parameters, read_parameters

__all__ = ["DTYPE_CLASSES", "Schema", "check_name", "read_schema"]

DTYPE_CLASSES = ("floating", "complex", "numeric", "number", "integer", "bool", "any")

# Names with a meaning of their own in rules (grad, needs, like), kernels (out) and surrogates (at).
RESERVED = frozenset(("out", "at", "grad", "needs", "like"))


@dataclass(frozen=True)
class Schema:
    """An operator's inputs, constants and outputs.

    Attributes
    ----------
    inputs : tuple of str
        The tensor parameters in order; a list (``*xs``) comes last.
    optional : tuple of bool
        For each input, whether it may be absent (``=None``).
    variadic : bool
        Whether the last input is a list.
    constants : tuple of str
        The keyword-only parameters in order.
    defaults : dict
        Of the constants that have one.
    outputs : tuple of str
    nondifferentiable : tuple of bool
        For each output, whether no gradient flows through it.
    dtypes : tuple of str
        For each input, the class of dtypes that it takes.
    elementwise : bool
    out_dtype : str or None
        Of an elementwise operator's result when it is not the promoted one; "real" is the dtype of its real part.
    view_of : int
        The input that the output is a view of, or -1.
    mutates : tuple of int
        The inputs that are written in place.
    infer : callable or None
        ``infer(*metas, **constants)`` gives (shape, dtype), or a list of them, one per output.
    """

    inputs: tuple[str, ...]
    optional: tuple[bool, ...] = ()
    variadic: bool = False
    constants: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ("out",)
    nondifferentiable: tuple[bool, ...] = (False,)
    dtypes: tuple[str, ...] = ()
    elementwise: bool = False
    out_dtype: str | None = None
    view_of: int = -1
    mutates: tuple[int, ...] = ()
    infer: Callable[..., Any] | None = None


# ------------------------------------------------------------------------------------ small checks


def check_name(name: object) -> str:
    """`name` if it reads ``namespace::identifier``, else a DeclarationError."""
    if isinstance(name, str):
        namespace, colons, own = name.partition("::")
        if colons and is_identifier(namespace) and is_identifier(own):
            return name
    raise DeclarationError(
        f"an operator's name is 'namespace::name', two Python identifiers, for example 'my::swish'; got {name!r}"
    )


def is_identifier(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text) and not text.startswith("__")


def one_of(words: Iterable[str]) -> str:
    return ", ".join(words) or "none"


def did_you_mean(word: object, known: Collection[str]) -> str:
    """``"; did you mean 'x'?"`` for a near miss, else nothing."""
    import difflib  # only an error needs it

    near = difflib.get_close_matches(str(word), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def as_names(name: str, what: str, value: str | Iterable[str] | None) -> tuple[str, ...]:
    """A name or several, as a tuple of strings."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    names = tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(each, str) for each in names):
        raise DeclarationError(f"{name}: {what} is a name or a tuple of names, got {value!r}")
    return names


# ------------------------------------------------------------------------------- building a schema


def read_schema(
    name: str,
    function: Callable[..., Any],
    *,
    elementwise: bool = False,
    dtypes: str | Mapping[str, str] = "floating",
    out_dtype: str | None = None,
    outputs: str | Iterable[str] | None = None,
    nondifferentiable: bool | str | Iterable[str] = False,
    infer: Callable[..., Any] | None = None,
    view_of: str | None = None,
    mutates: str | Iterable[str] | None = None,
) -> Schema:
    """The schema of an operator whose reference is `function`.

    Raises
    ------
    DeclarationError
        The signature or a flag cannot mean anything; see `plugrad.operator` for what they mean.
    """
    parameters = read_parameters(name, function)
    if parameters.any_keyword is not None:
        raise DeclarationError(
            f"{name}: **{parameters.any_keyword} is not possible, a constant needs a name of its own; "
            "write each as a keyword-only parameter"
        )
    for parameter, default in zip(reversed(parameters.positional), reversed(parameters.defaults)):
        if default is not None:
            raise DeclarationError(
                f"{name}: positional parameters are tensors, and the only default a tensor can have is None, "
                f"got {parameter}={default!r}; put a constant after '*'"
            )
    inputs = parameters.positional
    required = len(inputs) - len(parameters.defaults)
    if parameters.variadic is not None:
        inputs = (*inputs, parameters.variadic)
    optional = tuple(required <= i < len(parameters.positional) for i in range(len(inputs)))
    for parameter in (*inputs, *parameters.keywords):
        if parameter in RESERVED:
            raise DeclarationError(
                f"{name}: a parameter cannot be called {parameter!r}, which has a meaning in rules, kernels "
                f"or surrogates; reserved are {one_of(sorted(RESERVED))}"
            )
    for parameter in inputs:
        if parameter.startswith("_"):
            raise DeclarationError(
                f"{name}: a tensor's name cannot start with an underscore, rules read it as needs.<name>; "
                f"got {parameter!r}"
            )
    for constant, default in parameters.keyword_defaults.items():
        try:
            hash(default)
        except TypeError:
            raise DeclarationError(
                f"{name}: constants are hashable (or a generator), got {constant}={default!r}; "
                "a tuple or None is a default that works"
            ) from None

    output_names = ("out",) if outputs is None else as_names(name, "outputs", outputs)
    check_outputs(name, output_names, (*inputs, *parameters.keywords))
    no_gradient = gradient_flags(name, output_names, nondifferentiable)
    check_out_dtype(name, out_dtype, elementwise, all(no_gradient))
    single = inputs[:-1] if parameters.variadic is not None else inputs
    if infer is not None:
        check_infer(name, infer, elementwise, parameters)
    viewed = -1 if view_of is None else single_input(name, "view_of", view_of, single)
    written = tuple(
        single_input(name, "mutates", each, single) for each in as_names(name, "mutates", mutates)
    )
    if viewed >= 0 and (written or len(output_names) > 1 or elementwise):
        raise DeclarationError(
            f"{name}: view_of={view_of!r} describes one output that shares memory with an input; "
            "it does not go with elementwise=True, mutates= or several outputs"
        )
    return Schema(
        inputs=inputs,
        optional=optional,
        variadic=parameters.variadic is not None,
        constants=parameters.keywords,
        defaults=dict(parameters.keyword_defaults),
        outputs=output_names,
        nondifferentiable=no_gradient,
        dtypes=dtype_classes(name, inputs, dtypes),
        elementwise=bool(elementwise),
        out_dtype=out_dtype,
        view_of=viewed,
        mutates=written,
        infer=infer,
    )


def check_outputs(name: str, outputs: tuple[str, ...], parameters: tuple[str, ...]) -> None:
    if not outputs:
        raise DeclarationError(f"{name}: outputs names at least one output, got none")
    for i, output in enumerate(outputs):
        if not is_identifier(output) or (output in RESERVED and output != "out"):
            raise DeclarationError(
                f"{name}: outputs are identifiers other than at, grad, needs and like, got {output!r}"
            )
        if output in outputs[:i]:
            raise DeclarationError(f"{name}: the output {output!r} is named twice in {outputs!r}")
        if output in parameters:
            raise DeclarationError(
                f"{name}: {output!r} is both an output and a parameter, so a rule could not say which it saves; "
                "rename one"
            )


def gradient_flags(
    name: str, outputs: tuple[str, ...], declared: bool | str | Iterable[str]
) -> tuple[bool, ...]:
    """For each output whether it is declared non-differentiable."""
    if isinstance(declared, bool):
        return (declared,) * len(outputs)
    names = as_names(name, "nondifferentiable", declared)
    for each in names:
        if each not in outputs:
            raise DeclarationError(
                f"{name}: nondifferentiable names an output, got {each!r}; "
                f"the outputs are {one_of(outputs)}{did_you_mean(each, outputs)}"
            )
    return tuple(output in names for output in outputs)


def dtype_classes(
    name: str, inputs: tuple[str, ...], declared: str | Mapping[str, str]
) -> tuple[str, ...]:
    """The class of dtypes of each input."""
    if isinstance(declared, str):
        classes = (declared,) * len(inputs)
        given: Iterable[str] = (declared,)
    elif isinstance(declared, Mapping):
        for each in declared:
            if each not in inputs:
                raise DeclarationError(
                    f"{name}: dtypes names an input, got {each!r}; "
                    f"the inputs are {one_of(inputs)}{did_you_mean(each, inputs)}"
                )
        classes = tuple(declared.get(each, "floating") for each in inputs)
        given = declared.values()
    else:
        raise DeclarationError(
            f"{name}: dtypes is a class of dtypes or a dict of input: class, got {declared!r}"
        )
    for each in given:
        if each not in DTYPE_CLASSES:
            raise DeclarationError(
                f"{name}: {each!r} is no class of dtypes; they are {one_of(DTYPE_CLASSES)}"
                f"{did_you_mean(each, DTYPE_CLASSES)}"
            )
    return classes


def check_out_dtype(name: str, out_dtype: str | None, elementwise: bool, no_gradient: bool) -> None:
    if out_dtype is None:
        return
    if not elementwise:
        raise DeclarationError(
            f"{name}: out_dtype belongs to elementwise operators, others say it in infer="
        )
    if out_dtype == "real":
        return
    try:
        kind: str = np.dtype(out_dtype).kind if isinstance(out_dtype, str) else ""
    except TypeError:
        kind = ""
    if kind not in "biufc" or not kind:
        raise DeclarationError(
            f"{name}: out_dtype is the name of a dtype, for example 'bool', got {out_dtype!r}"
        )
    if kind in "biu" and not no_gradient:
        raise DeclarationError(
            f"{name}: a result of dtype {out_dtype} has no gradient; declare nondifferentiable=True"
        )


def check_infer(
    name: str, infer: Callable[..., Any], elementwise: bool, parameters: Parameters
) -> None:
    if not callable(infer):
        raise DeclarationError(f"{name}: infer is a function of the inputs' metas, got {infer!r}")
    if elementwise:
        raise DeclarationError(
            f"{name}: an elementwise operator's shape and dtype follow from its inputs; infer= is for the others"
        )
    theirs = read_parameters(name, infer)
    why = theirs.refuses(len(parameters.positional), parameters.keywords)
    if why is None and parameters.variadic is not None and theirs.variadic is None:
        why = f"it does not take a list like *{parameters.variadic}"
    if why is not None:
        raise DeclarationError(
            f"{name}: infer is called with a meta for each of {one_of(parameters.positional)} and the "
            f"constants {one_of(parameters.keywords)} by keyword, but {why}"
        )


def single_input(name: str, flag: str, value: str, inputs: tuple[str, ...]) -> int:
    """The index of the input that a flag names; a list input cannot be named."""
    if value not in inputs:
        raise DeclarationError(
            f"{name}: {flag} names an input that is no list, got {value!r}; "
            f"those are {one_of(inputs)}{did_you_mean(value, inputs)}"
        )
    return inputs.index(value)
