"""Elementwise kernels from expressions.

(a) An `Elementwise` is compiled per combination of dtypes and kinds of numbers, when that first occurs; the values of
    numbers and constants are arguments. What is known about a layout (shapes and strides of all operands) is kept, so
    that a later call is one look-up and a launch.
(b) Operands broadcast. Results are laid out like the operands where those all lie in memory alike, else in C order.
(c) Numbers mean what they mean to NumPy: they are weak, and an integer that its dtype cannot hold is an error.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from plugrad.backends.cuda import elementwise_source as source
from plugrad.backends.cuda import layout, storage
from plugrad.backends.cuda.dtypes import c_type, common_dtype, compute_type
from plugrad.backends.cuda.expression import check_expression, check_parameters, names_in
from plugrad.backends.cuda.module import Module
from plugrad.backends.cuda.plan import Caller, Plan, overlaps
from plugrad.backends.dtypes import kind
from plugrad.backends.philox import Stream

__all__ = ["COPY", "FILL", "Elementwise"]

CALL_NAMES = ("out", "shape", "dtype")
MOST_BLOCKS = 1 << 15  # with 512 elements each, an index stays clear of 2**31 (see layout.LIMIT)
INT64 = (-(2**63), 2**63 - 1)

Shape = tuple[int, ...]


class Compiled(NamedTuple):
    """The kernels for one combination of dtypes, and the range of each number."""

    module: Module
    wide: Module
    ranges: tuple[tuple[int, int] | None, ...]

    def function(self, name: str) -> Any:
        return (self.wide if name == "strided64" else self.module).function(name)


class Elementwise(Caller):
    """A kernel that computes each element of its results from the same element of its operands.

    Parameters
    ----------
    expression : str or dict
        C text over the names of inputs and constants; a dict ``{output: text}`` computes several outputs in one pass.
        Besides its own names it may use ``T`` (the type that is computed in: float, double or the integers'
        own), ``INF``, ``NAN``, ``PI``, ``index`` (the element's number in C order) and the functions of
        prelude.cuh. Floating numbers have type T; ``/`` never rounds down. With a stream among the constants there are
        ``uniform(stream, index)``, ``normal``, ``exponential``, ``bits``, ``chance(stream, index, p)`` and
        ``integers(stream, index, low, span)`` (see random.cuh), which give the numbers of the stream's methods.
    inputs : sequence of str
        Arrays, or Python numbers in their place.
    constants : sequence of str
        Python numbers and bools: a float arrives as T, an int as a 64-bit integer; streams of random numbers.
    out_dtype : dtype or dict, optional
        Of the results; by default the common dtype of the operands. "real" is that of its real part.
    name : str
        For errors: the operator's.
    origin, line : str, int
        The file and line where the expression stands, for the compiler's messages.
    header : str
        CUDA text that defines functions which the expression calls.

    Raises
    ------
    ValueError
        A name is unknown or reserved, or the text is no C expression.

    Examples
    --------
    >>> swish = Elementwise("x * sigmoid(beta * x)", inputs=("x",), constants=("beta",), name="my::swish")
    >>> y = swish(x, beta=1.5)
    >>> gradients = Elementwise({"x": "grad * y", "y": "grad * x"}, inputs=("grad", "x", "y"))
    >>> grad_x, grad_y = gradients(grad, x, y)
    """

    def __init__(
        self,
        expression: str | Mapping[str, str],
        inputs: Sequence[str] = ("x",),
        constants: Sequence[str] = (),
        out_dtype: Any = None,
        name: str = "elementwise",
        origin: str = "",
        line: int = 0,
        header: str = "",
    ) -> None:
        super().__init__(name, tuple(inputs), tuple(constants))
        self.several = not isinstance(expression, str)
        self.expressions = {"out": expression} if isinstance(expression, str) else dict(expression)
        check_parameters(name, (*inputs, *constants), CALL_NAMES)
        if not self.expressions:
            raise ValueError(f"{name}: a kernel needs at least one expression")
        for text in self.expressions.values():
            check_expression(name, text, (*inputs, *constants))
        dtypes = (
            out_dtype
            if isinstance(out_dtype, Mapping)
            else dict.fromkeys(self.expressions, out_dtype)
        )
        asked = [dtypes.get(key) for key in self.expressions]
        self.of_parts = [isinstance(d, str) and d == "real" for d in asked]
        self.out_dtypes = [
            None if d is None or real else np.dtype(d) for d, real in zip(asked, self.of_parts)
        ]
        self.decides = all(d is not None and d.kind == "b" for d in self.out_dtypes)
        self.counts = "index" not in (*inputs, *constants) and any(
            "index" in names_in(text) for text in self.expressions.values()
        )
        self.origin, self.line = origin, line
        self.header = header
        self._modules: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Elementwise {self.name}({', '.join(self.inputs)})>"

    # -------------------------------------------------------------------------------- a new layout

    def make_plan(self, operands: tuple, numbers: tuple, out: Any, shape: Any, dtype: Any) -> Plan:
        """Everything about a call that its layout decides; called by `Caller` once per layout."""
        arrays = [x for x in operands if is_array(x)]
        shapes = [tuple(x.shape) for x in arrays]
        full = layout.broadcast_shapes(
            self.name, shapes if shape is None else [*shapes, tuple(shape)]
        )
        if shape is not None and full != tuple(shape):
            raise ValueError(
                f"{self.name}: operands of shapes {shapes} do not broadcast to {tuple(shape)}"
            )
        common, dtypes = self._dtypes([x.dtype for x in arrays], operands, numbers, dtype)
        outs = self._given(out, full, dtypes)
        if outs:
            dtypes = [x.dtype for x in outs]
        compiled = self._compiled(operands, numbers, common, dtypes)
        own = [layout.broadcast_strides(full, tuple(x.shape), tuple(x.strides)) for x in arrays]
        sizes = [x.dtype.itemsize for x in arrays] + [d.itemsize for d in dtypes]
        if outs:
            return self._launch(compiled, full, own + [tuple(x.strides) for x in outs], sizes, [])
        targets = self._result_strides(full, arrays, own, dtypes)
        makes = [(full, d, strides) for d, strides in zip(dtypes, targets)]
        return self._launch(compiled, full, own + targets, sizes, makes)

    def _dtypes(
        self, dtypes: list[np.dtype], operands: tuple, numbers: tuple, asked: Any
    ) -> tuple[np.dtype, list[np.dtype]]:
        """The dtype that is computed in, and those of the results."""
        given = [np.dtype(asked) if asked is not None else own for own in self.out_dtypes]
        weak = [x for x in operands if not is_array(x)]
        if not dtypes:
            known = [d for d in given if d is not None]
            weak += [x for x in numbers if type(x) is not Stream]
            kind = np.float32 if any(type(x) is float for x in weak) else np.int64
            common = (
                known[0]
                if known
                else np.dtype(kind if any(type(x) is not bool for x in weak) else bool)
            )
        else:
            common = common_dtype(dtypes)
            if common.kind == "b" and any(type(x) is int for x in weak):
                common = np.dtype(np.int64)
            if common.kind in "biu" and any(type(x) is float for x in weak) and None in given:
                raise TypeError(
                    f"{self.name}: a floating number next to arrays of dtype {common}; convert the arrays or give dtype="
                )
        found = [common if d is None else d for d in given]
        return common, [_part(d) if real else d for d, real in zip(found, self.of_parts)]

    def _given(self, out: Any, shape: Shape, dtypes: list[np.dtype]) -> list[Any]:
        """The arrays of ``out=``, checked."""
        if out is None:
            return []
        outs = list(out) if isinstance(out, tuple | list) else [out]
        if len(outs) != len(self.expressions):
            raise ValueError(
                f"{self.name}: out= has {len(outs)} arrays, there are {len(self.expressions)} results"
            )
        for array, dtype in zip(outs, dtypes):
            if tuple(array.shape) != shape:
                raise ValueError(f"{self.name}: out= has shape {array.shape}, the result {shape}")
            if not np.can_cast(dtype, array.dtype, "same_kind"):
                raise TypeError(
                    f"{self.name}: out= has dtype {array.dtype}, which cannot take {dtype}"
                )
            if any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape)):
                raise ValueError(f"{self.name}: out= is expanded, several of its elements are one")
            if overlaps(array):
                raise ValueError(
                    f"{self.name}: elements of out= share memory (shape {array.shape}, strides {array.strides} bytes)"
                )
        return outs

    def _result_strides(
        self,
        shape: Shape,
        arrays: list[Any],
        strides: list[Shape],
        dtypes: list[np.dtype],
    ) -> list[Shape]:
        """Results lie as the operands do if those all lie alike and without gaps."""
        alike = {
            tuple(step // x.dtype.itemsize for step in own)
            for x, own in zip(arrays, strides)
            if tuple(x.shape) == shape
        }
        if len(alike) == 1 and not self.counts:
            (steps,) = alike
            if layout.is_dense(shape, steps, 1):
                return [layout.dense_strides(shape, d.itemsize, steps) for d in dtypes]
        return [layout.dense_strides(shape, d.itemsize) for d in dtypes]

    def _compiled(
        self, operands: tuple, numbers: tuple, common: np.dtype, dtypes: list[np.dtype]
    ) -> Compiled:
        """The kernels for these dtypes and kinds of numbers."""
        values = (*operands, *numbers)
        kinds = tuple(x.dtype.str if is_array(x) else type(x).__name__ for x in values)
        key = (kinds, common.str, *[d.str for d in dtypes])
        with self._lock:
            found = self._modules.get(key)
            if found is None:
                found = self._modules[key] = self._compile(values, common, dtypes)
        return found

    def _compile(self, values: tuple, common: np.dtype, dtypes: list[np.dtype]) -> Compiled:
        text = self._text(values, common, dtypes)
        module, wide = (
            Module(source.elementwise_source(text, offsets), name=self.name)
            for offsets in (False, True)
        )
        ranges: list[tuple[int, int] | None] = []
        counting = all(d.kind == "b" for d in dtypes)
        for k, x in enumerate(values):
            if is_array(x):
                continue
            floats = type(x) is float or (k < len(self.inputs) and common.kind not in "biu")
            if floats or type(x) is Stream:
                ranges.append(None)
            elif k >= len(self.inputs) or type(x) is bool or (counting and common != np.uint64):
                ranges.append(INT64)
            else:
                limits = np.iinfo(common)
                ranges.append((int(limits.min), int(limits.max)))
        return Compiled(module, wide, tuple(ranges))

    def _text(self, values: tuple, common: np.dtype, dtypes: list[np.dtype]) -> source.Text:
        """What the source is written from."""
        computed = compute_type(common, self.name)
        floating = [compute_type(d, self.name) for d in dtypes if kind(d) == "f"]
        real = computed if common.kind not in "biu" else floating[0] if floating else "double"
        names = (*self.inputs, *self.constants)
        arrays, numbers = [], []
        for k, (name, x) in enumerate(zip(names, values)):
            if is_array(x):
                arrays.append(self._array(name, x.dtype, common))
            elif type(x) is Stream:
                numbers.append(source.Number(name, source.RANDOM, source.RANDOM))
            elif type(x) is float or (k < len(self.inputs) and common.kind not in "biu"):
                numbers.append(source.Number(name, "double", "R"))
            elif type(x) is bool:
                numbers.append(source.Number(name, "i64", "bool"))
            else:
                unsigned = k < len(self.inputs) and computed == "u64"
                numbers.append(source.Number(name, "i64", "u64" if unsigned else "i64"))
        outputs = [
            source.Output(text, c_type(d, self.name), compute_type(d, self.name), d.itemsize)
            for text, d in zip(self.expressions.values(), dtypes)
        ]
        return source.Text(
            self.name,
            arrays,
            numbers,
            outputs,
            names,
            computed,
            real,
            self.counts,
            self.origin,
            self.line,
            self.header,
        )

    def _array(self, name: str, dtype: np.dtype, common: np.dtype) -> source.Array:
        own = compute_type(dtype, self.name)
        # Integers of several types meet in C by other rules than NumPy's; floating operands share their type already.
        mixed = dtype.kind in "iu" and common.kind in "iu" and dtype != common
        return source.Array(
            name, c_type(dtype, self.name), compute_type(common) if mixed else own, dtype.itemsize
        )

    def _launch(
        self,
        compiled: Compiled,
        shape: Shape,
        strides: list[Shape],
        sizes: list[int],
        makes: list[Any],
    ) -> Plan:
        """Choose a kernel and its grid, and pack what it needs to know of the layout."""
        outputs = len(self.expressions)
        count = math.prod(shape)
        ranges = compiled.ranges
        if count == 0:
            return Plan(None, 0, 0, (), makes, ranges)
        first = strides[-outputs]
        order = sorted(range(len(shape)), key=lambda d: 0 if self.counts else -abs(first[d]))
        lengths, steps = layout.collapse(shape, strides, order)
        if len(lengths) > layout.MAX_DIMS:
            return Plan(None, 0, 0, (), makes, ranges, tuple(order[: len(order) - layout.MAX_DIMS]))
        width = source.pack_width(sizes)
        if len(lengths) == 1 and (steps[0] == sizes or count == 1):
            grid = blocks(count, width * source.BLOCK)
            return Plan(compiled.function("flat"), grid, source.BLOCK, (count,), makes, ranges)
        narrow = layout.fits_in_32_bits(lengths, steps)
        spread = layout.spread_operands(lengths, steps, sizes, width)
        if narrow and spread is not None and not spread >> (len(sizes) - outputs):
            n = count // width
            inner = [step * width for step in steps[0]]
            packed = layout.pack([lengths[0] // width, *lengths[1:]], [inner, *steps[1:]], True)
            more = (packed, np.int32(n), np.int32(spread))
            function = compiled.function("rows")
            return Plan(function, blocks(n, source.BLOCK), source.BLOCK, more, makes, ranges)
        grid = blocks(count, source.BLOCK * source.ITEMS)
        packed = layout.pack(lengths, steps, narrow)
        function = compiled.function("strided32" if narrow else "strided64")
        last = np.int32(count) if narrow else count
        return Plan(function, grid, source.BLOCK, (packed, last), makes, ranges)

    # ------------------------------------------------------------------- what no kernel does at once

    def run_aside(self, operands: tuple, numbers: tuple, results: list[Any], out: Any) -> Any:
        """Results that overlap operands are computed elsewhere, then copied to their place."""
        constants = dict(zip(self.constants, numbers))
        found = self(*operands, shape=results[0].shape, **constants)
        for array, target in zip(found if self.several else [found], results):
            COPY(array, out=target)
        return tuple(results) if self.several else results[0]

    def run_in_parts(
        self, operands: tuple, numbers: tuple, results: list[Any], outer: tuple[int, ...]
    ) -> None:
        """Loop over dimensions that a kernel has no room for."""
        if self.counts:
            raise NotImplementedError(
                f"{self.name}: the element's number in an array of more than {layout.MAX_DIMS} dimensions"
            )
        shape = tuple(results[0].shape)
        constants = dict(zip(self.constants, numbers))
        for at in itertools.product(*(range(shape[d]) for d in outer)):
            parts = [part(x, shape, outer, at) if is_array(x) else x for x in operands]
            targets = [part(x, shape, outer, at) for x in results]
            self(*parts, out=tuple(targets), **constants)


def _part(dtype: np.dtype) -> np.dtype:
    """The dtype of the real part."""
    return dtype.type(0).real.dtype if dtype.kind == "c" else dtype


def is_array(x: Any) -> bool:
    return hasattr(x, "gpudata")


def blocks(count: int, each: int) -> int:
    return min(max(-(-count // each), 1), MOST_BLOCKS)


def part(array: Any, shape: Shape, outer: tuple[int, ...], at: tuple[int, ...]) -> Any:
    """An operand of a result of shape `shape` where the dimensions `outer` are at `at`."""
    strides = layout.broadcast_strides(shape, tuple(array.shape), tuple(array.strides))
    rest = [d for d in range(len(shape)) if d not in outer]
    start = storage.pointer(array) + sum(strides[d] * i for d, i in zip(outer, at))
    return storage.view(
        tuple(shape[d] for d in rest), array.dtype, tuple(strides[d] for d in rest), start, array
    )


COPY = Elementwise("x", name="copy")
"""A copy; with ``dtype=`` a cast, with ``out=`` an assignment that broadcasts."""

FILL = Elementwise("value", inputs=(), constants=("value",), name="fill")
"""``FILL(shape=…, dtype=…, value=…)``."""
