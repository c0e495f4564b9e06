"""What stands between the brackets of ``x[...]``, brought into one hashable form.

A spec is a tuple with one entry per index: an integer, ``(start, stop, step)`` for a slice, None for a new dimension,
Ellipsis, or `ARRAY` where an array of integers goes. The arrays themselves travel beside it, as tensors. A boolean mask
becomes the integer arrays of its true positions, which NumPy defines it to be. A single True or False stands for a
dimension that is not there: `opened` makes it, for an index that holds one.
"""

import math
from operator import index as as_index

import numpy as np

from plugrad import from_numpy, ops
from plugrad.backends.dtypes import kind, rounded, wide

ARRAY = "array"
WHOLE = (None, None, None)
SMALL = 1 << 16  # elements that cost less than another way around them


class ScalarMask(Exception):
    """An index holds a single True or False; see `opened`."""


def parse_index(index, input):
    """The spec of an index into a tensor, and the integer arrays (or tensors on its device) that it refers to.

    Raises
    ------
    TypeError
        An entry is no integer, slice, None, Ellipsis, list, array or tensor.
    IndexError
        An array has a floating dtype, a mask does not fit, or there are more indices than dimensions.
    RuntimeError
        A tensor of indices is on another device.
    ScalarMask
        There is a single True or False, or a mask without dimensions.
    """
    shape = input.shape
    entries = index if isinstance(index, tuple) else (index,)
    spec, arrays, masks = [], [], []
    for entry in entries:
        if entry is None or entry is Ellipsis or type(entry) is int:
            spec.append(entry)
        elif isinstance(entry, slice):
            spec.append(_bounds(entry))
        elif isinstance(entry, bool | np.bool_) or not _is_array(entry):
            _parse_scalar(entry, spec, arrays)
        else:
            _parse_array(entry, input.device, spec, arrays, masks)
    if spec.count(Ellipsis) > 1:
        raise IndexError("getitem: an index can hold a single ellipsis (...)")
    used = sum(entry is not None and entry is not Ellipsis for entry in spec)
    if used > len(shape):
        raise IndexError(f"getitem: too many indices: {used} for a tensor of shape {tuple(shape)}")
    for position, mask_shape in masks:
        _check_mask(mask_shape, position, spec, used, shape)
    return tuple(spec), [_on_device(array, input.device) for array in arrays]


def _on_device(array, device):
    """An array of indices where the tensor is; from the host they may go to any device."""
    if hasattr(array, "array"):
        _require_reach(array, device)
        return array.to(device)
    return array if device == "cpu" else from_numpy(array).to(device)


def _require_reach(index, device):
    """Raise for an index on another device than the tensor and the host: bringing it here would wait for that one."""
    if index.device not in ("cpu", device):
        raise RuntimeError(
            f"getitem: a tensor on {device!r} takes indices on the CPU or on its own device, got one on {index.device!r}; "
            f"move it with .to({device!r})"
        )


def _bounds(entry):
    return tuple(
        part if part is None or type(part) is int else as_index(part)
        for part in (entry.start, entry.stop, entry.step)
    )


def _is_array(entry):
    return isinstance(entry, list | np.ndarray) or hasattr(entry, "array")


def _parse_scalar(entry, spec, arrays):
    if isinstance(entry, bool | np.bool_):
        raise ScalarMask
    try:
        spec.append(as_index(entry))
    except TypeError:
        raise TypeError(
            "getitem: an index must be an integer, slice, None, Ellipsis, list, array or tensor, "
            f"got {type(entry).__name__}"
        ) from None


def _parse_array(entry, device, spec, arrays, masks):
    if isinstance(entry, list):
        entry = np.array([_on_host(item) for item in entry])
        if not entry.size:
            entry = entry.astype(np.int64)
    kind = entry.dtype.kind
    if kind == "b":
        if not entry.ndim:
            raise ScalarMask
        if hasattr(entry, "array"):
            _require_reach(entry, device)
        masks.append((len(spec), entry.shape))
        for positions in _true_positions(entry):
            spec.append(ARRAY)
            arrays.append(positions)
    elif kind in "iu":
        if entry.ndim:
            spec.append(ARRAY)
            arrays.append(entry)
        else:
            spec.append(int(entry))
    else:
        raise IndexError(
            f"getitem: arrays and tensors used as an index must be of integers or bools, got {entry.dtype}"
        )


def _true_positions(mask):
    """The indices at which a mask is true, per dimension, where the mask is."""
    if hasattr(mask, "array"):
        return ops.nonzero(mask, as_tuple=True) if mask.device != "cpu" else mask.array.nonzero()
    return mask.nonzero()


def opened(index, input):
    """The same index without single bools, and the view of `input` that it is of.

    Each of them is a new dimension of length 1, whose position 0 is taken once (True) or never (False).
    """
    entries = index if isinstance(index, tuple) else (index,)
    spans = [_span(entry) for entry in entries]
    axis, made, dims = 0, [], []
    for entry, span in zip(entries, spans):
        if span is None:
            dims.append(axis + len(dims))
            made.append(np.arange(int(bool(_on_host(entry)))))
        else:
            made.append(entry)
            axis += input.ndim - sum(n or 0 for n in spans) if entry is Ellipsis else span
    return tuple(made), ops.unsqueeze(input, dim=tuple(dims))


def _span(entry):
    """How many dimensions an entry is about; None for a single True or False."""
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, bool | np.bool_):
        return None
    if isinstance(entry, list):
        entry = np.array([_on_host(item) for item in entry])
    if _is_array(entry) and entry.dtype.kind == "b":
        return entry.ndim or None
    return 1


def _on_host(item):
    """A tensor's values as an array; anything else as it is."""
    return item.to("cpu").array if hasattr(item, "array") else item


def _check_mask(mask_shape, position, spec, used, shape):
    axis = sum(entry is not None and entry is not Ellipsis for entry in spec[:position])
    if Ellipsis in spec[:position]:
        axis += len(shape) - used
    seen = tuple(shape[axis : axis + len(mask_shape)])
    if mask_shape != seen:
        raise IndexError(
            f"getitem: a mask of shape {mask_shape} at dimension {axis} does not fit the shape {tuple(shape)}"
        )


def numpy_index(spec, arrays=()):
    """The index that NumPy takes; an ellipsis keeps a single element an array, and a view."""
    arrays = iter(arrays)
    index = [
        slice(*entry) if type(entry) is tuple else next(arrays) if entry == ARRAY else entry
        for entry in spec
    ]
    if Ellipsis not in spec and not any(entry == ARRAY for entry in spec):
        index.append(Ellipsis)
    return tuple(index)


def indexed_shape(name, shape, spec, array_shapes=()):
    """The shape of ``x[index]``, from shapes alone."""
    dummies = [np.zeros(s, np.intp) for s in array_shapes]
    return read(name, np.broadcast_to(np.int8(0), shape), spec, dummies).shape


def read(name, array, spec, arrays=()):
    """``array[index]``, with an error that says what was indexed.

    Raises
    ------
    IndexError
        An index lies outside its dimension, or index arrays do not broadcast.
    """
    try:
        return array[numpy_index(spec, arrays)]
    except IndexError as error:
        raise IndexError(f"{name}: {error}; the tensor has shape {array.shape}") from None


def require_shape(name, shape, expected):
    """Raise unless values to be put at an index have its shape."""
    if tuple(shape) != tuple(expected):
        raise RuntimeError(
            f"{name}: expected values of the shape {tuple(expected)} of the index, got {tuple(shape)}"
        )


def positions(name, shape, spec, arrays):
    """For each element of ``x[index]`` its position in the flattened tensor, in C order."""
    size = math.prod(shape)
    if size <= SMALL:
        return np.asarray(read(name, np.arange(size).reshape(shape), spec, arrays), order="C")
    # A large tensor may be written at few places: nothing is made that has its size.
    found = 0
    for axis, n in enumerate(shape):
        step = math.prod(shape[axis + 1 :])
        along = (step * np.arange(n)).reshape(-1, *(1,) * (len(shape) - axis - 1))
        found = found + read(name, np.broadcast_to(along, shape), spec, arrays)
    return np.asarray(found, order="C")


def add_at(size, where, values, dtype):
    """Zeros of length `size` with `values` added at the positions `where`; both of one shape.

    bincount sums in float64 and is several times as fast as ``numpy.add.at``; it knows real numbers only.
    """
    where, values = where.ravel(), values.ravel()
    if kind(dtype) == "f" and dtype.itemsize <= 8 and where.size:
        return rounded(np.bincount(where, values, size), dtype)
    out = np.zeros(size, dtype)
    np.add.at(out, where, values)
    return out


def add_rows(count, rows, values, dtype):
    """Zeros of `count` rows with row i of `values` added to row ``rows[i]``: the gradient of an embedding.

    Equal rows are brought together by sorting, so nothing but the result has the size of the result.
    """
    out = np.zeros((count, *values.shape[1:]), dtype)
    if rows.size:
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        out[ordered[first]] = np.add.reduceat(values[order], first, axis=0, dtype=wide(dtype))
    return out
