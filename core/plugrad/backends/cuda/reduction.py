"""Reductions over any axes of arrays of any strides, from expressions.

(a) Three expressions make a reduction: `map` says what an element counts, `combine` what two of those make, `finish` what
    becomes of the last one. What is accumulated may be a struct of several fields (a count, a mean and a sum of squares).
(b) The same input gives the same bits. Sums are trees, so that errors grow as slowly as NumPy's or more slowly.
(c) How threads share the work follows from the layout (see `reduction.cuh`); a plan is made once per layout and kept.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from plugrad.backends.cuda import layout, storage
from plugrad.backends.cuda.accumulation import Accumulation, normalized_axes
from plugrad.backends.cuda.elementwise import COPY
from plugrad.backends.cuda.elementwise_source import pack_width

__all__ = ["SUM", "Reduction"]

MANY_BLOCKS = 1024  # enough for every multiprocessor of a large device
MOST_SPLITS = 1024
NOTHING = np.uint64(0)  # a null pointer

Shape = tuple[int, ...]


class Shared(NamedTuple):
    """How threads share the work: the kernel, block and grid, elements per block, blocks per output."""

    kernel: str
    block: tuple[int, int]
    grid: int
    share: int
    splits: int


class _Plan(NamedTuple):
    shape: Shape
    dtypes: tuple[np.dtype, ...]
    kernel: Any = None
    fold: Any = None
    grid: tuple[int, int] = (0, 0)
    block: tuple[int, int] = (0, 0)
    fold_grid: int = 0
    workspace: int = 0
    more: tuple[bytes, ...] = ()
    order: Shape = ()  # the axes in the order in which they have to be brought first


class Reduction(Accumulation):
    """A kernel that makes one element of many.

    Parameters
    ----------
    map : str or dict
        What an element counts: C text over the inputs and constants (see `elementwise.Elementwise`), in which
        ``index`` is its number among those that are reduced, in C order.
    combine : str or dict
        What ``a`` and ``b`` make, two such values; it must not matter which are combined first.
    identity : str or dict
        What changes no value it is combined with.
    finish : str or dict
        What becomes of the last value ``a`` when ``n`` elements were reduced. A dict ``{output: text}`` gives several
        results.
    acc : str or dict
        The type that is accumulated in, T in the expressions: ``"wide"`` sums half types in float32 and all integers in
        64 bits; ``"same"`` is the type that elements are computed in; or the name of a C type, while T is that of
        the elements. A dict ``{field: type}`` accumulates a struct: `map` and `identity` are dicts with the same
        fields, `combine` one or a text that gives the struct itself, and fields are written ``a.field``.
    inputs, constants : sequence of str
        As for `Elementwise`; several inputs broadcast.
    out_dtype : dtype or dict, optional
        Of the results. By default that of the operands; int64 where ``"wide"`` sums integers.
    name : str
        For errors: the operator's.
    origin, line : str, int
        Where the expressions stand, for the compiler's messages.

    Examples
    --------
    >>> norm = Reduction(map="x * x", finish="sqrt(a)", name="norm")
    >>> norm(x, axes=(0, 2), keepdim=True)
    >>> argmax = Reduction(
    ...     acc={"value": "same", "at": "i64"},
    ...     identity={"value": "lowest<T>()", "at": "-1"},
    ...     map={"value": "x", "at": "index"},
    ...     combine="b.at >= 0 && (a.at < 0 || leads_max(b.value, b.at, a.value, a.at)) ? b : a",
    ...     finish="a.at",
    ...     out_dtype="int64",
    ... )
    """

    kernels = "reduction.cuh"

    # ---------------------------------------------------------------------------------- a call

    def __call__(
        self,
        arrays: Any,
        axes: Any = None,
        keepdim: bool = False,
        out_dtype: Any = None,
        **constants: Any,
    ) -> Any:
        """Reduce.

        Parameters
        ----------
        arrays : GPUArray or tuple of GPUArray
            The operand; a tuple where there are several inputs.
        axes : int, tuple of int or None
            What is reduced; None: everything.
        keepdim : bool
            Whether reduced axes stay, with length 1.
        out_dtype : dtype, optional
            Of the result, in place of the declared one; sums are then accumulated for that dtype.
        **constants : number

        Returns
        -------
        GPUArray or tuple of GPUArray

        Raises
        ------
        TypeError, ValueError
            Operands, constants or axes are not what the reduction takes.
        """
        operands = arrays if type(arrays) is tuple else (arrays,)
        if type(axes) is list:
            axes = tuple(axes)
        values = self._values(constants) if constants or self.constants else ()
        plan: _Plan = self._plan(operands, (axes, keepdim, out_dtype), values)
        if plan.order:
            return self._rearranged(operands, plan, out_dtype, constants)
        outs = [storage.empty(plan.shape, dtype) for dtype in plan.dtypes]
        if plan.kernel is not None:
            partial = storage.empty((plan.workspace,), np.uint8) if plan.workspace else NOTHING
            arguments = (*operands, *outs, partial, self._packed(values), *plan.more)
            plan.kernel(plan.grid, plan.block, *arguments)
            if plan.fold is not None:
                plan.fold(plan.fold_grid, (32, 4), *arguments)
        return tuple(outs) if self.several else outs[0]

    def _rearranged(
        self, operands: tuple, plan: _Plan, out_dtype: Any, constants: dict[str, Any]
    ) -> Any:
        """Copy the operands so that what is reduced comes last and lies together, then reduce that."""
        full = layout.broadcast_shapes(self.name, [tuple(x.shape) for x in operands])
        outputs = math.prod(plan.shape)
        copies = []
        for x in operands:
            strides = layout.broadcast_strides(full, tuple(x.shape), tuple(x.strides))
            turned = storage.view(
                tuple(full[d] for d in plan.order),
                x.dtype,
                tuple(strides[d] for d in plan.order),
                storage.pointer(x),
                x,
            )
            copy = storage.empty(tuple(turned.shape), x.dtype)
            COPY(turned, out=copy)
            copies.append(reshaped(copy, (outputs, math.prod(full) // outputs)))
        found = self(tuple(copies), 1, False, out_dtype, **constants)
        results = [reshaped(each, plan.shape) for each in (found if self.several else [found])]
        return tuple(results) if self.several else results[0]

    # ----------------------------------------------------------------------------- a new layout

    def _make_plan(
        self, operands: tuple, axes: Any, keepdim: bool, out_dtype: Any, values: tuple
    ) -> _Plan:
        self._check_operands(operands)
        full = layout.broadcast_shapes(self.name, [tuple(x.shape) for x in operands])
        reduced = normalized_axes(self.name, axes, len(full))
        kept = [d for d in range(len(full)) if d not in reduced]
        shape = tuple(
            1 if d in reduced else n for d, n in enumerate(full) if keepdim or d not in reduced
        )
        dtypes = self._result_dtypes([x.dtype for x in operands], out_dtype)
        if 0 in shape:
            return _Plan(shape, dtypes)
        strides = [
            layout.broadcast_strides(full, tuple(x.shape), tuple(x.strides)) for x in operands
        ]
        outer, inner = self._loops(full, strides, kept, reduced)
        if max(len(outer[0]), len(inner[0])) > layout.MAX_DIMS:
            return _Plan(shape, dtypes, order=(*kept, *reduced))
        reach = [own[:-1] for own in outer[1]] + inner[1]
        narrow = layout.fits_in_32_bits(outer[0] + inner[0], reach)
        module, size = self._module(operands, values, dtypes, out_dtype, narrow)
        outputs, count = math.prod(shape), math.prod(full[d] for d in reduced)
        shared = share_work(outputs, count, outer, inner, [x.dtype.itemsize for x in operands])
        more = (
            struct.pack("4q", outputs, count, shared.share, shared.splits),
            layout.pack(outer[0], outer[1], narrow),
            layout.pack(inner[0], inner[1], narrow),
        )
        split = shared.splits > 1
        return _Plan(
            shape,
            dtypes,
            module.function(shared.kernel),
            module.function("fold") if split else None,
            (shared.grid, shared.splits),
            shared.block,
            -(-outputs // 4),
            outputs * shared.splits * size if split else 0,
            more,
        )

    def _loops(
        self, full: Shape, strides: list[Shape], kept: list[int], reduced: Shape
    ) -> tuple[Any, Any]:
        """The loops over results, which know a result's own place, too, and those over what makes one of them."""
        places = [0] * len(full)
        place = 1
        for d in reversed(kept):
            places[d] = place
            place *= full[d]

        def far(d: int) -> int:
            return -abs(strides[0][d])

        outer = layout.collapse(full, [*strides, tuple(places)], sorted(kept, key=far))
        if 0 in full:
            return outer, ([1], [[0] * len(strides)])
        order = reduced if self.counts else sorted(reduced, key=far)
        return outer, layout.collapse(full, strides, order)


def reshaped(array: Any, shape: Shape) -> Any:
    """An array in C order in another shape."""
    strides = layout.dense_strides(shape, array.dtype.itemsize)
    return storage.view(shape, array.dtype, strides, storage.pointer(array), array.base)


# ------------------------------------------------------------------------------------- sharing the work


def share_work(outputs: int, count: int, outer: Any, inner: Any, sizes: Sequence[int]) -> Shared:
    """Choose a kernel for `outputs` results of `count` elements each, and how its threads share them.

    Everything follows from the layout, nothing from the device: the order of a sum is the same everywhere.
    """
    own_step, next_step = abs(inner[1][0][0]), abs(outer[1][0][0])
    if count >= 32 and (outputs == 1 or own_step <= next_step):
        width = pack_width(sizes)
        packed = len(inner[0]) == 1 and inner[1][0] == list(sizes) and width > 1
        per_turn = width if packed else 4
        kernel = "rows_packed" if packed else "rows"
        if count <= 32 * per_turn * 8:
            return Shared(kernel, (32, 4), -(-outputs // 4), count, 1)
        splits = _splits(outputs, count, 256 * per_turn * 4)
        share = -(-count // (splits * width)) * width
        return Shared(kernel, (256, 1), outputs, share, -(-count // share))
    if count < 32:
        return Shared("columns", (128, 1), -(-outputs // 128), count, 1)
    blocks = -(-outputs // 32)
    splits = _splits(blocks, count, 256)
    share = -(-count // splits)
    return Shared("columns", (32, 8), blocks, share, -(-count // share))


def _splits(blocks: int, count: int, least: int) -> int:
    """Into how many parts of at least `least` elements a sum is split so that there are many blocks."""
    wanted = -(-MANY_BLOCKS // blocks)
    return max(1, min(wanted, count // least, MOST_SPLITS)) if wanted > 1 else 1


SUM = Reduction(name="sum")
"""The sum; integers and bools in int64."""
