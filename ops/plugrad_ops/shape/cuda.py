"""CUDA launchers of the shape family: copies, joins and the adjoints of views.

(a) View operators need no kernel. A copy is a view that is made contiguous; a join and the adjoint of a view are new memory
    and copies into views of it. All data moves through one strided copy.
(b) Where windows overlap, copies into a view would race: there every element of the result gathers what belongs to
    it, in a fixed order, so that the same input gives the same bits (`cuda.cu`).
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from struct import pack

import numpy as np

from plugrad.backends.cuda.array import as_strided, contiguous, copy_into, empty, fill, view_by
from plugrad.backends.cuda.dtypes import c_type
from plugrad.backends.cuda.reduction import SUM
from plugrad.backends.dtypes import is_bfloat16, wide
from plugrad_ops.cuda_source import Source, cover, zeros
from plugrad_ops.expressions import kernel
from plugrad_ops.indexing.spec import read, require_shape
from plugrad_ops.shape import diagonal, joining, padding, rearranging, strided, triangles
from plugrad_ops.shape.dims import normalize_dims

# ------------------------------------------------------------------------------- copies, casts


def cast(input, *, dtype):
    """The kernel of ``standard::cast``; 16-bit floats come of one rounding, not by way of a float that is rounded, too."""
    dtype, own = np.dtype(dtype), input.dtype
    text = "real(input)" if own.kind == "c" and dtype.kind != "c" else "input"
    narrow = own in (np.float64, np.complex128) and dtype == np.float16
    if is_bfloat16(dtype) and own not in (np.float32, np.complex64):
        narrow = own.itemsize >= 4
    text = f"rounded_to_odd({text})" if narrow else text
    return kernel(text, "input", out_dtype=dtype, name="cast")(input)


def zeros_like(input):
    """The kernel of ``standard::zeros_like``."""
    return zeros(input.shape, input.dtype)


def contiguous_copy(input):
    """The kernel of ``standard::contiguous_copy``."""
    out = empty(input.shape, input.dtype)
    copy_into(out, input)
    return out


def copy(input):
    """The kernel of ``standard::copy``: laid out as `input` where that has no gaps or overlaps."""
    return kernel("input", "input", name="copy")(input)


def flip(input, *, dims):
    """The kernel of ``standard::flip``."""
    dims = dims if isinstance(dims, tuple | list) else (dims,)
    axes = normalize_dims("flip", dims, input.ndim) if dims else ()
    return contiguous_copy(view_by(np.flip, input, axes))


# ------------------------------------------------------------------- triangles, rolls, padding


def tril(input, *, diagonal=0):
    """The kernel of ``standard::tril``."""
    return _triangle("tril", "<=", input, diagonal)


def triu(input, *, diagonal=0):
    """The kernel of ``standard::triu``."""
    return _triangle("triu", ">=", input, diagonal)


def _triangle(name, relation, input, diagonal):
    triangles.check_matrix(name, input)
    rows, columns = input.shape[-2:]
    # Column and row, both times the number of columns: expressions have no division of integers.
    column, row = "(index % n - k) * n", "index % count - index % n"
    names = ("n", "count", "k")
    keep = kernel(f"{column} {relation} {row} ? x : T(0)", "x", constants=names, name=name)
    return keep(input, n=max(columns, 1), count=max(rows * columns, 1), k=diagonal)


def roll_dims(input, *, shifts, dims):
    """The kernel of ``standard::roll_dims``: as many copies as there are blocks that stay together."""
    halves = {
        axis: ((slice(shift), slice(n - shift, n)), (slice(shift, n), slice(n - shift)))
        for axis, shift in rearranging.rolled("roll_dims", input.shape, shifts, dims)
        if (n := input.shape[axis]) and shift
    }
    out = empty(input.shape, input.dtype)
    for blocks in product(*halves.values()):
        chosen = dict(zip(halves, blocks))
        to, source = (
            tuple(chosen[d][i] if d in chosen else slice(None) for d in range(input.ndim))
            for i in (0, 1)
        )
        copy_into(_part(out, to), _part(input, source))
    return out


def _part(array, index):
    return view_by(lambda ghost: ghost[(*index, ...)], array)


def constant_pad_nd(input, *, pad, value=0):
    """The kernel of ``standard::constant_pad_nd``."""
    widths = padding.pairs("constant_pad_nd", pad, input.ndim)
    out = empty(padding.padded_shape("constant_pad_nd", input.shape, widths), input.dtype)
    if out.shape != input.shape:
        fill(out, value)
    source, target = padding.kept(input.shape, widths)
    copy_into(_part(out, target), _part(input, source))
    return out


def edge_pad(input, *, pad, mode):
    """The kernel of ``standard::edge_pad``."""
    widths = padding.pairs("edge_pad", pad, input.ndim)
    padding.check_edges("edge_pad", input.shape, widths, mode)
    out = empty(padding.padded_shape("edge_pad", input.shape, widths), input.dtype)
    copy_into(_part(out, padding.kept(input.shape, widths)[1]), input)
    for axis, (n, pair) in enumerate(zip(input.shape, widths)):
        for to, source in padding.borders(axis, n, *pair, mode):
            copy_into(_part(out, to), _part(out, source))
    return out


def edge_pad_adjoint(input, *, pad, mode):
    """The kernel of ``standard::edge_pad_adjoint``."""
    widths = padding.pairs("edge_pad_adjoint", pad, input.ndim)
    shape = padding.inner_shape("edge_pad_adjoint", input.shape, widths)
    padding.check_edges("edge_pad_adjoint", shape, widths, mode)
    dtype = wide(input.dtype)
    work = contiguous_copy(input) if dtype == input.dtype else cast(input, dtype=dtype)
    add = kernel("x + y", "x", "y", name="edge_pad_adjoint")
    for axis in reversed(range(input.ndim)):
        before, after = widths[axis]
        for to, source in padding.borders(axis, shape[axis], before, after, mode):
            border, edge = _part(work, to), _part(work, source)
            if mode == "replicate" and border.size:
                border = SUM(border, axis, True, work.dtype)
            if border.size:
                add(edge, border, out=edge)
        work = _part(work, padding._at(axis, slice(before, before + shape[axis])))
    return contiguous(work) if dtype == input.dtype else cast(work, dtype=input.dtype)


# -------------------------------------------------------------------------------------- joins


def cat(*tensors, dim=0):
    """The kernel of ``standard::cat``."""
    dtype = np.result_type(*(x.dtype for x in tensors))
    if any(x.shape == (0,) for x in tensors):
        tensors = [x for x in tensors if x.shape != (0,)] or tensors
    axis = joining._check_joinable("cat", [x.shape for x in tensors], dim)
    shape = list(tensors[0].shape)
    shape[axis] = sum(x.shape[axis] for x in tensors)
    return _joined(tensors, tuple(shape), axis, dtype)


def stack(*tensors, dim=0):
    """The kernel of ``standard::stack``."""
    axis = joining._check_stackable([x.shape for x in tensors], dim)
    shape = tensors[0].shape
    slots = [as_strided(x, _with(x.shape, axis, 1), _with(x.strides, axis, 0)) for x in tensors]
    dtype = np.result_type(*(x.dtype for x in tensors))
    return _joined(slots, _with(shape, axis, len(tensors)), axis, dtype)


def _with(values, axis, value):
    return (*values[:axis], value, *values[axis:])


def _joined(tensors, shape, axis, dtype):
    """New memory, every tensor copied into its place along `axis`."""
    out = empty(shape, dtype)
    start = 0
    for x in tensors:
        if x.size:
            copy_into(as_strided(out, x.shape, out.strides, start * out.strides[axis]), x)
        start += x.shape[axis]
    return out


# -------------------------------------------------------------------------- adjoints of views


def slice_adjoint(input, *, shape, index):
    """The kernel of ``standard::slice_adjoint``."""
    return _written(input, tuple(shape), lambda out: read("slice_adjoint", out, index))


def diagonal_adjoint(input, *, shape, offset=0, dim1=0, dim2=1):
    """The kernel of ``standard::diagonal_adjoint``."""
    axes = diagonal._two_dims("diagonal_adjoint", len(shape), dim1, dim2)
    return _written(input, tuple(shape), lambda out: diagonal._seen(out, offset, *axes))


def _written(input, shape, view):
    """Zeros of `shape`, with `input` written where a view of them looks."""
    out = zeros(shape, input.dtype)
    place = view_by(view, out)
    require_shape("the adjoint of a view", input.shape, place.shape)
    if input.size:
        copy_into(place, input)
    return out


# ---------------------------------------------------------------------------- access by strides


def as_strided_gather(input, *, size, stride, storage_offset=0, input_stride=None):
    """The kernel of ``standard::as_strided_gather``."""
    size, stride, layout, extent = strided._geometry(
        input.shape, size, stride, storage_offset, input_stride
    )
    if 0 in size:
        return empty(size, input.dtype)
    step = input.dtype.itemsize
    if layout == strided.c_strides(input.shape):
        memory = contiguous(input)
    else:
        memory = zeros((extent,), input.dtype)
        copy_into(as_strided(memory, input.shape, _bytes(layout, step)), input)
    seen = as_strided(memory, size, _bytes(stride, step), storage_offset * step)
    return contiguous_copy(seen)


def as_strided_adjoint(input, *, shape, size, stride, storage_offset=0, input_stride=None):
    """The kernel of ``standard::as_strided_adjoint``."""
    shape = tuple(shape)
    size, stride, layout, extent = strided._geometry(
        shape, size, stride, storage_offset, input_stride
    )
    strided._require_size("as_strided_adjoint", input, size)
    step = input.dtype.itemsize
    if 0 in size or 0 in shape:
        return zeros(shape, input.dtype)
    if overlap(size, stride):
        return _gathered(input, shape, layout, size, stride, storage_offset)
    memory = zeros((extent,), input.dtype)
    copy_into(as_strided(memory, size, _bytes(stride, step), storage_offset * step), input)
    return as_strided(memory, shape, _bytes(layout, step))


def _bytes(strides, step):
    return tuple(s * step for s in strides)


def overlap(size, stride):
    """Whether two positions of a view may be one element; false only where that is certain."""
    reach = 0
    for s, n in sorted((s, n) for n, s in zip(size, stride) if n > 1):
        if s <= reach:
            return True
        reach += s * (n - 1)
    return False


SOURCE = Source(Path(__file__).with_name("cuda.cu"), "shape")
THREADS = 128
MAX_DIMS = 8  # as in prelude.cuh


def _gathered(input, shape, layout, size, stride, offset):
    """Every element of the result adds up the elements of `input` that the view took from it."""
    order = sorted(
        (axis for axis, n in enumerate(size) if n > 1), key=lambda axis: (-stride[axis], axis)
    )
    kept = [axis for axis, n in enumerate(shape) if n > 1]
    if max(len(order), len(kept)) > MAX_DIMS:
        raise RuntimeError(
            f"as_strided_adjoint: at most {MAX_DIMS} dimensions longer than 1 on a CUDA device, got {shape}, {size}"
        )
    step = input.dtype.itemsize
    out = empty(shape, input.dtype)
    windows = pack(
        f"4q{5 * MAX_DIMS}q",
        out.size, offset, len(kept), len(order),
        *_padded(shape[axis] for axis in kept),
        *_padded(layout[axis] for axis in kept),
        *_padded(size[axis] for axis in order),
        *_padded(stride[axis] for axis in order),
        *_padded(input.strides[axis] // step for axis in order),
    )  # fmt: skip
    gather = SOURCE.kernel("gather_windows", S=c_type(input.dtype, "as_strided_adjoint"))
    gather(cover(out.size, THREADS), THREADS, out, input, windows)
    return out


def _padded(values):
    values = list(values)
    return values + [0] * (MAX_DIMS - len(values))
