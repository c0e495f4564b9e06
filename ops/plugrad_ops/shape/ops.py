"""Views of a tensor under another shape or another order of dimensions, and the copies that go with them.

A view operator returns an array on the same memory and says so with `view_of`. `reshape` copies where the strides leave
no other way; its result then owns its memory, by which dispatch knows that it is no view.
"""

import math

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.copies import copied
from plugrad_ops.shape.dims import as_size, normalize_dim, normalize_dims

# ---- the same elements in the same order ---------------------------------------------------------------------


def resolve_size(name, size, shape):
    """`size` with its -1 replaced by what the number of elements asks for."""
    size = as_size(name, size)
    count, known, unknown = math.prod(shape), 1, 0
    for n in size:
        if n == -1:
            unknown += 1
        elif n < 0:
            raise RuntimeError(f"{name}: a size cannot be negative, got {size}")
        else:
            known *= n
    if unknown == 1 and known and count % known == 0:
        return tuple(count // known if n == -1 else n for n in size)
    if unknown or known != count:
        raise RuntimeError(
            f"{name}: size {size} is invalid for a tensor of shape {shape} ({count} elements)"
            + ("; one size may be -1, where the others leave it determined" if unknown else "")
        )
    return size


def viewable(shape, strides, size):
    """Whether an array of this shape and these strides can be seen as `size` without a copy.

    Dimensions of the array that lie behind one another in memory form a block; each block must be
    covered by a run of the new dimensions.
    """
    if 0 in shape:
        return True
    blocks = []
    for n, stride in zip(shape, strides):
        if n == 1:
            continue
        if blocks and blocks[-1][1] == n * stride:
            blocks[-1] = (blocks[-1][0] * n, stride)
        else:
            blocks.append((n, stride))
    sizes = iter(n for n in size if n != 1)
    for count, _ in blocks:
        covered = 1
        while covered < count:
            covered *= next(sizes)
        if covered > count:
            return False
    return True


def _view_meta(input, *, size):
    return resolve_size("view", size, input.shape), input.dtype


@operator("standard::view", dtypes="any", infer=_view_meta, view_of="input", method=True)
def view(input, *, size):
    """The same memory under the shape `size`, in which one entry may be -1.

    Raises
    ------
    RuntimeError
        `size` holds another number of elements, or the strides of `input` would need a copy (`reshape` makes one).
    """
    shape = resolve_size("view", size, input.shape)
    if not input.flags.c_contiguous and not viewable(input.shape, input.strides, shape):
        raise RuntimeError(
            f"view: a tensor of shape {input.shape} and strides {input.strides} (bytes) cannot be seen as {shape} "
            "without a copy; use reshape"
        )
    return input.reshape(shape)


@view.backward
def _(grad, like):
    return ops.reshape(grad, like.input.shape)


@view.samples
def _(make):
    yield make.call(make.normal(2, 6), size=(3, 4))
    yield make.call(make.normal(2, 3, 2), size=(-1, 2))
    yield make.call(make.normal(), size=(1, 1))
    yield make.call(make.normal(1), size=())
    yield make.call(make.normal(0, 3), size=(3, 0))
    yield make.error(RuntimeError, "invalid for a tensor of shape", make.normal(2, 3), size=(4, 2))
    yield make.error(RuntimeError, "-1", make.normal(2, 3), size=(-1, -1))
    yield make.error(RuntimeError, "negative", make.normal(2, 3), size=(-2, 3))
    yield make.error(TypeError, "integers", make.normal(2, 3), size=(1.5, 4))


@operator(
    "standard::reshape",
    dtypes="any",
    infer=lambda input, *, shape: (resolve_size("reshape", shape, input.shape), input.dtype),
    view_of="input",
    method=True,
)
def reshape(input, *, shape):
    """The elements of `input`, in C order, under `shape`, in which one entry may be -1: a view where the strides allow it.

    Raises
    ------
    RuntimeError
        `shape` holds another number of elements.
    """
    shape = resolve_size("reshape", shape, input.shape)
    if input.flags.c_contiguous or viewable(input.shape, input.strides, shape):
        return input.reshape(shape)
    return copied(input, shape)  # owns its memory, which tells dispatch that it is no view


@reshape.backward
def _(grad, like):
    return ops.reshape(grad, like.input.shape)


@reshape.samples
def _(make):
    yield make.call(make.normal(2, 6), shape=(3, 4))
    yield make.call(make.normal(2, 3, 2), shape=(-1, 2))
    yield make.call(make.normal(1), shape=())
    yield make.call(make.normal(0, 3), shape=(3, 0))
    yield make.error(RuntimeError, "invalid for a tensor", make.normal(2, 3), shape=(4, 2))
    yield make.error(RuntimeError, "-1", make.normal(2, 3), shape=(-1, -1))


@composite("standard::flatten", method=True)
def flatten(input, start_dim=0, end_dim=-1):
    """Dimensions `start_dim` to `end_dim` (inclusive) joined into one; a 0-d tensor becomes 1-d."""
    if input.ndim == 0:
        return ops.reshape(input, (1,))
    first = normalize_dim("flatten", start_dim, input.ndim)
    last = normalize_dim("flatten", end_dim, input.ndim)
    if first > last:
        raise RuntimeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    shape = input.shape
    return ops.reshape(
        input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
    )


@flatten.samples
def _(make):
    yield make.call(make.normal(2, 3, 2), start_dim=1)
    yield make.call(make.normal())
    yield make.call(make.normal(2, 0, 3), end_dim=-2)
    yield make.error(RuntimeError, "comes after", make.normal(2, 3), start_dim=1, end_dim=0)


@composite("standard::unflatten", method=True)
def unflatten(input, dim, sizes):
    """Dimension `dim` split into `sizes`, of which one may be -1."""
    dim = normalize_dim("unflatten", dim, input.ndim)
    sizes = resolve_size("unflatten", sizes, (input.shape[dim] if input.ndim else 1,))
    return ops.reshape(input, (*input.shape[:dim], *sizes, *input.shape[dim + 1 :]))


@unflatten.samples
def _(make):
    yield make.call(make.normal(2, 6), dim=-1, sizes=(2, 3))
    yield make.call(make.normal(4, 3), dim=0, sizes=(-1, 2))
    yield make.call(make.normal(0, 3), dim=1, sizes=(3, 1))
    yield make.error(RuntimeError, "invalid for a tensor", make.normal(2, 6), dim=1, sizes=(4, 2))


def _squeezed(input, dim):
    axes = normalize_dims("squeeze", dim, input.ndim)
    return tuple(n for axis, n in enumerate(input.shape) if n != 1 or axis not in axes)


@operator(
    "standard::squeeze",
    dtypes="any",
    infer=lambda input, *, dim: (_squeezed(input, dim), input.dtype),
    view_of="input",
    method=True,
)
def squeeze(input, *, dim=None):
    """Without the dimensions of length 1, or without those among `dim` (an integer or a tuple)."""
    if dim is None:
        return input.squeeze()
    axes = normalize_dims("squeeze", dim, input.ndim)
    return input.squeeze(tuple(axis for axis in axes if input.shape[axis] == 1))


@squeeze.backward
def _(grad, like):
    return ops.reshape(grad, like.input.shape)


@squeeze.samples
def _(make):
    yield make.call(make.normal(1, 3, 1))
    yield make.call(make.normal(1, 3, 1), dim=-1)
    yield make.call(make.normal(2, 3), dim=0)
    yield make.call(make.normal(), dim=0)
    yield make.call(make.normal(1, 0, 1), dim=(0, 2))
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=2)
    yield make.error(RuntimeError, "twice", make.normal(1, 3), dim=(0, -2))


def _unsqueeze_axes(dim, ndim):
    dims = dim if isinstance(dim, tuple | list) else (dim,)
    total = ndim + len(dims)
    return normalize_dims("unsqueeze", dims, total) if dims else ()


def _unsqueezed(input, *, dim):
    axes = _unsqueeze_axes(dim, input.ndim)
    kept = iter(input.shape)
    return tuple(1 if i in axes else next(kept) for i in range(input.ndim + len(axes))), input.dtype


@operator("standard::unsqueeze", dtypes="any", infer=_unsqueezed, view_of="input", method=True)
def unsqueeze(input, *, dim):
    """With a dimension of length 1 inserted at `dim` (at several, for a tuple of positions in the result)."""
    if type(dim) is int:
        axis = normalize_dim("unsqueeze", dim, input.ndim + 1)
        return input.reshape((*input.shape[:axis], 1, *input.shape[axis:]))
    return np.expand_dims(input, _unsqueeze_axes(dim, input.ndim))


@unsqueeze.backward
def _(grad, like):
    return ops.reshape(grad, like.input.shape)


@unsqueeze.samples
def _(make):
    yield make.call(make.normal(2, 3), dim=1)
    yield make.call(make.normal(2, 3), dim=-1)
    yield make.call(make.normal(), dim=0)
    yield make.call(make.normal(0, 2), dim=(0, -1))
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim=3)


# ---- another order of dimensions -----------------------------------------------------------------------------


def _permutation(dims, ndim):
    dims = dims if isinstance(dims, tuple | list) else (dims,)
    order = tuple(normalize_dim("permute", d, ndim) for d in dims)
    if sorted(order) != list(range(ndim)):
        raise RuntimeError(
            f"permute: dims must name each of the {ndim} dimensions once, got {dims}"
        )
    return order


def _permuted(input, *, dims):
    return tuple(input.shape[d] for d in _permutation(dims, input.ndim)), input.dtype


@operator("standard::permute", dtypes="any", infer=_permuted, view_of="input", method=True)
def permute(input, *, dims):
    """Dimension ``dims[i]`` of `input` becomes dimension i."""
    return input.transpose(_permutation(dims, input.ndim))


@permute.backward
def _(grad, like, dims):
    order = _permutation(dims, like.input.ndim)
    return ops.permute(grad, dims=tuple(sorted(range(len(order)), key=order.__getitem__)))


@permute.samples
def _(make):
    yield make.call(make.normal(2, 3, 4), dims=(2, 0, 1))
    yield make.call(make.normal(2, 3), dims=(-1, 0))
    yield make.call(make.normal(), dims=())
    yield make.call(make.normal(0, 2, 3), dims=(1, 2, 0))
    yield make.error(RuntimeError, "each of the 2 dimensions once", make.normal(2, 3), dims=(0, 0))
    yield make.error(IndexError, "out of range", make.normal(2, 3), dims=(0, 2))


def _transposed(input, *, dim0, dim1):
    shape = list(input.shape)
    if shape:
        a, b = (normalize_dim("transpose", d, input.ndim) for d in (dim0, dim1))
        shape[a], shape[b] = shape[b], shape[a]
    return tuple(shape), input.dtype


@operator("standard::transpose", dtypes="any", infer=_transposed, view_of="input", method=True)
def transpose(input, *, dim0, dim1):
    """With dimensions `dim0` and `dim1` exchanged."""
    a, b = (normalize_dim("transpose", d, input.ndim) for d in (dim0, dim1))
    return input.swapaxes(a, b) if input.ndim else input.view()


@transpose.backward
def _(grad, dim0, dim1):
    return ops.transpose(grad, dim0=dim0, dim1=dim1)


@transpose.samples
def _(make):
    yield make.call(make.normal(2, 3), dim0=0, dim1=1)
    yield make.call(make.normal(2, 3, 4), dim0=-1, dim1=0)
    yield make.call(make.normal(), dim0=0, dim1=-1)
    yield make.call(make.normal(2, 0), dim0=1, dim1=0)
    yield make.error(IndexError, "out of range", make.normal(2, 3), dim0=0, dim1=2)


@composite("standard::t", method=True)
def t(input):
    """The transpose of a matrix; 0-d and 1-d tensors as they are."""
    if input.ndim > 2:
        raise RuntimeError(
            f"t: expected at most 2 dimensions, got shape {input.shape}; use mT or permute"
        )
    return input if input.ndim < 2 else ops.transpose(input, dim0=0, dim1=1)


@t.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(3))
    yield make.call(make.normal(0, 3))
    yield make.error(RuntimeError, "at most 2 dimensions", make.normal(2, 3, 4))


@composite("standard::movedim", method=True)
def movedim(input, source, destination):
    """Dimensions `source` moved to the positions `destination`; the others keep their order."""
    pair = (source, destination)
    source, destination = (d if isinstance(d, tuple | list) else (d,) for d in pair)
    source = [normalize_dim("movedim", d, input.ndim) for d in source]
    destination = [normalize_dim("movedim", d, input.ndim) for d in destination]
    if not len(set(source)) == len(source) == len(destination) == len(set(destination)):
        raise RuntimeError(
            "movedim: source and destination must name equally many different dimensions, "
            f"got {pair[0]} and {pair[1]}"
        )
    order = [d for d in range(input.ndim) if d not in source]
    for to, origin in sorted(zip(destination, source)):
        order.insert(to, origin)
    return ops.permute(input, dims=tuple(order)) if input.ndim else input


@movedim.samples
def _(make):
    yield make.call(make.normal(2, 3, 4), source=0, destination=-1)
    yield make.call(make.normal(2, 3, 4), source=(0, 1), destination=(2, 0))
    yield make.call(make.normal(2, 0), source=0, destination=1)
    yield make.error(RuntimeError, "equally many", make.normal(2, 3), source=(0, 1), destination=0)
