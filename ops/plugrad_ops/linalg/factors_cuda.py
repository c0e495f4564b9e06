"""CUDA launchers of factorisations, triangular systems and Jacobi's rotations.

They work in float32 and float64: 16-bit floats go through float32. Results are those of LAPACK up to rounding and, for eigenvectors
and singular vectors, up to sign.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np

from plugrad.backends.cuda import layout
from plugrad.backends.cuda.array import as_strided, contiguous, empty
from plugrad.backends.cuda.dtypes import c_type
from plugrad.backends.dtypes import wide
from plugrad_ops.cuda_source import Source, cover, zeros
from plugrad_ops.expressions import kernel
from plugrad_ops.linalg.lu import permutation_shape
from plugrad_ops.linalg.matrices import check_matrix, check_square
from plugrad_ops.linalg.orthogonal import check_mode
from plugrad_ops.linalg.triangular import system_shape
from plugrad_ops.shape.cuda import cast, contiguous_copy

FACTORS = Source(Path(__file__).with_name("factors.cu"), "factors")
JACOBI = Source(Path(__file__).with_name("jacobi.cu"), "jacobi")

MANY = 1 << 14  # systems that occupy a device with a thread each


def _wide(array):
    dtype = wide(array.dtype)
    return array if dtype == array.dtype else cast(array, dtype=dtype)


def _back(dtype, *arrays):
    """Floating results in the dtype that was given."""
    return tuple(
        cast(a, dtype=dtype) if a.dtype.kind == "f" and a.dtype != dtype else a for a in arrays
    )


def _threads(m, n):
    """For a block that works on one matrix of m × n."""
    return 32 if m * n <= 256 else 128 if m * n <= 4096 else 256


def _launch(source, name, count, threads, dtype, *args):
    source.kernel(name, T=c_type(dtype))(min(count, 65535), threads, *args)


def lu_factor(input):
    """LU, pivots and info of ``standard::linalg_lu_factor_ex``."""
    check_matrix("linalg_lu_factor_ex", input.shape)
    batch, (m, n) = input.shape[:-2], input.shape[-2:]
    work = contiguous_copy(_wide(input))
    pivots, info = zeros((*batch, min(m, n)), np.int32), zeros(batch, np.int32)
    if work.size:
        count = math.prod(batch)
        _launch(FACTORS, "lu", count, _threads(m, n), work.dtype, work, pivots, info, count, m, n)
    return _back(input.dtype, work, pivots, info)


def lu_permutation(pivots, *, rows, inverse=False):
    """The kernel of ``standard::lu_permutation``."""
    steps = pivots.shape[-1]
    order = empty(permutation_shape(pivots.shape, rows), np.int64)
    if order.size:
        count = order.size // rows
        pivots = contiguous(cast(pivots, dtype=np.int32))
        scratch = empty(order.shape, np.int64) if inverse else order
        FACTORS.kernel("lu_permutation", T="float")(
            cover(count, 64), 64, order, scratch, pivots, count, steps, rows, inverse
        )
    return order


def _symmetric(input):
    """The symmetric part, in memory of its own."""
    work = _wide(input)
    other = as_strided(work, work.shape, (*work.strides[:-2], *work.strides[:-3:-1]))
    return contiguous(kernel("(x + y) / 2", "x", "y", name="symmetric part")(work, other))


def cholesky(input):
    """L and info of ``standard::linalg_cholesky_ex``."""
    check_square("linalg_cholesky_ex", input.shape)
    work, info = _symmetric(input), zeros(input.shape[:-2], np.int32)
    if work.size:
        count, n = math.prod(info.shape), input.shape[-1]
        _launch(FACTORS, "cholesky", count, _threads(n, n), work.dtype, work, info, count, n)
    return _back(input.dtype, work, info)


def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """The kernel of ``standard::linalg_solve_triangular``."""
    batch = system_shape("linalg_solve_triangular", A.shape, B.shape, left)[:-2]
    x = contiguous_copy(_wide(_expanded(B, (*batch, *B.shape[-2:]))))
    if x.size:
        # Strides say all about a transposed matrix, but not about a stack that is broadcast.
        matrix = _wide(A)
        if A.shape[:-2] != batch or len(batch) > 1 or matrix.dtype != A.dtype:
            matrix = contiguous(_expanded(matrix, (*batch, *A.shape[-2:])))
        count, n = math.prod(batch), A.shape[-1]
        width = x.shape[-1] if left else x.shape[-2]
        size = matrix.dtype.itemsize
        strides = [s // size for s in matrix.strides[-3:]]
        stack, row, col = strides if len(strides) == 3 else (0, *strides)
        if len(batch) > 1:
            stack = n * n
        if not left:
            row, col, upper = col, row, not upper
        lanes = 1 if count * width >= MANY else 32
        steps = (width, 1) if left else (1, n)
        packed = struct.pack(
            "11q", count, n, width, stack, row, col, *steps, upper, unitriangular, lanes
        )
        FACTORS.kernel("solve_triangular", T=c_type(x.dtype))(
            cover(count * width * lanes, 64), 64, x, matrix, packed
        )
    return _back(B.dtype, x)[0]


def _expanded(array, shape):
    """A view with leading dimensions repeated."""
    return as_strided(array, shape, layout.broadcast_strides(shape, array.shape, array.strides))


def qr(input, *, mode="reduced"):
    """Q and R of ``standard::linalg_qr_both``."""
    check_mode("linalg_qr_both", input.shape, mode)
    batch, (m, n) = input.shape[:-2], input.shape[-2:]
    p = m if mode == "complete" else min(m, n)
    count, work = math.prod(batch), contiguous_copy(_wide(input))
    only_r = mode == "r"
    q = empty((0,) if only_r else (*batch, m, p), work.dtype)
    r = empty((*batch, p, n), work.dtype)
    if count and (m and (n or p)):
        scales = empty((count, max(min(m, n), 1)), work.dtype)
        threads = _threads(m, n)
        if work.size:
            _launch(FACTORS, "reflect", count, threads, work.dtype, work, scales, count, m, n)
        held = q if q.size else scales  # no array is empty where a pointer is expected
        _launch(
            FACTORS, "unfold", count, threads, work.dtype,
            held, r if r.size else scales, work if work.size else scales, scales, count, m, n, p, only_r,
        )  # fmt: skip
    return _back(input.dtype, q, r)


def eigh(input):
    """Eigenvalues, eigenvectors and info of the symmetric part of matrices."""
    batch, n = input.shape[:-2], input.shape[-1]
    count, work = math.prod(batch), _symmetric(input)
    values, vectors = empty((*batch, n), work.dtype), empty(work.shape, work.dtype)
    info = zeros(batch, np.int32)
    if work.size:
        room, rotations = empty(work.shape, work.dtype), empty((count, (n + 1) // 2, 3), work.dtype)
        _launch(
            JACOBI, "eigh", count, _threads(n, n), work.dtype,
            values, vectors, info, work, room, rotations, count, n,
        )  # fmt: skip
    return *_back(input.dtype, values, vectors), info


def rotated(square):
    """Of square float32 or float64 matrices: A V, largest column first, the singular values, V transposed, and info."""
    batch, n = square.shape[:-2], square.shape[-1]
    count = math.prod(batch)
    turned = (*square.strides[:-2], *square.strides[:-3:-1])
    work = contiguous_copy(as_strided(square, square.shape, turned))
    products, values = empty(work.shape, work.dtype), empty((*batch, n), work.dtype)
    vectors, info = empty(work.shape, work.dtype), zeros(batch, np.int32)
    if work.size:
        room, lengths = empty(work.shape, work.dtype), empty((count, n), work.dtype)
        _launch(
            JACOBI, "svd", count, _threads(n, n), work.dtype,
            products, values, vectors, info, work, room, lengths, count, n,
        )  # fmt: skip
    return products, values, vectors, info
