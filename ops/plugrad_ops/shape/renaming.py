"""Other names of views and joins, and views that take their shape from another tensor."""

from plugrad import composite, ops
from plugrad_ops.shape import joining
from plugrad_ops.shape import ops as views
from plugrad_ops.shape.dims import normalize_dim


def alias(name, operator, *, method=True):
    """`operator` under another name, checked at the same points."""
    made = composite(f"standard::{name}", method=method)(operator)
    made.samples(operator.sampler)
    return made


swapdims = alias("swapdims", views.transpose)
moveaxis = alias("moveaxis", views.movedim)
concat = alias("concat", joining.cat, method=False)
concatenate = alias("concatenate", joining.cat, method=False)


@composite("standard::swapaxes", method=True)
def swapaxes(input, axis0, axis1):
    """`transpose` under NumPy's name and with its argument names."""
    return ops.transpose(input, dim0=axis0, dim1=axis1)


@swapaxes.samples
def _(make):
    yield make.call(make.normal(2, 3), 0, 1)
    yield make.call(make.normal(2, 3, 4), axis0=-1, axis1=0)
    yield make.call(make.normal(), 0, -1)
    yield make.error(IndexError, "out of range", make.normal(2, 3), 0, 2)


@composite("standard::ravel", method=True)
def ravel(input):
    """The elements in C order, in one dimension; a view where the strides allow it."""
    return ops.reshape(input, (-1,) if input.numel() else (0,))


@ravel.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal())
    yield make.call(make.normal(0, 2))


@composite("standard::view_as", method=True)
def view_as(input, other):
    """`input` as a view of the shape of `other`."""
    return ops.view(input, other.shape)


@composite("standard::reshape_as", method=True)
def reshape_as(input, other):
    """`input` under the shape of `other`."""
    return ops.reshape(input, other.shape)


def _as_other(make):
    yield make.call(make.normal(2, 3), make.normal(2, 1, 3))
    yield make.call(make.normal(1), make.normal())
    yield make.call(make.normal(0, 2), make.normal(3, 0))
    yield make.error(RuntimeError, "invalid for a tensor", make.normal(2), make.normal(3))


view_as.samples(_as_other)
reshape_as.samples(_as_other)


@composite("standard::adjoint", method=True)
def adjoint(input):
    """The conjugate of `input` with its last two dimensions exchanged: a view of a real tensor. 0-d ones as they are."""
    if not input.ndim:
        return input
    if input.ndim < 2:
        raise RuntimeError(f"adjoint: expected at least 2 dimensions, got shape {input.shape}")
    return ops.transpose(input if input.dtype.kind != "c" else input.conj(), dim0=-2, dim1=-1)


@adjoint.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 1, 3))
    yield make.call(make.normal(0, 3))
    yield make.error(RuntimeError, "at least 2 dimensions", make.normal(3))


@composite("standard::select", method=True)
def select(input, dim, index):
    """The view of `input` at position `index` of dimension `dim`, without that dimension.

    Raises
    ------
    IndexError
        `input` is 0-d, or `index` lies outside the dimension.
    """
    if not input.ndim:
        raise IndexError("select: a 0-d tensor has no dimension to select from")
    dim = normalize_dim("select", dim, input.ndim)
    return ops.slice(input, index=(*((None, None, None),) * dim, int(index)))


@select.samples
def _(make):
    yield make.call(make.normal(3, 4), 0, 1)
    yield make.call(make.normal(2, 3, 4), -1, -2)
    yield make.call(make.normal(0, 3), 1, 0)
    yield make.error(IndexError, "out of bounds", make.normal(3), 0, 3)
    yield make.error(IndexError, "0-d", make.normal(), 0, 0)


# ---- at least so many dimensions -----------------------------------------------------------------------------


def _each(tensors, change):
    """`change` of the one tensor given, or of each of several."""
    if len(tensors) == 1 and hasattr(tensors[0], "array"):
        return change(tensors[0])
    given = tensors[0] if len(tensors) == 1 else tensors
    return tuple(change(x) for x in given)


@composite("standard::atleast_1d")
def atleast_1d(*tensors):
    """A tensor, or each of several, with 1 dimension if it had none."""
    return _each(tensors, lambda x: x if x.ndim else ops.reshape(x, (1,)))


@composite("standard::atleast_2d")
def atleast_2d(*tensors):
    """A tensor, or each of several, with 2 dimensions if it had fewer: ``(n,)`` becomes ``(1, n)``."""
    return _each(tensors, _two_dims)


def _two_dims(x):
    return x if x.ndim > 1 else ops.reshape(x, (1, *(x.shape or (1,))))


@composite("standard::atleast_3d")
def atleast_3d(*tensors):
    """A tensor, or each of several, with 3 dimensions: ``(n,)`` becomes ``(1, n, 1)``, ``(m, n)`` ``(m, n, 1)``."""
    return _each(tensors, _three_dims)


def _three_dims(x):
    return x if x.ndim > 2 else ops.unsqueeze(_two_dims(x), dim=-1)


def _small_ones(make):
    yield make.call(make.normal())
    yield make.call(make.normal(3), make.normal(2, 2))
    yield make.call([make.normal(2, 1, 2)])
    yield make.call(make.normal(1, 0))


for _found in (atleast_1d, atleast_2d, atleast_3d):
    _found.samples(_small_ones)
