"""What reductions and scans have in common: expressions over an accumulator, and the kernels that are made of them."""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plugrad.backends.cuda import accumulation_source as source
from plugrad.backends.cuda.dtypes import (
    c_type,
    common_dtype,
    compute_type,
    is_complex,
    is_floating,
    wide_type,
)
from plugrad.backends.cuda.elementwise_source import Array, Number, Output
from plugrad.backends.cuda.expression import check_expression, check_parameters, names_in
from plugrad.backends.cuda.module import Module
from plugrad.backends.dtypes import kind

__all__ = ["MOST_PLANS", "Accumulation", "normalized_axes"]

MOST_PLANS = 2048
TAKEN = ("axes", "axis", "keepdim", "reverse", "out_dtype", "a", "b", "n", "index")
# Types that an accumulator has no field of: it consists of whole words, and int holds them all.
NARROW = ("bool", "i8", "u8", "i16", "u16")
KINDS = {float: ("double", "R"), int: ("i64", "i64"), bool: ("i64", "bool")}

Shape = tuple[int, ...]


class Accumulation:
    """Expressions that accumulate elements; see `reduction.Reduction` for the parameters."""

    kernels = ""  # the file that the expressions are compiled with

    def __init__(
        self,
        map: str | Mapping[str, str] = "x",
        combine: str | Mapping[str, str] = "a + b",
        identity: str | Mapping[str, str] = "0",
        finish: str | Mapping[str, str] = "a",
        acc: str | Mapping[str, str] = "wide",
        inputs: Sequence[str] = ("x",),
        constants: Sequence[str] = (),
        out_dtype: Any = None,
        name: str = "reduction",
        origin: str = "",
        line: int = 0,
    ) -> None:
        self.name, self.inputs, self.constants = name, tuple(inputs), tuple(constants)
        self.origin, self.line = origin, line
        self.acc = {"": acc} if isinstance(acc, str) else dict(acc)
        self.map = _fields(name, "map", map, acc)
        self.identity = _fields(name, "identity", identity, acc)
        self.combine: Any = combine
        if not isinstance(combine, str):
            self.combine = _fields(name, "combine", combine, acc)
        self.several = not isinstance(finish, str)
        self.finish = {"out": finish} if isinstance(finish, str) else dict(finish)
        self.out_dtypes = dict.fromkeys(self.finish, out_dtype)
        if isinstance(out_dtype, Mapping):
            self.out_dtypes = dict(out_dtype)
        self._check()
        self._known = set(self.constants)
        self._plans: dict[Any, Any] = {}
        self._modules: dict[Any, Module] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}({', '.join(self.inputs)})>"

    def _check(self) -> None:
        if not self.inputs:
            raise ValueError(f"{self.name}: there is no input")
        for c in self.acc.values():
            if c not in ("wide", "same", *NARROW, *source.SIZES):
                listed = ", ".join(("wide", "same", "bool", *source.SIZES))
                raise ValueError(f"{self.name}: acc is one of {listed}, got {c!r}")
        check_parameters(self.name, (*self.inputs, *self.constants), TAKEN)
        check_parameters(self.name, [field for field in self.acc if field])
        combine = [self.combine] if isinstance(self.combine, str) else self.combine.values()
        for texts, known in (
            (self.map.values(), (*self.inputs, *self.constants)),
            (self.identity.values(), self.constants),
            (combine, ("a", "b", *self.constants)),
            (self.finish.values(), ("a", "n", *self.constants)),
        ):
            for text in texts:
                check_expression(self.name, text, known)
        self.counts = any("index" in names_in(text) for text in self.map.values())

    # ---------------------------------------------------------------------------------- a call

    def _values(self, constants: dict[str, Any]) -> tuple:
        """The constants in order, as Python numbers."""
        if constants.keys() != self._known:
            for name in (*self.constants, *constants):
                if name not in constants:
                    raise TypeError(f"{self.name}: the constant {name!r} is missing")
                if name not in self._known:
                    known = ", ".join(self.constants) or "none"
                    raise TypeError(f"{self.name} has no constant {name!r}; it has {known}")
        return tuple([_plain(self.name, name, constants[name]) for name in self.constants])

    def _packed(self, values: tuple) -> bytes:
        """The struct of constants."""
        if not values:
            return bytes(8)
        try:
            return struct.pack("".join("d" if type(v) is float else "q" for v in values), *values)
        except struct.error:
            raise OverflowError(f"{self.name}: constants must fit 64 bits, got {values}") from None

    def _check_operands(self, operands: tuple) -> None:
        if len(operands) != len(self.inputs):
            raise TypeError(
                f"{self.name} takes {', '.join(self.inputs)}, got {len(operands)} arrays"
            )

    def _plan(self, operands: tuple, how: tuple, values: tuple) -> Any:
        """The plan for operands laid out like these, made by ``_make_plan(operands, *how, values)`` when new."""
        layouts = [(x.dtype.num, x.shape, x.strides) for x in operands]
        key = (*layouts, *how, *map(type, values))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._make_plan(operands, *how, values)
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _make_plan(self, operands: tuple, *rest: Any) -> Any:
        raise NotImplementedError

    # ------------------------------------------------------------------------------- the source

    def _result_dtypes(self, dtypes: list[np.dtype], asked: Any) -> tuple[np.dtype, ...]:
        natural = common_dtype(dtypes)
        if "wide" in self.acc.values() and natural.kind in "biu":
            natural = np.dtype(np.int64)
        chosen = [asked if asked is not None else self.out_dtypes.get(key) for key in self.finish]
        return tuple(natural if each is None else np.dtype(each) for each in chosen)

    def _module(
        self,
        operands: tuple,
        values: tuple,
        dtypes: tuple[np.dtype, ...],
        asked: Any,
        narrow: bool,
    ) -> tuple[Module, int]:
        """The kernels for these dtypes and kinds of constants, and the size of an accumulator."""
        text = self._text(operands, values, dtypes, asked, "int" if narrow else "i64")
        written = source.accumulation_source(text, self.kernels)
        with self._lock:
            found = self._modules.get(written)
            if found is None:
                found = self._modules[written] = Module(written, name=self.name)
        return found, source.accumulator_size(text.accumulator)

    def _text(
        self,
        operands: tuple,
        values: tuple,
        dtypes: tuple[np.dtype, ...],
        asked: Any,
        offsets: str,
    ) -> source.Text:
        common = common_dtype([x.dtype for x in operands])
        wide = "wide" in self.acc.values()
        chosen = np.dtype(asked) if asked is not None and wide else common
        computed = wide_type(chosen, self.name) if wide else compute_type(common, self.name)
        floating = [compute_type(d, self.name) for d in dtypes if kind(d) == "f"]
        real = floating[0] if floating else "double"
        if is_floating(computed) or is_complex(computed):
            real = computed
        arrays = []
        for name, x in zip(self.inputs, operands):
            own = compute_type(x.dtype, self.name)
            as_common = x.dtype.kind not in "biu" or common.kind in "biu" or len(operands) == 1
            stored = c_type(x.dtype, self.name)
            arrays.append(Array(name, stored, computed if as_common else own, x.dtype.itemsize))
        numbers = [Number(name, *KINDS[type(v)]) for name, v in zip(self.constants, values)]
        outputs = [
            Output(each, c_type(d, self.name), compute_type(d, self.name), d.itemsize)
            for each, d in zip(self.finish.values(), dtypes)
        ]
        types = {"wide": computed, "same": computed}
        accumulator = {field: types.get(c, c) for field, c in self.acc.items()}
        accumulator = {field: "int" if c in NARROW else c for field, c in accumulator.items()}
        return source.Text(
            self.name, arrays, numbers, outputs, accumulator, self.identity, self.map, self.combine, computed, real,
            offsets, self.origin, self.line,
        )  # fmt: skip


def _plain(kernel: str, name: str, value: Any) -> Any:
    if type(value) in KINDS:
        return value
    if isinstance(value, np.generic | int | float):
        value = value.item() if isinstance(value, np.generic) else value
        for kind in (bool, int, float):
            if isinstance(value, kind):
                return kind(value)
    raise TypeError(f"{kernel}: {name!r} must be a number, got {value!r}")


def _fields(name: str, what: str, given: Any, acc: Any) -> dict[str, str]:
    """The expressions of an accumulator's fields; a plain number has one field without a name."""
    wanted = {"": 0} if isinstance(acc, str) else acc
    found = {"": given} if isinstance(given, str) else dict(given)
    if set(found) != set(wanted):
        raise ValueError(
            f"{name}: {what} must have an expression for each field of acc "
            f"({', '.join(wanted) or 'a single one'}), got {given!r}"
        )
    return {field: found[field] for field in wanted}


def normalized_axes(name: str, axes: Any, ndim: int) -> Shape:
    """Axes as a sorted tuple of numbers from 0.

    Raises
    ------
    ValueError
        One is out of range or given twice.
    """
    if axes is None:
        return tuple(range(ndim))
    given = axes if isinstance(axes, tuple | list) else (axes,)
    found = []
    for axis in given:
        if not -ndim <= axis < ndim:
            raise ValueError(f"{name}: axis {axis} is out of range for {ndim} dimensions")
        found.append(axis % ndim)
    if len(set(found)) != len(found):
        raise ValueError(f"{name}: axes {given} name a dimension twice")
    return tuple(sorted(found))
