"""CUDA launchers of the indexing family.

(a) Indices are looked at before they are used: one that lies outside is an IndexError, as on the CPU. The answer must be
    waited for. ``plugrad.cuda.check_indices = False`` leaves the look out: then what lies outside reads as
    zero and is not written.
(b) Where several elements lead to one place, the last one in C order stays; sums are made in C order by sorting, never by
    atomic additions. The same input gives the same bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plugrad.backends.cuda.array import as_strided, contiguous, copy_into, empty, fill, to_host
from plugrad.backends.cuda.dtypes import c_type
from plugrad.backends.cuda.sort import sort_rows
from plugrad_ops.cuda_source import MOST_BLOCKS, Source, cover, zeros
from plugrad_ops.expressions import kernel
from plugrad_ops.indexing.addressing import addresses, addresses_along
from plugrad_ops.indexing.along import _along_shape
from plugrad_ops.indexing.folding import check_fold
from plugrad_ops.indexing.spec import require_shape
from plugrad_ops.indexing.writing import check_values

SOURCE = Source(Path(__file__).with_name("cuda.cu"), "indexing")
THREADS = 256
UNITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "u64", 16: "Wide"}


def _launch(function, count, *args, unit=1, many=0):
    """Run a kernel over `count` elements; `many` is another number that must fit the type they are counted in."""
    chosen = _kernel(function, max(count, many), unit)
    chosen(cover(count, THREADS), THREADS, *args)


def _kernel(function, most, unit=1, dtype=np.uint8, **macros):
    """A kernel that counts to `most`."""
    counter = "int" if _short(most) else "i64"
    return SOURCE.kernel(
        function, UNIT=UNITS[unit], T=c_type(dtype, "indexing"), I=counter, **macros
    )


def _short(most):
    """Whether numbers up to `most`, and the last step beyond, fit 32 bits."""
    return most < 2**31 - THREADS * MOST_BLOCKS


# ---- looking at indices --------------------------------------------------------------------------------------


def as_indices(indices):
    """Arrays of indices as int64 in C order."""
    return [
        contiguous(x if x.dtype == np.int64 else kernel("x", "x", out_dtype=np.dtype(np.int64))(x))
        for x in indices
    ]


def checking():
    """Whether indices are to be looked at."""
    from plugrad import cuda

    return bool(getattr(cuda, "check_indices", True))


def first_outside(indices, ranges):
    """The first of the indices outside its range, as (which array, the index); None if all lie inside.

    Waits for the device, unless indices are not looked at. Where there is nothing to lead to, they always are.

    Parameters
    ----------
    indices : sequence of GPUArray
        int64, in C order.
    ranges : sequence of (int, int)
        For each, the least index and the one behind the greatest.
    """
    nowhere = any(x.size and low >= high for x, (low, high) in zip(indices, ranges))
    if not (checking() or nowhere) or not any(x.size for x in indices):
        return None
    found = zeros((len(indices),), np.uint64)
    for i, (x, (low, high)) in enumerate(zip(indices, ranges)):
        if x.size:
            _launch("outside", x.size, as_strided(found, (1,), (8,), 8 * i), x, low, high, x.size)
    for which, (x, left) in enumerate(zip(indices, to_host(found).tolist())):
        if left:
            place = 8 * (x.size - left)
            return which, int(to_host(as_strided(x, (1,), (8,), place))[0])
    return None


def _require_inside(name, found, shape):
    """Raise as NumPy does if an index lies outside."""
    bounds = found.indices.bounds
    wrong = first_outside(found.indices.arrays, [(-n, n) for n in bounds])
    if wrong is not None:
        which, index = wrong
        raise IndexError(
            f"{name}: index {index} is out of bounds for a dimension of size {bounds[which]}; the tensor has shape "
            f"{tuple(shape)}"
        )


# ---- reading -------------------------------------------------------------------------------------------------


def _gathered(name, found, dtype):
    out = empty(found.shape, dtype)
    if out.size:
        packed, count, unit = found.packed(name, out.strides, unit=dtype.itemsize)
        _launch("gather", count, out, found.tensor, count, packed, unit=unit)
    return out


def index(input, *indices, spec):
    """The kernel of ``standard::index``."""
    found = addresses("index", input, spec, as_indices(indices))
    _require_inside("index", found, input.shape)
    return _gathered("index", found, input.dtype)


def take_along_dim(input, indices, *, dim=None):
    """The kernel of ``standard::take_along_dim``."""
    if dim is None:
        input, indices, dim = _flattened(input), _flattened(indices), 0
    seen, dim = _along_shape("take_along_dim", input.shape, indices.shape, dim)
    found = addresses_along(input, *as_indices([indices]), seen, dim)
    _require_inside("take_along_dim", found, input.shape)
    out = _gathered("take_along_dim", found, input.dtype)
    return out if out.shape == seen else as_strided(out, seen, ())


def _flattened(array):
    return as_strided(contiguous(array), (array.size,), (array.dtype.itemsize,))


def one_hot(input, *, num_classes):
    """The kernel of ``standard::one_hot``."""
    (classes,) = as_indices([input])
    wrong = first_outside([classes], [(0, num_classes)])
    if wrong is not None:
        raise IndexError(
            f"one_hot: classes must lie between 0 and {num_classes - 1}, got {wrong[1]}"
        )
    row = as_strided(classes, (*classes.shape, 1), (*classes.strides, 0))
    hot = kernel("x == index % n ? 1 : 0", "x", constants=("n",), out_dtype=np.dtype(np.int64))
    return hot(row, n=max(num_classes, 1), shape=(*classes.shape, num_classes))


# ---- writing -------------------------------------------------------------------------------------------------


UNCLAIMED, BY_KEY, BY_ORDER = range(3)  # as in cuda.cu
SPARSE, LARGE = (
    64,
    1 << 16,
)  # places for each element, and places, from which on elements are sorted


def _claims(name, found):
    """What tells which elements are the last that lead to their place, and how (`BY_KEY`, `BY_ORDER`).

    A claim per place is the fastest, but takes memory of the size of the tensor.
    """
    count = found.length(found.key_dims)
    if found.space >= LARGE and count * SPARSE <= found.space:
        keys, order = _sorted_keys(name, found)
        claims = empty((count,), _order_type(found.size))
        _launch("claim_sorted", count, claims, keys, order, count, many=found.size)
        return claims, BY_ORDER, found.size
    most = max(found.size, found.space)
    claims = empty((found.space,), _order_type(most))
    fill(claims, -1)
    packed, _, _ = found.packed(name, dims=found.key_dims)
    _launch("claim", count, claims, count, packed, many=most)
    return claims, BY_KEY, most


def _order_type(most):
    """The dtype in which kernels that count to `most` keep orders."""
    return np.dtype(np.int32 if _short(most) else np.int64)


def _sorted_keys(name, found):
    """The keys of all elements, sorted, and the numbers that the elements had; equal keys stay in C order."""
    count = found.length(found.key_dims)
    packed, _, _ = found.packed(name, dims=found.key_dims)
    keys = empty((count,), np.dtype(np.int64))
    _launch("keys", count, keys, count, packed)
    return sort_rows(as_strided(keys, (1, count), (8 * count, 8)))


def _store(name, found, values):
    """Write values, broadcast to the shape of the index, where it leads."""
    if not found.size:
        return
    claims, claimed, many = found.tensor, UNCLAIMED, 0
    if found.indices.arrays:
        claims, claimed, many = _claims(name, found)
    strides = _broadcast(values, found.shape)
    packed, count, unit = found.packed(name, strides, unit=values.dtype.itemsize)
    if int(values.gpudata) % unit:
        unit = values.dtype.itemsize
        packed, count, _ = found.packed(name, strides)
    _launch(
        "scatter", count, found.tensor, values, claims, claimed, count, packed, unit=unit, many=many
    )


def _broadcast(values, shape):
    """The strides with which values are read as an array of a larger shape."""
    lead = len(shape) - values.ndim
    return (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(values.shape, values.strides))


def _fitting(name, found, values, dtype):
    """Values of the tensor's dtype without surplus leading dimensions."""
    check_values(name, found.shape, values.shape)
    extra = max(values.ndim - len(found.shape), 0)
    if extra:
        values = as_strided(values, values.shape[extra:], values.strides[extra:])
    return values if values.dtype == dtype else kernel("x", "x", out_dtype=dtype)(values)


def copied(array):
    """A copy in C order."""
    out = empty(array.shape, array.dtype)
    copy_into(out, array)
    return out


def index_write(input, values, *indices, spec, accumulate=False):
    """The kernel of ``standard::index_write``."""
    out = copied(input)
    found = addresses("index_write", out, spec, as_indices(indices))
    values = _fitting("index_write", found, values, input.dtype)
    _require_inside("index_write", found, input.shape)
    if accumulate:
        _accumulate("index_write", found, values)
    else:
        _store("index_write", found, values)
    return out


def index_write_(input, values, *indices, spec):
    """The kernel of ``standard::index_write_``."""
    if input.size and any(s == 0 and n > 1 for n, s in zip(input.shape, input.strides)):
        raise RuntimeError(
            f"index_write_: elements of the tensor written to (shape {input.shape}, strides {input.strides} bytes) share "
            "memory; write to a clone()"
        )
    found = addresses("index_write_", input, spec, [_apart(x, input) for x in as_indices(indices)])
    values = _fitting("index_write_", found, values, input.dtype)
    _require_inside("index_write_", found, input.shape)
    _store("index_write_", found, _apart(values, input))
    return input


def _apart(array, other):
    """`array`, copied if its memory and that of `other` meet: elements are read and written in no order."""
    (low, high), (begin, end) = _reach(array), _reach(other)
    return copied(array) if low < end and begin < high else array


def _reach(array):
    """The addresses between which an array lies."""
    if not array.size:
        return 0, 0
    steps = [(n - 1) * s for n, s in zip(array.shape, array.strides)]
    first = int(array.gpudata)
    return (
        first + sum(s for s in steps if s < 0),
        first + sum(s for s in steps if s > 0) + array.dtype.itemsize,
    )


def index_clear(input, *indices, spec):
    """The kernel of ``standard::index_clear``."""
    out = copied(input)
    found = addresses("index_clear", out, spec, as_indices(indices))
    _require_inside("index_clear", found, input.shape)
    if found.size:
        # Zeros are zeros: it does not matter which of several stays.
        nothing = zeros((1,), input.dtype)
        packed, count, _ = found.packed("index_clear")
        unit = input.dtype.itemsize
        _launch(
            "scatter", count, found.tensor, nothing, nothing, UNCLAIMED, count, packed, unit=unit
        )
    return out


def last_writes(*indices, shape, spec):
    """The kernel of ``standard::last_writes``."""
    tensor = as_strided(zeros((1,), np.uint8), shape, (0,) * len(shape))  # never read
    found = addresses("last_writes", tensor, spec, as_indices(indices))
    _require_inside("last_writes", found, shape)
    out = empty(found.shape, np.dtype(bool))
    if out.size:
        packed, count, _ = found.packed("last_writes")
        claims, claimed, many = _claims("last_writes", found)
        _launch("is_last", count, out, claims, claimed, count, packed, many=many)
    return out


def put_along_dim(input, indices, *, shape, dim):
    """The kernel of ``standard::put_along_dim``."""
    seen, dim = _along_shape("put_along_dim", shape, indices.shape, dim)
    require_shape("put_along_dim", input.shape, seen)
    out = zeros(shape, input.dtype)
    found = addresses_along(out, *as_indices([indices]), seen, dim)
    _require_inside("put_along_dim", found, shape)
    _store("put_along_dim", found, input if input.ndim else as_strided(input, (1,), (0,)))
    return out


def write_along_dim(input, indices, src, *, dim):
    """The kernel of ``standard::write_along_dim``."""
    seen, dim = _along_shape("write_along_dim", input.shape, indices.shape, dim)
    require_shape("write_along_dim", src.shape, seen)
    out = copied(input)
    found = addresses_along(out, *as_indices([indices]), seen, dim)
    _require_inside("write_along_dim", found, input.shape)
    _store("write_along_dim", found, src if src.ndim else as_strided(src, (1,), (0,)))
    return out


# ---- combining -----------------------------------------------------------------------------------------------

LANES, SHARES = 32, 8  # as in cuda.cu

FOLDS = {
    "sum": {},
    "prod": {"COMBINE(a, b)": "((a) * (b))", "START": "1"},
    "amax": {"COMBINE(a, b)": "plugrad::max(a, b)", "START": "lowest<C>()"},
    "amin": {"COMBINE(a, b)": "plugrad::min(a, b)", "START": "highest<C>()"},
}


def _accumulate(name, found, values, fold="sum", kept=True):
    """Combine values, broadcast to the shape of the index, with what is there, or with each other alone.

    Equal keys are brought together by sorting.
    """
    if not found.size:
        return
    strides = _broadcast(values, found.shape)
    count, width = found.length(found.key_dims), found.length(found.column_dims)
    packed, _, _ = found.packed(name, strides, found.key_dims)
    columns, _, _ = found.packed(name, strides, found.column_dims, arrays=False)
    keys, order = _sorted_keys(name, found)
    across = min(1 << (width - 1).bit_length(), LANES)
    runs = LANES // across
    combine = _kernel("combine_runs", found.size, dtype=values.dtype, **FOLDS[fold])
    grid = (cover(count, runs), min(-(-width // across), 65535))
    combine(
        grid, (across, SHARES, runs),
        found.tensor, values, keys, order, count, width, kept, packed, columns,
    )  # fmt: skip


def index_accumulate(input, *indices, shape, spec):
    """The kernel of ``standard::index_accumulate``."""
    out = zeros(shape, input.dtype)
    found = addresses("index_accumulate", out, spec, as_indices(indices))
    require_shape("index_accumulate", input.shape, found.shape)
    _require_inside("index_accumulate", found, shape)
    _accumulate("index_accumulate", found, input)
    return out


def add_along_dim(input, indices, *, shape, dim):
    """The kernel of ``standard::add_along_dim``."""
    seen, dim = _along_shape("add_along_dim", shape, indices.shape, dim)
    require_shape("add_along_dim", input.shape, seen)
    out = zeros(shape, input.dtype)
    found = addresses_along(out, *as_indices([indices]), seen, dim)
    _require_inside("add_along_dim", found, shape)
    _accumulate("add_along_dim", found, input if input.ndim else as_strided(input, (1,), (0,)))
    return out


def fold_along_dim(input, indices, src, *, dim, fold, include_self=True):
    """The kernel of ``standard::fold_along_dim``."""
    dim = check_fold(input, indices, src, dim, fold)
    out = copied(input)
    found = addresses_along(out, *as_indices([indices]), src.shape or (1,), dim)
    _require_inside("fold_along_dim", found, input.shape)
    src = src if src.ndim else as_strided(src, (1,), (0,))
    _accumulate("fold_along_dim", found, src, fold, bool(include_self))
    return out
