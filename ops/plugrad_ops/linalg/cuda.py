"""CUDA launchers of the linalg family.

(a) Every product is brought into one description (`Product`): two matrices, a stack of them with strides, a result in C
    order. Leading dimensions that only repeat the right operand become rows of the left one, so that a stack times one
    matrix is one product.
(b) Vectors have kernels of their own. Matrices of floats go through cuBLAS where it is installed and the device is real, all
    others through the tiled kernel of `cuda.cu`, which reads operands of any strides in place.
(c) Work is split over the inner dimension where the results alone would not occupy the device.
(d) What follows from shapes and strides is worked out once per layout (`_planned`).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from plugrad.backends.cuda import layout, storage
from plugrad.backends.cuda.array import as_strided, contiguous, empty
from plugrad.backends.cuda.dtypes import c_type, wide_type
from plugrad.backends.dtypes import is_bfloat16
from plugrad_ops.cuda_source import Source, cover, zeros
from plugrad_ops.linalg.ops import _linear_shape, _product_shape

SOURCE = Source(Path(__file__).with_name("cuda.cu"), "matmul")

BUSY = 256  # blocks that occupy a device
SHORTEST_PART = (
    256  # of the inner dimension; below it the sum of the parts costs more than it gains
)
MOST_IN_Y = 65535


@dataclass
class Product:
    """``c[i, j] = Σ a[i, k] b[k, j]``, or a stack of them; all strides are in elements."""

    m: int
    n: int
    k: int
    a: tuple[int, int]
    b: tuple[int, int]
    c: tuple[int, int]
    stack: tuple[int, ...]  # innermost dimension first, as are the three below
    a_stack: tuple[int, ...]
    b_stack: tuple[int, ...]
    c_stack: tuple[int, ...]

    def swapped(self) -> Product:
        """The same result as the product of the transposes."""
        return Product(
            self.n, self.m, self.k,
            self.b[::-1], self.a[::-1], self.c[::-1],
            self.stack, self.b_stack, self.a_stack, self.c_stack,
        )  # fmt: skip

    @property
    def height(self) -> int:
        """The number of products."""
        return math.prod(self.stack)

    def pack(self, part: int, bias_step: int, width: int) -> bytes:
        """The struct of the kernels."""
        count = self.height * self.m * self.n
        rest = [0] * (layout.MAX_DIMS - len(self.stack))
        return struct.pack(
            f"{10 + 4 * layout.MAX_DIMS + 5}q",
            self.m, self.n, self.k, *self.a, *self.b, *self.c,
            len(self.stack), *self.stack, *rest,
            *self.a_stack, *rest, *self.b_stack, *rest, *self.c_stack, *rest,
            self.height, part, count, bias_step, width,
        )  # fmt: skip


def matmul(input, other):
    """The kernel of ``standard::matmul``."""
    shape = _product_shape("matmul", input.shape, other.shape)
    if input.ndim == 1:
        input = as_strided(input, (1, *input.shape), (0, *input.strides))
    if other.ndim == 1:
        other = as_strided(other, (*other.shape, 1), (*other.strides, 0))
    return _multiplied("matmul", input, other, None, shape)


def linear(input, weight, bias=None):
    """The kernel of ``standard::linear``; the bias is added where the product is written."""
    shape = _linear_shape(input.shape, weight.shape, None if bias is None else bias.shape)
    if input.ndim == 1:
        input = as_strided(input, (1, *input.shape), (0, *input.strides))
    transposed = as_strided(weight, weight.shape[::-1], weight.strides[::-1])
    return _multiplied("linear", input, transposed, bias, shape)


def _multiplied(name, a, b, bias, shape):
    """``a @ b + bias`` in C order; `a` and `b` have two dimensions at least."""
    if a.dtype != b.dtype or (bias is not None and bias.dtype != a.dtype):
        raise TypeError(f"{name}: operands must have one dtype, got {a.dtype} and {b.dtype}")
    out = empty(shape, a.dtype)
    if not out.size:
        return out
    if not a.shape[-1]:
        return zeros(shape, a.dtype) if bias is None else _filled(out, bias)
    first, second = (Operand(x.shape, x.strides, x.dtype) for x in (a, b))
    step = 0 if bias is None else bias.strides[0] // bias.dtype.itemsize
    plan = _planned(name, first, second, step, 0 if bias is None else shape[-1])
    if plan.tiled and _by_cublas(plan.product, out, a, b, bias):
        return out
    _launch(plan, out, a, b, bias)
    return out


class Operand(NamedTuple):
    """What of an array decides how it is read."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


class Plan(NamedTuple):
    """How a product is launched.

    Attributes
    ----------
    product : Product
    tiled : bool
        Whether it is one of matrices.
    swapped : bool
        Whether it is made as the product of the transposes, operands changing places.
    kernel, grid, threads
    packed : bytes
        The struct of the kernels.
    parts : int
        Into how many parts the inner dimension is split.
    add : kernel
        Adds the parts up.
    """

    product: Product
    tiled: bool
    swapped: bool
    kernel: Any
    grid: tuple[int, int, int]
    threads: int
    packed: bytes
    parts: int
    add: Any


@lru_cache(maxsize=2048)
def _planned(name, a, b, bias_step, width):
    """The launch for operands of this layout; `width` is the length of a row of the result if there is a bias."""
    product = _described(name, a, b)
    tiled, swapped = 1 not in (product.m, product.n), product.n != 1
    turned = product if tiled or not swapped else product.swapped()
    function, threads, blocks, tile = (_tiles if tiled else _lines)(turned, a.dtype)
    parts, part = _parts(product, blocks)
    return Plan(
        product,
        tiled,
        swapped and not tiled,
        _kernel(function, a.dtype, *tile),
        (blocks, min(max(product.height, 1), MOST_IN_Y), parts),
        threads,
        turned.pack(part, bias_step, width),
        parts,
        _kernel("add_parts", a.dtype, *tile),
    )


def _described(name, a, b):
    """The product with as few dimensions as it can have."""
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    size = a.dtype.itemsize
    stack = layout.broadcast_shapes(name, [a.shape[:-2], b.shape[:-2]])
    over_a = _steps(layout.broadcast_strides(stack, a.shape[:-2], a.strides[:-2]), size)
    over_b = _steps(layout.broadcast_strides(stack, b.shape[:-2], b.strides[:-2]), size)
    over_c = tuple(s * m * n for s in layout.dense_strides(stack, 1))
    a_row, a_col = _steps(a.strides[-2:], size)
    if any(step and length > 1 for step, length in zip(over_b, stack)):
        lengths, steps = layout.collapse(stack, [over_a, over_b, over_c])
        if lengths == [1]:
            lengths, steps = [], []
        c_row = n
    else:
        lengths, steps = layout.collapse(
            (*stack, m), [(*over_a, a_row), (*over_b, 0), (*over_c, n)]
        )
        (m, *lengths), (rows, *steps) = lengths, steps
        a_row, c_row = rows[0], rows[2]
    if len(lengths) > layout.MAX_DIMS:
        raise RuntimeError(
            f"{name}: at most {layout.MAX_DIMS} leading dimensions that cannot be joined on a CUDA device, got shapes "
            f"{a.shape} and {b.shape}"
        )
    return Product(
        m, n, k, (a_row, a_col), _steps(b.strides[-2:], size), (c_row, 1),
        tuple(lengths), *(tuple(own[i] for own in steps) for i in range(3)),
    )  # fmt: skip


def _steps(strides, itemsize):
    return tuple(stride // itemsize for stride in strides)


# ---- own kernels ---------------------------------------------------------------------------------------------


def _launch(plan, out, a, b, bias):
    sums = out if plan.parts == 1 else empty((plan.parts, out.size), _wide(out.dtype))
    added = a if bias is None else bias  # not read where there is none
    left, right = (b, a) if plan.swapped else (a, b)
    plan.kernel(plan.grid, plan.threads, out, sums, left, right, added, plan.packed)
    if plan.parts > 1:
        plan.add(cover(out.size, 256), 256, out, sums, added, plan.parts, plan.packed)


def _lines(product, dtype):
    """A matrix times a vector: the kernel, its threads and blocks."""
    row, col = (abs(step) for step in product.a)
    if product.m > 1 and row < col:
        return "columns_by_vector", 256, -(-product.m // 32), ()
    return "rows_by_vector", 128, -(-product.m // 4), ()


def _tiles(product, dtype):
    """A product of matrices: the kernel, its threads, blocks and macros."""
    tile, per = _tile(product, dtype)
    blocks = -(-product.m // tile) * -(-product.n // tile)
    return "product", (tile // per) ** 2, blocks, (tile, per)


def _tile(product, dtype):
    """Results per side of a block and of a thread: large tiles read less, small ones waste less at the edges."""
    least = min(product.m, product.n)
    for tile, per in ((128, 8), (64, 4)):
        tiles = -(-product.m // tile) * -(-product.n // tile) * product.height
        if least > tile // 2 and tiles >= BUSY // 2 and (tile == 64 or wide_type(dtype) == "float"):
            return tile, per
    return (64, 4) if least > 32 else (32, 2)


def _kernel(name, dtype, tile=64, per=4):
    return SOURCE.kernel(
        name, T=c_type(dtype, "matmul"), ACC=wide_type(dtype, "matmul"), TILE=tile, PER=per
    )


def _wide(dtype):
    """The dtype in which products are summed up."""
    return {"float": np.float32, "double": np.float64, "i64": np.int64, "u64": np.uint64}[
        wide_type(dtype)
    ]


def _parts(product, blocks):
    """Into how many parts the inner dimension is split, and their length."""
    missing = BUSY // (blocks * max(product.height, 1))
    parts = max(min(missing, product.k // SHORTEST_PART), 1)
    part = -(-product.k // parts)
    return -(-product.k // part), part


def _filled(out, bias):
    """Every row of `out` becomes the bias."""
    step = bias.strides[0] // bias.dtype.itemsize
    blocks = cover(out.size, 256)
    _kernel("fill_rows", out.dtype)(blocks, 256, out, bias, step, out.shape[-1], out.size)
    return out


# ---- cuBLAS --------------------------------------------------------------------------------------------------

LARGEST = 2**31 - 1  # of an int, in which cuBLAS takes sizes
FLOATS = ("float16", "float32", "float64", "bfloat16")


@cache
def blas() -> Any:
    """cuBLAS on the device at hand; None on the emulated device, and where it is not installed."""
    from plugrad.backends.cuda import device
    from plugrad_ops.linalg import cublas

    return None if device.emulated() else cublas.find()


@cache
def _multiplies(dtype: np.dtype) -> bool:
    """Whether the device has instructions for products of that dtype; for bfloat16 only from Ampere on."""
    from plugrad.backends.cuda import device

    return not is_bfloat16(dtype) or device.capability() >= (8, 0)


def _by_cublas(product, out, a, b, bias):
    """Whether cuBLAS took the product."""
    library = blas() if out.dtype.name in FLOATS and _multiplies(out.dtype) else None
    if library is None or max(product.m, product.n, product.k, product.height) > LARGEST:
        return False
    left, a, product = _readable(a, product, "a", product.m, product.k)
    right, b, product = _readable(b, product, "b", product.k, product.n)
    if max(left[1], right[1], product.c[0]) > LARGEST:
        return False
    if bias is not None:
        _filled(out, bias)
    storage.used(out, a, b)
    stack = product.stack or (1,)
    inner = [
        (strides or (0,))[0] for strides in (product.a_stack, product.b_stack, product.c_stack)
    ]
    size = out.dtype.itemsize
    for at in np.ndindex(*stack[:0:-1]):  # cuBLAS steps evenly through one dimension of the stack
        places = [
            int(array.gpudata) + size * sum(i * s for i, s in zip(at, strides[:0:-1]))
            for array, strides in (
                (a, product.a_stack), (b, product.b_stack), (out, product.c_stack),
            )
        ]  # fmt: skip
        library.multiply(
            _stream(), out.dtype.name, product.m, product.n, product.k,
            places[0], *left, inner[0], places[1], *right, inner[1], places[2], product.c[0], inner[2],
            stack[0], bias is not None, _tf32(),
        )  # fmt: skip
    return True


def _readable(array, product, which, rows, columns):
    """How cuBLAS reads an operand, as (transposed, leading dimension), and the operand: a copy where it cannot."""
    row, column = getattr(product, which)
    if column == 1 and row >= columns:
        return (False, row), array, product
    if row == 1 and column >= rows:
        return (True, column), array, product
    seen, steps = _as_described(array, product, which, rows, columns)
    return (
        (False, columns),
        contiguous(seen),
        replace(product, **{which: (columns, 1), f"{which}_stack": steps}),
    )


def _as_described(array, product, which, rows, columns):
    """The operand as the stack of matrices that the product has, each repeated one once; and its strides when dense."""
    own = getattr(product, f"{which}_stack")
    lengths = [n if step else 1 for n, step in zip(product.stack, own)]
    shape = (*lengths[::-1], rows, columns)
    size = array.dtype.itemsize
    seen = as_strided(array, shape, [s * size for s in (*own[::-1], *getattr(product, which))])
    steps, step = [], rows * columns
    for n, stride in zip(lengths, own):
        steps.append(step if stride else 0)
        step *= n
    return seen, tuple(steps)


def _stream():
    """The address of the current stream."""
    from plugrad.backends.cuda import context

    return context.current_stream().ptr


def _tf32():
    from plugrad import cuda

    return bool(getattr(cuda, "matmul_allow_tf32", False))
