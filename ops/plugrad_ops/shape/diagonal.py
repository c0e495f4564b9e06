"""Diagonals: the view of one, and the tensor that has one and zeros elsewhere."""

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.shape.dims import normalize_dim


def _two_dims(name, ndim, dim1, dim2):
    if ndim < 2:
        raise RuntimeError(f"{name}: expected at least 2 dimensions, got {ndim}")
    first, second = normalize_dim(name, dim1, ndim), normalize_dim(name, dim2, ndim)
    if first == second:
        raise RuntimeError(f"{name}: dim1 and dim2 must differ, got {dim1} and {dim2}")
    return first, second


def _length(rows, columns, offset):
    return max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)


def _diagonal_shape(name, shape, offset, dim1, dim2):
    first, second = _two_dims(name, len(shape), dim1, dim2)
    others = (n for axis, n in enumerate(shape) if axis not in (first, second))
    return (*others, _length(shape[first], shape[second], offset))


def _seen(array, offset, first, second):
    """The diagonal, writable where `array` is: NumPy's own is read-only."""
    found = array.diagonal(offset, first, second)
    if array.flags.writeable:
        found.flags.writeable = True
    return found


def _diagonal_meta(input, *, offset=0, dim1=0, dim2=1):
    return _diagonal_shape("diagonal", input.shape, offset, dim1, dim2), input.dtype


@operator("standard::diagonal", dtypes="any", infer=_diagonal_meta, view_of="input", method=True)
def diagonal(input, *, offset=0, dim1=0, dim2=1):
    """The view of the elements ``[i, i + offset]`` of dimensions `dim1` and `dim2`, as a last dimension.

    Raises
    ------
    RuntimeError
        There are fewer than two dimensions, or `dim1` and `dim2` are the same.
    """
    return _seen(input, offset, *_two_dims("diagonal", input.ndim, dim1, dim2))


@diagonal.backward
def _(grad, like, offset, dim1, dim2):
    return ops.diagonal_adjoint(grad, like.input.shape, offset, dim1, dim2)


@diagonal.samples
def _(make):
    yield make.call(make.normal(3, 3))
    yield make.call(make.normal(2, 4), offset=1)
    yield make.call(make.normal(4, 2, 3), offset=-1, dim1=-1, dim2=0)
    yield make.call(make.normal(2, 2), offset=5)
    yield make.call(make.normal(0, 3, 3), dim1=1, dim2=2)
    yield make.error(RuntimeError, "at least 2", make.normal(3))
    yield make.error(RuntimeError, "must differ", make.normal(2, 2), dim1=1, dim2=-1)
    yield make.error(IndexError, "out of range", make.normal(2, 2), dim2=2)


def _adjoint_meta(input, *, shape, offset=0, dim1=0, dim2=1):
    seen = _diagonal_shape("diagonal_adjoint", shape, offset, dim1, dim2)
    if input.shape != seen:
        raise RuntimeError(
            f"diagonal_adjoint: the diagonal of a tensor of shape {tuple(shape)} has shape {seen}, got {input.shape}"
        )
    return tuple(shape), input.dtype


@operator(
    "standard::diagonal_adjoint", dtypes="any", infer=_adjoint_meta, cuda=".cuda:diagonal_adjoint"
)
def diagonal_adjoint(input, *, shape, offset=0, dim1=0, dim2=1):
    """Zeros of `shape` with `input` in the place that `diagonal` would read."""
    _adjoint_meta(input, shape=shape, offset=offset, dim1=dim1, dim2=dim2)
    out = np.zeros(shape, input.dtype)
    _seen(out, offset, *_two_dims("diagonal_adjoint", len(shape), dim1, dim2))[...] = input
    return out


@diagonal_adjoint.backward
def _(grad, offset, dim1, dim2):
    return ops.diagonal(grad, offset, dim1, dim2)


@diagonal_adjoint.samples
def _(make):
    yield make.call(make.normal(3), shape=(3, 3))
    yield make.call(make.normal(2), shape=(2, 4), offset=1)
    yield make.call(make.normal(2, 3), shape=(4, 2, 3), offset=-1, dim1=0, dim2=-1)
    yield make.call(make.normal(0, 3), shape=(0, 3, 3), dim1=1, dim2=2)
    yield make.error(RuntimeError, "has shape", make.normal(2), shape=(3, 3))


# ---- matrices that have a diagonal ---------------------------------------------------------------------------


@composite("standard::diag_embed", method=True)
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Zeros with the last dimension of `input` on the diagonal of two dimensions, `dim1` and `dim2` of the result.

    Raises
    ------
    IndexError
        `input` is 0-d, or a dimension lies outside.
    RuntimeError
        The two dimensions are the same.
    """
    if not input.ndim:
        raise IndexError("diag_embed: a 0-d tensor has no dimension to put on a diagonal")
    first, second = _two_dims("diag_embed", input.ndim + 1, dim1, dim2)
    n = input.shape[-1] + abs(offset)
    others = iter(input.shape[:-1])
    shape = tuple(n if d in (first, second) else next(others) for d in range(input.ndim + 1))
    return ops.diagonal_adjoint(input, shape, offset, first, second)


@diag_embed.samples
def _(make):
    yield make.call(make.normal(3))
    yield make.call(make.normal(2, 3), offset=-1)
    yield make.call(make.normal(2, 3), offset=1, dim1=2, dim2=0)
    yield make.call(make.normal(2, 0))
    yield make.error(IndexError, "0-d", make.normal())
    yield make.error(RuntimeError, "must differ", make.normal(3), dim1=1, dim2=-1)


@composite("standard::diag", method=True)
def diag(input, diagonal=0):
    """A copy of a matrix's diagonal; of one dimension, the matrix that has it as its diagonal.

    Raises
    ------
    RuntimeError
        `input` has another number of dimensions.
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim == 2:
        return ops.clone(ops.diagonal(input, diagonal))
    raise RuntimeError(f"diag: expected 1 or 2 dimensions, got shape {input.shape}")


@diag.samples
def _(make):
    yield make.call(make.normal(3))
    yield make.call(make.normal(2), 1)
    yield make.call(make.normal(3, 4), -1)
    yield make.call(make.normal(0))
    yield make.error(RuntimeError, "1 or 2", make.normal())


@composite("standard::diagflat", method=True)
def diagflat(input, offset=0):
    """The matrix that has all elements of `input` as its diagonal."""
    return diag_embed(ops.reshape(input, (input.numel(),)), offset)


@diagflat.samples
def _(make):
    yield make.call(make.normal(2, 2))
    yield make.call(make.normal(), 1)
    yield make.call(make.normal(0, 2))
