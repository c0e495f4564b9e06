"""Tensors brought to one shape, and all combinations of their elements."""

import math
from itertools import combinations as _chosen
from itertools import combinations_with_replacement as _with_replacement

import numpy as np

from plugrad import composite, from_numpy, ops

# Numbers that `combinations` makes at most: what it lists on the host before takes many times their memory.
MOST = 2**27


def _list_of(tensors):
    """The tensors, given one by one or as one list."""
    several = len(tensors) == 1 and isinstance(tensors[0], tuple | list)
    return list(tensors[0]) if several else list(tensors)


@composite("standard::broadcast_tensors")
def broadcast_tensors(*tensors):
    """The tensors, each expanded to the shape that they broadcast to.

    Raises
    ------
    RuntimeError
        They do not broadcast.
    """
    tensors = _list_of(tensors)
    try:
        shape = np.broadcast_shapes(*(x.shape for x in tensors))
    except ValueError:
        shapes = " and ".join(str(x.shape) for x in tensors)
        raise RuntimeError(f"broadcast_tensors: shapes {shapes} do not broadcast") from None
    return tuple(x if x.shape == shape else ops.expand(x, shape) for x in tensors)


@broadcast_tensors.samples
def _(make):
    yield make.call(make.normal(3, 1), make.normal(4))
    yield make.call(make.normal(), make.normal(2), make.normal(1))
    yield make.call(make.normal(0, 1), make.normal(2))
    yield make.error(RuntimeError, "do not broadcast", make.normal(2), make.normal(3))


@composite("standard::meshgrid")
def meshgrid(*tensors, indexing=None):
    """For each tensor, of at most one dimension, its elements along a dimension of its own, expanded along the others.

    Parameters
    ----------
    indexing : {"ij", "xy"}, default "ij"
        "xy" exchanges the first two dimensions of the result.

    Raises
    ------
    RuntimeError
        A tensor has more than one dimension, or `indexing` is neither.
    """
    tensors = _list_of(tensors)
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    if not tensors:
        raise RuntimeError("meshgrid: expected at least one tensor, got none")
    for i, x in enumerate(tensors):
        if x.ndim > 1:
            raise RuntimeError(
                f"meshgrid: expected at most 1 dimension, got shape {x.shape} for tensor {i}"
            )
    count = len(tensors)
    places = list(range(count))
    if indexing == "xy" and count > 1:
        places[:2] = 1, 0
    shape = tuple(tensors[i].numel() for i in places)
    return tuple(
        ops.expand(ops.reshape(x, tuple(x.numel() if p == i else 1 for p in places)), shape)
        for i, x in enumerate(tensors)
    )


@meshgrid.samples
def _(make):
    yield make.call(make.normal(2), make.normal(3), indexing="ij")
    yield make.call(make.normal(2), make.normal(3), make.normal(), indexing="xy")
    yield make.call(make.normal(0), make.normal(2))
    yield make.error(RuntimeError, "at most 1", make.normal(2, 2))
    yield make.error(RuntimeError, "'ij' or 'xy'", make.normal(2), indexing="yx")


@composite("standard::cartesian_prod")
def cartesian_prod(*tensors):
    """All combinations of one element of each 1-d tensor, as rows; of a single tensor, a copy."""
    tensors = _list_of(tensors)
    for i, x in enumerate(tensors):
        if x.ndim != 1:
            raise RuntimeError(
                f"cartesian_prod: expected 1 dimension, got shape {x.shape} for tensor {i}"
            )
    if len(tensors) == 1:
        return ops.clone(tensors[0])
    return ops.reshape(ops.stack(ops.meshgrid(*tensors), dim=-1), (-1, len(tensors)))


@cartesian_prod.samples
def _(make):
    yield make.call(make.normal(2), make.normal(3))
    yield make.call(make.normal(3))
    yield make.call(make.normal(2), make.normal(1), make.normal(2))
    yield make.error(RuntimeError, "1 dimension", make.normal(), make.normal(2))


@composite("standard::combinations")
def combinations(input, r=2, with_replacement=False):
    """All choices of `r` elements of a 1-d tensor, in their order, as rows."""
    if input.ndim != 1 or r < 0:
        raise RuntimeError(
            f"combinations: expected 1 dimension and r >= 0, got shape {input.shape} and r {r}"
        )
    n = input.shape[0]
    count = math.comb(n + r - 1 if with_replacement and n else n, r)
    if count * max(r, 1) > MOST:
        raise RuntimeError(
            f"combinations: {count} choices of {r} among {n} elements are too many; at most {MOST} numbers are made"
        )
    choose = _with_replacement if with_replacement else _chosen
    found = list(choose(range(n), r))
    if not r or not found:
        return ops.reshape(ops.narrow(input, 0, 0, 0), (0,) if not r else (0, r))
    return input[from_numpy(np.array(found)).to(input.device)]


@combinations.samples
def _(make):
    yield make.call(make.normal(4))
    yield make.call(make.normal(3), 2, True)
    yield make.call(make.normal(0), 2)
    yield make.error(RuntimeError, "1 dimension", make.normal(2, 2))
    yield make.error(RuntimeError, "too many", make.normal(100), 20)
