"""`plugrad.operator`: declare an operator from its reference function.

Everything that can be known to be wrong without calling the function is refused here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from plugrad.registry.cuda import caller, check_cuda
from plugrad.registry.errors import DeclarationError
from plugrad.registry.operator import Operator
from plugrad.registry.parameters import read_parameters
from plugrad.registry.random_operator import RandomOperator, check_random
from plugrad.registry.schema import Schema, as_names, check_name, did_you_mean, one_of, read_schema

__all__ = ["EXEMPTIONS", "operator"]

EXEMPTIONS = ("linearity",)
"""The checks that an operator may declare not to hold for it; listings name them."""


def operator(
    name: str,
    *,
    elementwise: bool = False,
    dtypes: str | Mapping[str, str] = "floating",
    out_dtype: str | None = None,
    outputs: str | Iterable[str] | None = None,
    nondifferentiable: bool | str | Iterable[str] = False,
    infer: Callable[..., Any] | None = None,
    view_of: str | None = None,
    mutates: str | Iterable[str] | None = None,
    surrogate: Callable[..., Any] | None = None,
    kinks: Mapping[float, Any] | Callable[..., Any] | None = None,
    exempt: str | Iterable[str] = (),
    once_differentiable: bool = False,
    random: bool = False,
    method: bool = False,
    cpu: Callable[..., Any] | None = None,
    cuda: Any = None,
    replaces: str | None = None,
    fingerprint: bytes = b"",
) -> Callable[[Callable[..., Any]], Operator]:
    """Declare an operator; decorates its reference function, arrays to arrays.

    The function's positional parameters are tensors (``=None``: optional; ``*xs``: a list, last),
    its keyword-only parameters are constants. `Operator.backward` and `Operator.samples` complete
    the declaration.

    Parameters
    ----------
    name : str
        ``"namespace::name"``.
    elementwise : bool, default False
        The function works element by element on operands that broadcast: shapes and dtypes are
        inferred, gradients are summed back to the operands' shapes, and Python numbers stay
        numbers.
    dtypes : str or dict of input: str, default "floating"
        What the inputs may be: "floating", "complex" (or floating), "numeric" (bool, integers,
        floating), "number" (numeric or complex), "integer", "bool" or "any". Inputs that a dict leaves out
        are floating. With "complex" and "number" the rule is one for complex numbers, too: the gradient is
        that with respect to the real part plus i times that with respect to the imaginary part (the
        conjugate of the Wirtinger derivative, as in PyTorch), so a rule multiplies by the ``.conj()`` of
        the derivative, which costs nothing where that is real; at least one sample is complex.
        The 16-bit floats need no thought: on the CPU functions and kernels get float32, and results are rounded.
        Views, and operators on "any", get the arrays as they are.
    out_dtype : str, optional
        The dtype of an elementwise result where it is not the promoted one, for example "bool"; "real" is
        the dtype of its real part.
    outputs : tuple of str, optional
        Names of the outputs when there are several; one output is called ``out``.
    nondifferentiable : bool or tuple of str, default False
        Whether all outputs, or which, have no gradient.
    infer : callable, optional
        ``infer(*metas, **constants)`` gives (shape, dtype), or a list of them, of a non-elementwise
        result.
    view_of : str, optional
        The input that the output shares memory with.
    mutates : str or tuple of str, optional
        The inputs that the function writes in place.
    surrogate : callable, optional
        ``surrogate(*arrays, **constants)``, the function whose derivative the rule is, where that
        is not the function itself. A parameter ``at`` receives the arrays once more, held fixed.
    kinks : dict or callable, optional
        Where the derivative does not exist: ``{value: derivative taken there}`` of an elementwise
        operator's first input (the derivative a number, or a function of the constants), or
        ``kinks(*arrays, tol, **constants)``, True within ``tol`` of a kink.
    exempt : str or tuple of str, optional
        Checks that do not hold, by name: "linearity".
    once_differentiable : bool, default False
        The gradient itself cannot be differentiated; trying raises.
    random : bool, default False
        It draws random numbers. It then has the constant ``generator=None``: callers pass a `plugrad.Generator` or
        nothing, the function, the rule and the kernels get a `plugrad.random.Stream`. With the same stream the
        numbers are the same, so a rule need not save them.
    method : bool, default False
        It becomes a method of Tensor.
    cpu : callable, optional
        The CPU kernel ``cpu(*arrays, out=None, **constants)``; the function itself unless given.
    cuda : str, callable or via_host, optional
        The CUDA kernel: a C expression of the inputs and constants (elementwise operators; see
        `plugrad.backends.cuda.elementwise` for what it may use); the name of a kernel, ``"module:attribute"``, a
        leading dot relative to the package of this module, imported on first use; a callable
        ``cuda(*arrays, **constants)``, such as `plugrad.on_tensors` makes; or ``plugrad.via_host`` to copy
        to the host and back. An operator with ``view_of=`` needs none. Others without one raise on a CUDA tensor.
    replaces : str, optional
        Name of another plugin's operator that this one stands in for.
    fingerprint : bytes, optional
        Added to what certificates depend on.

    Returns
    -------
    callable
        A decorator that gives an `Operator`.

    Raises
    ------
    DeclarationError
        Signature and flags contradict each other or mean nothing.

    Examples
    --------
    >>> @plugrad.operator("my::cube", elementwise=True)
    ... def cube(x):
    ...     return x**3
    >>> @cube.backward
    ... def _(grad, x):
    ...     return 3 * grad * x * x
    >>> @cube.samples
    ... def _(make):
    ...     yield make.call(make.normal(3, 4))
    """
    check_name(name)
    exemptions = frozenset(as_names(name, "exempt", exempt))
    for each in exemptions:
        if each not in EXEMPTIONS:
            raise DeclarationError(
                f"{name}: no check that can be exempted is called {each!r}; they are "
                f"{one_of(EXEMPTIONS)}{did_you_mean(each, EXEMPTIONS)}"
            )
    if cpu is not None and not callable(cpu):
        raise DeclarationError(f"{name}: cpu is a kernel f(*arrays, out=None, …), got {cpu!r}")
    if not isinstance(fingerprint, bytes):
        raise DeclarationError(f"{name}: fingerprint is bytes, got {fingerprint!r}")
    if replaces is not None:
        check_name(replaces)
    module = sys._getframe(1).f_globals.get("__name__", "__main__")
    origin = caller()

    def declare(function: Callable[..., Any]) -> Operator:
        schema = read_schema(
            name,
            function,
            elementwise=elementwise,
            dtypes=dtypes,
            out_dtype=out_dtype,
            outputs=outputs,
            nondifferentiable=nondifferentiable,
            infer=infer,
            view_of=view_of,
            mutates=mutates,
        )
        check_cuda(name, schema, module, cuda)
        check_random(name, schema, bool(random))
        kind = RandomOperator if random else Operator
        made = kind(name, schema, function, module=module, cpu=cpu)
        made.origin = origin
        made.surrogate = check_surrogate(name, schema, surrogate)
        made.kinks = check_kinks(name, schema, kinks)
        made.exempt = exemptions
        made.once_differentiable = bool(once_differentiable)
        made.random, made.method = bool(random), bool(method)
        made.dtypes, made.cuda = dtypes, cuda
        made.replaces, made.fingerprint = replaces, fingerprint
        return made

    return declare


def check_surrogate(
    name: str, schema: Schema, surrogate: Callable[..., Any] | None
) -> Callable[..., Any] | None:
    """`surrogate` if it can be called with the operator's arrays and constants."""
    if surrogate is None:
        return None
    if all(schema.nondifferentiable):
        raise DeclarationError(
            f"{name}: a surrogate says what the derivative is, and nondifferentiable=True that there is none"
        )
    theirs = read_parameters(name, surrogate)
    keywords = list(schema.constants)
    if "at" in theirs.positional or "at" in theirs.keywords or theirs.any_keyword is not None:
        keywords.append("at")
    why = theirs.refuses(len(schema.inputs) - schema.variadic, keywords)
    if why is None and schema.variadic and theirs.variadic is None:
        why = f"it does not take a list like *{schema.inputs[-1]}"
    if why is not None:
        raise DeclarationError(
            f"{name}: the surrogate is called with the arrays {one_of(schema.inputs)} by position and the "
            f"constants {one_of(schema.constants)} by keyword, but {why} "
            "(**constants takes those that do not matter)"
        )
    return surrogate


def check_kinks(
    name: str, schema: Schema, kinks: Mapping[float, Any] | Callable[..., Any] | None
) -> dict[float, Any] | Callable[..., Any] | None:
    """`kinks` if it has one of the two forms."""
    if kinks is None:
        return None
    if isinstance(kinks, Mapping):
        if not schema.elementwise:
            raise DeclarationError(
                f"{name}: kinks={{value: derivative}} is for elementwise operators; "
                "others give a function kinks(*arrays, tol, **constants)"
            )
        for value, slope in kinks.items():
            if not isinstance(value, (int, float)) or not (
                isinstance(slope, (int, float)) or callable(slope)
            ):
                raise DeclarationError(
                    f"{name}: kinks maps a number to the derivative taken there, got {value!r}: {slope!r}"
                )
        return dict(kinks)
    if not callable(kinks):
        raise DeclarationError(
            f"{name}: kinks is {{value: derivative}} or a function, got {kinks!r}"
        )
    theirs = read_parameters(name, kinks)
    why = theirs.refuses(len(schema.inputs) - schema.variadic, ("tol", *schema.constants))
    if why is not None:
        raise DeclarationError(
            f"{name}: kinks is called as kinks(*arrays, tol=…, **constants) with the arrays "
            f"{one_of(schema.inputs)} and the constants {one_of(schema.constants)}, but {why}"
        )
    return kinks
