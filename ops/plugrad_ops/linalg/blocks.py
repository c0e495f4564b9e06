"""Triangular systems and LU factors of NumPy arrays: small blocks by loops in C, everything else by products."""

import math

import numpy as np

from plugrad.backends import dtypes
from plugrad.backends.copies import in_c_order
from plugrad_ops.linalg import cpu

BLOCK = 48


def wide(array):
    """`array` in the dtype in which it is factored: float32 for 16-bit floats."""
    dtype = array.dtype
    return array if dtype.itemsize != 2 else array.astype(dtypes.wide(dtype), copy=False)


def stacked(array, shape=None):
    """A copy in C order as one stack of matrices, its leading dimensions broadcast to `shape`."""
    if shape is not None:
        array = np.broadcast_to(array, (*shape, *array.shape[-2:]))
    return np.array(array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:]), order="C")


def solve_triangular(matrix, right, upper, unit):
    """x of ``matrix @ x = right``; leading dimensions broadcast."""
    batch = right.shape[:-2]
    if matrix.shape[:-2] != batch:
        batch = np.broadcast_shapes(matrix.shape[:-2], batch)
        matrix = np.broadcast_to(matrix, (*batch, *matrix.shape[-2:]))
        x = stacked(right, batch)
    else:
        x = stacked(right)
    if x.size:
        _substitute(matrix.reshape(len(x), *matrix.shape[-2:]), x, upper, unit)
    return x.reshape(*batch, *right.shape[-2:])


def solve_triangular_right(matrix, right, upper, unit):
    """x of ``x @ matrix = right``; leading dimensions broadcast."""
    turned = matrix.swapaxes(-1, -2), right.swapaxes(-1, -2)
    return solve_triangular(*turned, not upper, unit).swapaxes(-1, -2)


def _substitute(matrix, x, upper, unit):
    """Solve in place: one half of the unknowns, what they contribute to the others, the other half."""
    n = matrix.shape[-1]
    if n <= BLOCK:
        rows = in_c_order(x)
        cpu.substitute(matrix, rows, upper, unit)
        if rows is not x:
            x[...] = rows
        return
    middle = n // 2
    low, high = slice(0, middle), slice(middle, n)
    first, second = (high, low) if upper else (low, high)
    _substitute(matrix[:, first, first], x[:, first], upper, unit)
    x[:, second] -= np.matmul(matrix[:, second, first], x[:, first])
    _substitute(matrix[:, second, second], x[:, second], upper, unit)


def lu_factor(array):
    """L below the diagonal and U above it, the exchanges of rows (from 0) and which pivot, from 1, is zero (0: none)."""
    batch, (m, n) = array.shape[:-2], array.shape[-2:]
    factors = stacked(array)
    count = len(factors)
    pivots = np.zeros((count, min(m, n)), np.int32)
    info = np.zeros(count, np.int32)
    for start in range(0, min(m, n), BLOCK):
        _panel(factors, pivots, info, start, min(start + BLOCK, min(m, n)))
    return factors.reshape(array.shape), pivots.reshape(*batch, min(m, n)), info.reshape(batch)


def _panel(factors, pivots, info, start, end):
    """Eliminate the columns from `start` to `end`, and bring those behind up to date."""
    own = in_c_order(factors[:, start:, start:end])
    exchanged = np.zeros((len(own), end - start), np.int32)
    found = np.zeros_like(info)
    cpu.eliminate(own, exchanged, found)
    np.copyto(info, start + found, where=(found > 0) & (info == 0))
    pivots[:, start:end] = exchanged + start
    if start or end < factors.shape[-1]:
        orders = permutations(pivots[:, start:end], factors.shape[1], start)
        for matrix, order in zip(factors, orders):
            matrix[start:] = matrix[order[start:]]
    factors[:, start:, start:end] = own
    if end < factors.shape[-1]:
        behind = in_c_order(factors[:, start:end, end:])
        cpu.substitute(own[:, : end - start], behind, False, True)
        factors[:, start:end, end:] = behind
        factors[:, end:, end:] -= np.matmul(own[:, end - start :], behind)


def permutations(pivots, rows, start=0, inverse=False):
    """Where each row comes from once row ``start + i`` was exchanged with row ``pivots[:, i]``, in turn; `inverse`: goes to.

    Pivots and results are stacks of int64, counted from 0.
    """
    order = np.empty((len(pivots), rows), np.int64)
    cpu.exchange(np.asarray(pivots, np.int64), order, start, inverse)
    return order
