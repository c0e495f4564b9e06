"""Scans along one axis: running sums and products, and recurrences written as an associative combination of steps."""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

import numpy as np

from plugrad.backends.cuda import layout, storage
from plugrad.backends.cuda.accumulation import Accumulation, normalized_axes
from plugrad.backends.cuda.elementwise import COPY

__all__ = ["CUMPROD", "CUMSUM", "LINEAR_SCAN", "Scan"]

MANY_BLOCKS = 512
SHORT = 64  # a line that one thread goes along faster than a block does
SHARE = 4096  # elements that are worth a block of their own

Shape = tuple[int, ...]
NOTHING = np.uint64(0)


class _Plan(NamedTuple):
    shape: Shape
    dtypes: tuple[np.dtype, ...]
    launches: tuple[tuple[Any, Any, int, bytes], ...] = ()  # kernel, grid, block, task
    workspace: int = 0
    layouts: tuple[bytes, ...] = ()
    apart: bool = False  # more loops than a kernel has, unless the operands are in C order


class Scan(Accumulation):
    """A kernel whose element i is made of elements 0 to i of a line.

    The parameters are those of `reduction.Reduction`. `combine` must be associative; ``a`` is always the earlier one. In
    `finish`, ``n`` is the number of elements so far; in `map`, ``index`` counts elements as they come.

    Examples
    --------
    >>> running_max = Scan(map="x", combine="nan_max(a, b)", identity="lowest<T>()", acc="same")
    >>> running_max(x, axis=-1)
    """

    kernels = "scan.cuh"

    def __call__(
        self,
        arrays: Any,
        axis: int,
        reverse: bool = False,
        out_dtype: Any = None,
        **constants: Any,
    ) -> Any:
        """Scan.

        Parameters
        ----------
        arrays : GPUArray or tuple of GPUArray
            The operand; a tuple where there are several inputs, which broadcast.
        axis : int
        reverse : bool
            Begin at the end of the axis.
        out_dtype : dtype, optional
            Of the result, in place of the declared one; sums are then accumulated for that dtype.
        **constants : number

        Returns
        -------
        GPUArray or tuple of GPUArray
            Of the operands' shape, in C order.
        """
        operands = arrays if type(arrays) is tuple else (arrays,)
        values = self._values(constants) if constants or self.constants else ()
        plan: _Plan = self._plan(operands, (axis, reverse, out_dtype), values)
        if plan.apart:
            copies = [COPY(x, out=storage.empty(plan.shape, x.dtype)) for x in operands]
            return self(tuple(copies), axis, reverse, out_dtype, **constants)
        outs = [storage.empty(plan.shape, dtype) for dtype in plan.dtypes]
        if plan.launches:
            partial = storage.empty((plan.workspace,), np.uint8) if plan.workspace else NOTHING
            numbers = self._packed(values)
            for kernel, grid, block, task in plan.launches:
                kernel(grid, block, *operands, *outs, partial, numbers, task, *plan.layouts)
        return tuple(outs) if self.several else outs[0]

    # ----------------------------------------------------------------------------- a new layout

    def _make_plan(
        self, operands: tuple, axis: int, reverse: bool, out_dtype: Any, values: tuple
    ) -> _Plan:
        self._check_operands(operands)
        shape = layout.broadcast_shapes(self.name, [tuple(x.shape) for x in operands])
        dtypes = self._result_dtypes([x.dtype for x in operands], out_dtype)
        if 0 in shape:
            normalized_axes(self.name, axis, len(shape))
            return _Plan(shape, dtypes)
        full = shape or (1,)
        (along,) = normalized_axes(self.name, axis, len(full))
        strides = [
            layout.broadcast_strides(full, tuple(x.shape), tuple(x.strides)) for x in operands
        ]
        places = layout.dense_strides(full, 1)
        rest = [d for d in range(len(full)) if d != along]
        outer = layout.collapse(
            full, [*strides, places], sorted(rest, key=lambda d: -abs(strides[0][d]))
        )
        inner = [full[along]], [[each[along] for each in strides]]
        if len(outer[0]) > layout.MAX_DIMS:
            return _Plan(shape, dtypes, apart=True)
        reach = [own[:-1] for own in outer[1]] + inner[1]
        narrow = layout.fits_in_32_bits(outer[0] + inner[0], reach)
        module, size = self._module(operands, values, dtypes, out_dtype, narrow)
        lines, length, step = math.prod(full) // full[along], full[along], places[along]
        launches, splits = _launches(
            module, lines, length, step, reverse, outer[1][0][0], inner[1][0][0]
        )
        layouts = (layout.pack(*outer, narrow), layout.pack(*inner, narrow))
        return _Plan(shape, dtypes, launches, lines * splits * size if splits > 1 else 0, layouts)


def _launches(
    module: Any,
    lines: int,
    length: int,
    step: int,
    reverse: bool,
    next_line: int,
    next_element: int,
) -> tuple[tuple[tuple[Any, Any, int, bytes], ...], int]:
    """The launches that a scan consists of, and how many blocks share a line."""

    def task(share: int, splits: int, mode: int) -> bytes:
        return struct.pack("7q", lines, length, share, splits, step, reverse, mode)

    side_by_side = lines >= 1024 and abs(next_line) < abs(next_element)
    if length <= SHORT or side_by_side:
        return ((module.function("columns"), -(-lines // 128), 128, task(length, 1, 0)),), 1
    block = min(256, -(-length // 128) * 32)
    kernel = module.function("lines")
    splits = min(-(-length // SHARE), max(1, MANY_BLOCKS // lines))
    if splits == 1:
        return ((kernel, (lines, 1), block, task(length, 1, 0)),), 1
    share = -(-length // splits)
    splits = -(-length // share)
    return (
        (kernel, (lines, splits), block, task(share, splits, 1)),
        (module.function("starts"), -(-lines // 128), 128, task(share, splits, 0)),
        (kernel, (lines, splits), block, task(share, splits, 2)),
    ), splits


CUMSUM = Scan(name="cumsum")
"""Running sums; integers and bools in int64."""

CUMPROD = Scan(combine="a * b", identity="1", name="cumprod")
"""Running products."""

# A step y -> factor * y + term; two steps in a row are one again. A start from 0 stays 0 where the product of the factors
# has left the range.
LINEAR_SCAN = Scan(
    acc={"factor": "wide", "term": "wide"},
    map={"factor": "index == 0 ? T(0) : factor", "term": "term"},
    identity={"factor": "1", "term": "0"},
    combine={
        "factor": "a.factor * b.factor",
        "term": "a.term == 0 && isinf(b.factor) ? b.term : a.term * b.factor + b.term",
    },
    finish="a.term",
    inputs=("factor", "term"),
    name="linear_scan",
)
"""``LINEAR_SCAN((factor, term), axis)``: out[i] = factor[i] * out[i - 1] + term[i] along an axis, from out[0] = term[0]."""
