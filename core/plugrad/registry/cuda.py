"""What `cuda=` of a declaration may be, and the kernel that is made of it on first use.

(a) An expression is C over the names of inputs and constants, for elementwise operators; the name of a kernel is
    ``"module:attribute"``, a leading dot relative to the package of the operator's module; a callable is the
    kernel itself; `via_host` copies to the host and back. Whatever can be known to be wrong is refused when the
    operator is declared.
(b) Nothing of a backend is imported before a tensor of that device meets the operator.
(c) The reference function often checks the constants of a call. An expression cannot, so the reference is run on
    arrays without elements once per combination of constants, for its errors alone.
"""

from __future__ import annotations

import importlib
import linecache
import re
import sys
from collections.abc import Callable
from functools import wraps
from importlib.util import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plugrad.backends.dtypes import wide
from plugrad.graph.grad_mode import no_grad
from plugrad.graph.tensor import Tensor
from plugrad.registry.errors import DeclarationError
from plugrad.registry.schema import Schema

if TYPE_CHECKING:
    from plugrad.registry.on_device import OnDevice

__all__ = [
    "Origin",
    "check_cuda",
    "check_reference",
    "is_reference",
    "kernel_for",
    "kernel_kind",
    "load_kernel",
    "on_tensors",
    "via_host",
]

REFERENCE = re.compile(r"\.*[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class ViaHost:
    """The type of `via_host`."""

    def __repr__(self) -> str:
        return "plugrad.via_host"

    def __reduce__(self) -> str:
        return "via_host"


via_host = ViaHost()
"""Given as ``cuda=``: copy the arrays to the host, run the reference function there, and copy what it returns back.

Slow, and never done unless it is asked for this way.
"""


class Origin(NamedTuple):
    """Where the text of a kernel stands in its author's file; ``line`` is that of the declaration."""

    file: str
    line: int

    def at(self, text: str) -> Origin:
        """The line at which `text` begins, if the source can be read and has it soon after the declaration."""
        first = text.strip().partition("\n")[0]
        for line in range(self.line, self.line + 40):
            if first and first in linecache.getline(self.file, line):
                return Origin(self.file, line)
        return self


def caller(depth: int = 2) -> Origin:
    """The line that called the function which asks."""
    frame = sys._getframe(depth)
    return Origin(frame.f_code.co_filename, frame.f_lineno)


# --------------------------------------------------------------------------------------- declaration


def is_reference(text: str) -> bool:
    """Whether a text names a kernel, ``"module:attribute"``, and is no expression."""
    return REFERENCE.fullmatch(text.strip()) is not None


def check_cuda(name: str, schema: Schema, module: str, cuda: Any) -> None:
    """Refuse a `cuda=` that cannot work.

    Raises
    ------
    DeclarationError
        It is none of the forms, an expression of an operator that is not elementwise, uses an unknown name, or copies
        what must be shared.
    """
    if cuda is None:
        return
    if cuda is via_host:
        if schema.view_of >= 0 or schema.mutates:
            raise DeclarationError(
                f"{name}: via_host copies, so it cannot serve an operator that "
                f"{'returns a view' if schema.view_of >= 0 else 'writes in place'}"
            )
        return
    if isinstance(cuda, str):
        if is_reference(cuda):
            check_reference(name, module, cuda)
        else:
            check_expression_operator(name, schema, cuda)
            check_names(name, "the CUDA expression", cuda, (*schema.inputs, *schema.constants))
        return
    if not callable(cuda):
        raise DeclarationError(
            f"{name}: cuda is a C expression, the name of a kernel such as '.cuda:{name.partition('::')[2]}', "
            f"a callable or plugrad.via_host, got {cuda!r}"
        )


def check_names(name: str, what: str, text: str, known: tuple[str, ...]) -> list[str]:
    """The names among `known` that the expression of an operator uses; refuses what cannot be compiled."""
    from plugrad.backends.cuda.expression import check_expression

    try:
        return check_expression(f"{name}: {what}", text, known)
    except ValueError as error:
        raise DeclarationError(str(error)) from None


def check_expression_operator(name: str, schema: Schema, text: str) -> None:
    """Refuse an expression for an operator that none can describe."""
    reason = (
        "is not elementwise" if not schema.elementwise
        else "takes a list of tensors" if schema.variadic
        else "takes a tensor that may be absent" if any(schema.optional)
        else "has several outputs" if len(schema.outputs) > 1
        else "writes in place" if schema.mutates
        else ""
    )  # fmt: skip
    if reason:
        raise DeclarationError(
            f"{name}: the CUDA expression {text!r} says what one element is, but the operator {reason}; give the "
            f"name of a kernel, such as '.cuda:{name.partition('::')[2]}', or a callable"
        )


def check_reference(name: str, module: str, text: str) -> None:
    """Refuse the name of a kernel that is relative to nothing."""
    if text.strip().startswith("."):
        try:
            absolute_module(module, text)
        except ImportError as error:
            raise DeclarationError(
                f"{name}: the kernel {text!r} is named relative to the package of the module {module!r}: {error}; "
                "write the whole name, 'package.module:attribute'"
            ) from None


def absolute_module(module: str, text: str) -> str:
    """The module in the name of a kernel, relative names resolved as in `module`."""
    own = text.strip().partition(":")[0]
    if not own.startswith("."):
        return own
    loaded = sys.modules.get(module)
    package = getattr(loaded, "__package__", None)
    if package is None:
        package = module.rpartition(".")[0]
    return resolve_name(own, package)


# ----------------------------------------------------------------------------------------- first use


def kernel_kind(operator: OnDevice) -> str:
    """How the operator's own declaration serves CUDA, in a word; "" where it does not."""
    cuda = operator.cuda
    if cuda is None:
        return "view" if operator.schema.view_of >= 0 else ""
    if cuda is via_host:
        return "via host"
    if getattr(cuda, "on_tensors", False):
        return "composition"
    return "expression" if isinstance(cuda, str) and not is_reference(cuda) else "kernel"


def kernel_for(operator: OnDevice) -> Callable[..., Any] | None:
    """The function on CUDA arrays that an operator's declaration gives, or None."""
    kind, cuda = kernel_kind(operator), operator.cuda
    if kind == "view":
        return view_kernel(operator)
    if kind == "via host":
        return host_kernel(operator)
    if kind == "expression":
        return expression_kernel(operator)
    return load_kernel(operator, cuda) if isinstance(cuda, str) else cuda


def load_kernel(operator: OnDevice, text: str) -> Callable[..., Any]:
    """What the name of a kernel leads to.

    Raises
    ------
    ImportError
        There is no such module, or it has nothing callable of that name.
    """
    module = absolute_module(operator.module, text)
    attribute = text.strip().partition(":")[2]
    where = f"the CUDA kernel {text!r} of {operator.name}"
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{where} cannot be imported: {error}") from error
    except FileNotFoundError as error:
        raise ImportError(
            f"{where} cannot be imported: {error}. A package installs files that are no Python if its pyproject.toml lists "
            "them in [tool.setuptools.package-data]"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ImportError(f"{where} does not exist: {module} has no {attribute!r}")
        found = getattr(found, part)
    if not callable(found):
        raise ImportError(f"{where} is a {type(found).__name__}, which cannot be called")
    return found


def view_kernel(operator: OnDevice) -> Callable[..., Any]:
    """The view that the reference function takes, of memory that stays where it is."""
    from plugrad.backends.cuda.array import view_by

    function = operator.function

    def view(array: Any, *args: Any, **constants: Any) -> Any:
        return view_by(function, array, *args, **constants)

    return view


def host_kernel(operator: OnDevice) -> Callable[..., Any]:
    """The reference function as a function of arrays on the device; 16-bit floats reach it as they do on the CPU."""
    from plugrad.backends import CPU
    from plugrad.backends.cuda.array import from_host, to_host

    def down(value: Any) -> Any:
        return to_host(value) if hasattr(value, "gpudata") else value

    def up(value: Any) -> Any:
        return from_host(np.asarray(value))

    def kernel(*arrays: Any, **constants: Any) -> Any:
        given = list(map(down, arrays))
        wide = list(map(CPU.widened, given)) if operator.widens else given
        found = operator.function(*wide, **constants)
        several = isinstance(found, tuple | list)
        results = list(found) if several else [found]
        if any(x is not y for x, y in zip(wide, given)):
            dtypes = result_dtypes(operator, given, constants)
            results = [CPU.rounded(x, dtype) for x, dtype in zip(results, dtypes)]
        return tuple(map(up, results)) if several else up(results[0])

    return kernel


def result_dtypes(operator: OnDevice, arrays: list[Any], constants: dict[str, Any]) -> list[Any]:
    """The dtypes of the results for host arrays of which at least one is of a dtype for storage only."""
    schema = operator.schema
    if not schema.elementwise:
        like = [Tensor(x) if isinstance(x, np.ndarray) else x for x in arrays]
        found = operator.output_dtypes(like, [constants[name] for name in schema.constants])
        if found is not None:
            return found
    if schema.out_dtype not in (None, "real"):
        return [np.dtype(schema.out_dtype)] * len(schema.outputs)
    dtypes = [x.dtype for x in arrays if isinstance(x, np.ndarray)]
    return [next(dtype for dtype in dtypes if wide(dtype) != dtype)] * len(schema.outputs)


def expression_kernel(operator: OnDevice) -> Callable[..., Any]:
    from plugrad.backends.cuda.elementwise import Elementwise

    schema, text = operator.schema, operator.cuda
    origin = operator.origin
    if operator.expression is not None and text == operator.expression:
        from plugrad.registry.c_formula import forward_expression

        text = forward_expression(operator.name, text, schema.constants)
    elif origin is not None:
        origin = origin.at(text)
    kernel = Elementwise(
        text,
        inputs=schema.inputs,
        constants=schema.constants,
        out_dtype=schema.out_dtype,
        name=operator.name,
        origin=origin.file if origin else "",
        line=origin.line if origin else 0,
    )
    return checked(kernel, operator.function) if schema.constants else kernel


def checked(kernel: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel`, which raises what the reference function raises for constants that it does not take."""
    accepted: set[Any] = set()

    def call(*arrays: Any, **constants: Any) -> Any:
        # A stream is another one in each call, and no number that could be wrong.
        key = tuple((type(v), v) for name, v in constants.items() if name != "generator")
        if key not in accepted:
            with np.errstate(all="ignore"):
                function(*map(emptied, arrays), **constants)
            if len(accepted) < 1000:
                accepted.add(key)
        return kernel(*arrays, **constants)

    return call


def emptied(value: Any) -> Any:
    """An array on the host without elements that stands for an array; a number is itself."""
    if not hasattr(value, "gpudata"):
        return value
    return np.empty(0, wide(value.dtype))


# ------------------------------------------------------------------------------- functions of Tensors


def on_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel made of a function of Tensors: a composition of operators that have kernels.

    The operators run without recording. It serves as ``cuda=`` of an operator, as ``cuda=`` of its backward
    kernel, or as a kernel for any other device.

    Parameters
    ----------
    function : callable
        Takes Tensors (or numbers, None) by position and constants by keyword, and returns a Tensor or several.

    Returns
    -------
    callable
        The same on arrays.

    Examples
    --------
    >>> def softplus(x):
    ...     return plugrad.log1p(plugrad.exp(-x.abs())) + x.clamp(min=0)
    >>> @plugrad.operator("my::softplus", elementwise=True, cuda=plugrad.on_tensors(softplus))
    ... def my_softplus(x):
    ...     return np.logaddexp(x, 0)
    """
    if not callable(function):
        raise TypeError(f"on_tensors() takes a function of Tensors, got {function!r}")

    @wraps(function)
    def kernel(*arrays: Any, **constants: Any) -> Any:
        with no_grad():
            found = function(*map(as_tensor, arrays), **constants)
        if isinstance(found, tuple | list):
            return tuple(raw(item) for item in found)
        return raw(found)

    kernel.on_tensors = True  # type: ignore[attr-defined]
    return kernel


def as_tensor(value: Any) -> Any:
    """An array as a Tensor, a tuple of gradients as a tuple of Tensors; anything else as it is."""
    if type(value) is tuple:
        return tuple(map(as_tensor, value))
    return Tensor(value) if hasattr(value, "dtype") and hasattr(value, "strides") else value


def raw(value: Any) -> Any:
    return value.array if isinstance(value, Tensor) else value
