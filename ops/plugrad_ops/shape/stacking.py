"""Joins along a dimension that the function's name says, and taking apart at given places."""

from plugrad import composite, ops
from plugrad_ops.shape.dims import as_size, normalize_dim
from plugrad_ops.shape.joining import _length, _pieces
from plugrad_ops.shape.renaming import alias

# ---- joining -------------------------------------------------------------------------------------------------


@composite("standard::hstack")
def hstack(tensors):
    """The tensors side by side: along dimension 1, or along 0 if they have no more."""
    tensors = [ops.atleast_1d(x) for x in _some("hstack", tensors)]
    return ops.cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@composite("standard::vstack")
def vstack(tensors):
    """The tensors one below the other, along dimension 0; ``(n,)`` counts as ``(1, n)``."""
    return ops.cat([ops.atleast_2d(x) for x in _some("vstack", tensors)], 0)


@composite("standard::dstack")
def dstack(tensors):
    """The tensors one behind the other, along dimension 2, which those without one get."""
    return ops.cat([ops.atleast_3d(x) for x in _some("dstack", tensors)], 2)


@composite("standard::column_stack")
def column_stack(tensors):
    """The tensors side by side, along dimension 1; ``(n,)`` counts as one column."""
    columns = [
        x if x.ndim > 1 else ops.reshape(x, (x.numel(), 1)) for x in _some("column_stack", tensors)
    ]
    return ops.cat(columns, 1)


def _some(name, tensors):
    tensors = list(tensors)
    if not tensors:
        raise RuntimeError(f"{name}: expected at least one tensor, got none")
    return tensors


def _to_join(make):
    yield make.call([make.normal(3), make.normal(3)])
    yield make.call([make.normal(2, 3), make.normal(2, 3)])
    yield make.call([make.normal(), make.normal()])
    yield make.call([make.normal(0, 2), make.normal(0, 2)])
    yield make.error(RuntimeError, "at least one", [])


for _found in (hstack, vstack, dstack, column_stack):
    _found.samples(_to_join)

row_stack = alias("row_stack", vstack, method=False)


@composite("standard::block_diag")
def block_diag(*tensors):
    """A matrix with the tensors, of at most two dimensions, along its diagonal and zeros elsewhere.

    Raises
    ------
    RuntimeError
        A tensor has more than two dimensions, or there is none.
    """
    for i, x in enumerate(_some("block_diag", tensors)):
        if x.ndim > 2:
            raise RuntimeError(
                f"block_diag: expected at most 2 dimensions, got shape {x.shape} for tensor {i}"
            )
    blocks = [ops.atleast_2d(x) for x in tensors]
    total, before, rows = sum(x.shape[1] for x in blocks), 0, []
    for block in blocks:
        after = total - before - block.shape[1]
        rows.append(ops.constant_pad_nd(block, (before, after)))
        before += block.shape[1]
    return ops.cat(rows, 0)


@block_diag.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(1, 2))
    yield make.call(make.normal(2), make.normal())
    yield make.call(make.normal(0, 2), make.normal(1))
    yield make.call(make.normal(0, 0))
    yield make.error(RuntimeError, "at most 2", make.normal(1, 1, 1))


# ---- taking apart --------------------------------------------------------------------------------------------


def _places(name, indices_or_sections):
    """The sections (an integer) or the places to cut at (a tuple); a tensor is one or the other."""
    given = indices_or_sections
    if hasattr(given, "array"):
        if given.dtype.kind not in "iu" or given.ndim > 1:
            raise RuntimeError(
                f"{name}: expected 0-d or 1-d integers, got {given.dtype} of shape {given.shape}"
            )
        given = given.tolist()
    return (
        as_size(name, given, "indices")
        if isinstance(given, tuple | list)
        else as_size(name, given, "sections")[0]
    )


def _cut(input, places, dim):
    """The pieces of dimension `dim` between places that count from either end, as NumPy's slices do."""
    n = input.shape[dim]
    bounds = [slice(None, at).indices(n)[1] for at in places]
    starts, lengths = [0, *bounds], []
    for start, stop in zip(starts, [*bounds, n]):
        lengths.append(max(stop - start, 0))
    if any(stop < start for start, stop in zip(starts, [*bounds, n])):
        # Pieces that do not follow one another.
        return tuple(ops.narrow(input, dim, s, k) for s, k in zip(starts, lengths))
    return _pieces(input, lengths, dim)


@composite("standard::tensor_split", method=True)
def tensor_split(input, indices_or_sections, dim=0):
    """Views of pieces of dimension `dim`.

    Parameters
    ----------
    indices_or_sections : int, sequence of int or Tensor
        How many pieces (the first ones are longer by one where they cannot be equal), or where to cut.

    Raises
    ------
    RuntimeError
        `input` is 0-d, or the number of pieces is not positive.
    """
    dim = normalize_dim("tensor_split", dim, input.ndim)
    n = _length("tensor_split", input, dim)
    places = _places("tensor_split", indices_or_sections)
    if isinstance(places, tuple):
        return _cut(input, places, dim)
    if places < 1:
        raise RuntimeError(f"tensor_split: the number of sections must be positive, got {places}")
    size, longer = divmod(n, places)
    return _pieces(input, [size + (i < longer) for i in range(places)], dim)


@tensor_split.samples
def _(make):
    yield make.call(make.normal(5, 2), 3)
    yield make.call(make.normal(2, 5), (1, 1, 4), dim=-1)
    yield make.call(make.normal(5), (-2, 1))
    yield make.call(make.normal(0, 2), 2)
    yield make.error(RuntimeError, "positive", make.normal(5), 0)
    yield make.error(RuntimeError, "0-d", make.normal(), 1)


def _even(name, input, indices_or_sections, dim):
    places = _places(name, indices_or_sections)
    n = input.shape[dim]
    if not isinstance(places, tuple):
        if places < 1 or n % places:
            raise RuntimeError(
                f"{name}: the size {n} of dimension {dim} is not divisible into {places} pieces"
            )
        return _pieces(input, [n // places] * places, dim)
    return _cut(input, places, dim)


def _at_least(name, input, ndim):
    if input.ndim < ndim:
        raise RuntimeError(f"{name}: expected at least {ndim} dimensions, got shape {input.shape}")


@composite("standard::hsplit", method=True)
def hsplit(input, indices_or_sections):
    """Views of equal pieces, or of those between places, of dimension 1 (0 if there is no other)."""
    _at_least("hsplit", input, 1)
    return _even("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1)


@composite("standard::vsplit", method=True)
def vsplit(input, indices_or_sections):
    """Views of equal pieces, or of those between places, of dimension 0 of at least two."""
    _at_least("vsplit", input, 2)
    return _even("vsplit", input, indices_or_sections, 0)


@composite("standard::dsplit", method=True)
def dsplit(input, indices_or_sections):
    """Views of equal pieces, or of those between places, of dimension 2."""
    _at_least("dsplit", input, 3)
    return _even("dsplit", input, indices_or_sections, 2)


def _to_split(make):
    yield make.call(make.normal(2, 2, 4), 2)
    yield make.call(make.normal(4, 3, 3), (1, 2))
    yield make.call(make.normal(0, 2, 0), [1])
    yield make.error(RuntimeError, "divisible", make.normal(3, 3, 3), 2)
    yield make.error(RuntimeError, "at least", make.normal(), 1)


for _found in (hsplit, vsplit, dsplit):
    _found.samples(_to_split)
