"""A hash over what an operator declares: its functions, constants, expressions and flags.

(a) A function is hashed by what it does: byte code, constants, names, default values and the values
    that its closure holds. Line numbers and file names do not count, comments neither.
(b) Globals that a function names are not followed: they are code and data of a distribution, whose
    files have a digest of their own (`digest.py`).
(c) An object of a frozen dataclass is hashed by its fields and by what its class's methods do.
(d) A value that can hold anything (an open file, an object of a class made in a function) is
    *opaque*. Guessing would risk taking one function for another, so an operator that holds one has
    no fingerprint, and is verified in each process, unless its author vouches for it with
    `fingerprint=`.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.registry.cuda import absolute_module, is_reference
from plugrad.registry.operator import Operator

if TYPE_CHECKING:
    from plugrad.registry.table import AnyOperator

__all__ = ["Opaque", "of_function", "of_operator"]

_ATTRIBUTES = (
    "kind",
    "name",
    "module",
    "function",
    "sampler",
    "kinks",
    "exempt",
    "random",
    "method",
    "once_differentiable",
    "nondifferentiable",
    "replaces",
    "rule",
    "rule_kernel",
    "jvp_rule",
    "surrogate",
    "dtypes",
    "cuda",
    "cuda_backward",
    "expression",
    "fingerprint",
)


class Opaque(Exception):
    """A value cannot be hashed; the message says which and where."""


def of_operator(operator: AnyOperator) -> str:
    """The fingerprint of a declaration, hexadecimal.

    Raises
    ------
    Opaque
        Something that it holds cannot be hashed.
    """
    hasher = _Hasher(lenient=bool(operator.fingerprint))
    for name in _ATTRIBUTES:
        hasher.add(getattr(operator, name, None), f"{operator.name}: {name}")
    if isinstance(operator, Operator):
        for each in (operator.cuda, operator.cuda_backward):
            if isinstance(each, str) and is_reference(each):
                _check_own(hasher, operator, each)
        for field in fields(operator.schema):
            hasher.add(getattr(operator.schema, field.name), f"{operator.name}: {field.name}")
        kernel = operator._kernel("cpu")
        hasher.add(
            getattr(kernel, "function", None) or type(kernel), f"{operator.name}: its kernel"
        )
    return hasher.digest()


def _check_own(hasher: _Hasher, operator: Operator, reference: str) -> None:
    """A kernel by name is in the digest of the operator's distribution if it is in the same package."""
    module = absolute_module(operator.module, reference)
    if module.partition(".")[0] != operator.module.partition(".")[0]:
        hasher.opaque(
            module,
            f"{operator.name}: its CUDA kernel is in the module {module}, which its digest does not cover",
        )


def of_function(function: Callable[..., Any], where: str) -> str:
    """The fingerprint of one callable; raises `Opaque` as `of_operator` does."""
    hasher = _Hasher()
    hasher.add(function, where)
    return hasher.digest()


class _Hasher:
    """Feeds values into one hash, each with its type, so that different values never read alike."""

    def __init__(self, *, lenient: bool = False) -> None:
        self._hash = hashlib.sha256()
        self._lenient = lenient
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []  # an id stays taken only while its object lives

    def digest(self) -> str:
        return self._hash.hexdigest()

    def _feed(self, *parts: object) -> None:
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode()
            self._hash.update(b"%d:" % len(data))
            self._hash.update(data)

    def add(self, value: object, where: str) -> None:
        """Hash a value; `where` says in an error what it is."""
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self._feed(type(value).__name__, value if isinstance(value, bytes) else repr(value))
            return
        if id(value) in self._seen:
            self._feed("again", self._seen[id(value)])
            return
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        adder = _adder(value)
        if adder is not None:
            adder(self, value, where)
        else:
            self.opaque(
                value, f"{where} is of class {type(value).__qualname__}, which can hold anything"
            )

    def opaque(self, value: object, reason: str) -> None:
        if not self._lenient:
            raise Opaque(reason)
        self._feed("opaque", type(value).__qualname__)

    # ---- kinds of values ---------------------------------------------------------------------

    def sequence(self, value: Any, where: str) -> None:
        self._feed(type(value).__name__, len(value))
        for item in value:
            self.add(item, where)

    def unordered(self, value: Any, where: str) -> None:
        self._feed(type(value).__name__, len(value))
        for item in sorted(value, key=lambda item: (type(item).__name__, repr(item))):
            self.add(item, where)

    def mapping(self, value: Any, where: str) -> None:
        self._feed("dict", len(value))
        for key, item in value.items():
            self.add(key, where)
            self.add(item, where)

    def array(self, value: Any, where: str) -> None:
        if value.dtype.hasobject:
            self.opaque(value, f"{where} is an array of Python objects, which can hold anything")
        else:
            self._feed("array", value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes())

    def code(self, value: Any, where: str) -> None:
        self._feed(
            "code", value.co_code, value.co_flags, value.co_argcount, value.co_kwonlyargcount
        )
        names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        self._feed(value.co_exceptiontable, *names)
        for constant in value.co_consts:
            self.add(constant, where)

    def function(self, value: Any, where: str) -> None:
        self._feed("function")
        self.add(value.__code__, where)
        self.add(value.__defaults__, f"a default value of {where}")
        self.add(value.__kwdefaults__, f"a default value of {where}")
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            try:
                content = cell.cell_contents
            except ValueError:  # not assigned yet
                content = None
            self.add(content, f"{where}: {name!r} in its closure")

    def compiled(self, value: Any, where: str) -> None:
        """Built in or compiled by Cython: its name, for the code is in a distribution."""
        if "<locals>" in value.__qualname__:
            self.opaque(value, f"{where} is a compiled closure, which can hold anything")
        self._feed("compiled", value.__module__, value.__qualname__)
        bound = getattr(value, "__self__", None)
        if bound is not None and not isinstance(bound, (types.ModuleType, type)):
            self.add(bound, where)
        self.add(getattr(value, "__defaults__", None), where)
        self.add(getattr(value, "__kwdefaults__", None), where)

    def method(self, value: Any, where: str) -> None:
        self._feed("method")
        self.add(value.__func__, where)
        self.add(value.__self__, where)

    def partial(self, value: Any, where: str) -> None:
        self._feed("partial")
        for part in (value.func, value.args, value.keywords):
            self.add(part, where)

    def named(self, value: Any, where: str) -> None:
        """A class, module or ufunc: what its name imports."""
        name = getattr(value, "__qualname__", value.__name__)
        module = getattr(value, "__module__", "") or ""
        if "<locals>" in name or (module == "__main__" and isinstance(value, type)):
            self.opaque(value, f"{where} is the class {name}, which no distribution defines")
        self._feed(type(value).__name__, module, name)

    def frozen(self, value: Any, where: str) -> None:
        """An object of a frozen dataclass."""
        self.named(type(value), where)
        for owner in type(value).__mro__[:-1]:
            for name, member in vars(owner).items():
                function = getattr(member, "__func__", getattr(member, "fget", member))
                generated = "<string>"  # by dataclass()
                if (
                    isinstance(function, types.FunctionType)
                    and function.__code__.co_filename != generated
                ):
                    self._feed(name)
                    self.add(function, where)
        for field in fields(value):
            self.add(getattr(value, field.name), f"{where}: {field.name}")

    def text(self, value: Any, where: str) -> None:
        self._feed(type(value).__name__, repr(value))

    def registered(self, value: Any, where: str) -> None:
        """Another operator: its name; what it does is in the certificate's list of calls."""
        self._feed("operator", value.name)

    def wrapped(self, value: Any, where: str) -> None:
        """A function compiled by Numba: the Python function it was made from."""
        self._feed(type(value).__qualname__)
        self.add(value.py_func, where)

    def expressions(self, value: Any, where: str) -> None:
        """The text of a backward on a device; where it stands does not count."""
        self.mapping(value.texts, where)
        self.add(value.names, where)

    def kernel(self, value: Any, where: str) -> None:
        self.named(type(value), where)
        self.add(getattr(value, "function", None), where)


_Adder = Callable[[_Hasher, Any, str], None]


def _adder(value: object) -> _Adder | None:
    for kinds, adder in _adders():
        if isinstance(value, kinds):
            return adder
    # The class's own: an object of a subclass that is no frozen dataclass may have other attributes.
    parameters = vars(type(value)).get("__dataclass_params__")
    if parameters is not None and parameters.frozen:
        return _Hasher.frozen
    if hasattr(value, "py_func"):
        return _Hasher.wrapped
    if type(value).__name__ in ("cython_function_or_method", "fused_cython_function"):
        return _Hasher.compiled
    return _Hasher.named if _importable(value) else None


def _importable(value: object) -> bool:
    """Whether a value is a global of a module, reached by its own name, such as ``np.sum``."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    name = getattr(value, "__name__", None)
    return module is not None and isinstance(name, str) and getattr(module, name, None) is value


@functools.cache
def _adders() -> tuple[tuple[type | tuple[type, ...], _Adder], ...]:
    return tuple(_kinds())


def _kinds() -> Iterator[tuple[type | tuple[type, ...], _Adder]]:
    from plugrad.graph.op import Kernel
    from plugrad.registry.cuda import ViaHost
    from plugrad.registry.declared import Declared
    from plugrad.registry.device_backward import Expressions, FormulaBackward

    yield (tuple, list), _Hasher.sequence
    yield (frozenset, set), _Hasher.unordered
    yield (dict, types.MappingProxyType), _Hasher.mapping
    yield Declared, _Hasher.registered
    yield types.FunctionType, _Hasher.function
    yield types.CodeType, _Hasher.code
    yield (types.BuiltinFunctionType, types.MethodDescriptorType), _Hasher.compiled
    yield types.MethodType, _Hasher.method
    yield functools.partial, _Hasher.partial
    yield (type, types.ModuleType, np.ufunc), _Hasher.named
    yield (np.ndarray, np.generic), _Hasher.array
    yield (np.dtype, range, slice, type(...)), _Hasher.text
    yield Kernel, _Hasher.kernel
    yield (ViaHost, FormulaBackward), _Hasher.text
    yield Expressions, _Hasher.expressions
