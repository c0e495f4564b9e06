"""Dimension arguments: what `dim=` may be, and the shapes that follow from it."""

from operator import index


def normalize_dim(name, dim, ndim):
    """`dim` as an index from 0; a 0-d tensor counts as having one dimension, as in PyTorch.

    Raises
    ------
    TypeError
        `dim` is no integer.
    IndexError
        `dim` lies outside ``[-ndim, ndim - 1]``.
    """
    try:
        dim = index(dim)
    except TypeError:
        raise TypeError(f"{name}: dim must be an integer, got {dim!r}") from None
    bound = ndim or 1
    if not -bound <= dim < bound:
        raise IndexError(
            f"{name}: dimension out of range: a tensor of {ndim} dimensions has dims "
            f"{-bound} to {bound - 1}, got {dim}"
        )
    return dim if dim >= 0 else dim + bound


def normalize_dims(name, dim, ndim):
    """The axes that `dim` (None, an integer or a sequence; empty means all) names, ascending.

    Raises
    ------
    TypeError, IndexError
        As `normalize_dim`.
    RuntimeError
        A dimension is named twice.
    """
    if dim is None:
        return tuple(range(ndim))
    if isinstance(dim, int):
        axis = normalize_dim(name, dim, ndim)
        return (axis,) if ndim else ()
    try:
        given = tuple(dim)
    except TypeError:
        given = (dim,)
    axes = sorted(normalize_dim(name, d, ndim) for d in given)
    if len(set(axes)) < len(axes):
        raise RuntimeError(f"{name}: a dimension appears twice in dim={dim!r}")
    if not ndim:
        return ()
    return tuple(axes) if axes else tuple(range(ndim))


def reduced_shape(shape, axes, keepdim):
    """The shape that is left when `axes` are reduced."""
    if keepdim:
        return tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def as_size(name, size, word="size"):
    """`size` (an integer or a sequence of integers) as a tuple.

    Raises
    ------
    TypeError
        An entry is no integer.
    """
    given = tuple(size) if isinstance(size, tuple | list) else (size,)
    try:
        return tuple(index(n) for n in given)
    except TypeError:
        raise TypeError(f"{name}: {word} must be integers, got {size!r}") from None


def expanded_shape(shape, size):
    """`size`, in which -1 keeps a length, as the shape that `shape` is expanded to.

    Raises
    ------
    RuntimeError
        The two do not broadcast to `size`.
    """
    size = as_size("expand", size)
    extra = len(size) - len(shape)
    fits = extra >= 0 and all(n in (-1, m) or m == 1 for n, m in zip(size[extra:], shape))
    if not fits or any(n < 0 for n in size[:extra]) or any(n < -1 for n in size):
        raise RuntimeError(
            f"expand: shape {tuple(shape)} cannot be expanded to {size}: from the right, each length must be equal, "
            "1 in the tensor, or -1 (keep it) in the size"
        )
    return (*size[:extra], *(m if n == -1 else n for n, m in zip(size[extra:], shape)))


def starred(size):
    """The one sequence given, or all the integers given: ``f(2, 3)`` and ``f((2, 3))`` are one call."""
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], tuple | list) else size
