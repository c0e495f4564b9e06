"""An index as strides: what the CUDA kernels of this family need to know to find their elements.

(a) Integers, slices, None and Ellipsis make a view, as NumPy makes it. What is left are arrays of indices, each along one
    dimension of the view; where NumPy puts their common dimensions is asked of NumPy, on arrays of one element.
(b) So the index has dimensions of two kinds: those that move through the view, and those that move through the arrays of
    indices. Only the second kind can lead to one place twice: keys and orders count in these alone.
(c) Dimensions through which everything steps evenly are joined before they reach a kernel.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cache

import numpy as np

from plugrad.backends.cuda import layout, storage
from plugrad.backends.cuda.array import as_strided, view_by
from plugrad_ops.indexing.spec import ARRAY, WHOLE, numpy_index, read

MAX_ARRAYS = 8  # as in cuda.cu


@dataclass
class Arrays:
    """Arrays of indices (int64) of one shape, each along a dimension of a tensor."""

    arrays: list
    strides: list  # in elements, per array
    steps: list  # of the tensor, in bytes
    bounds: list
    weights: list  # of the key


@dataclass
class Addresses:
    """For each element of an index where it lies in a tensor, and in the values that go with it.

    Attributes
    ----------
    shape : tuple of int
        Of the index.
    tensor : GPUArray
        The view that strides begin at.
    strides : tuple of int
        Per dimension, through the tensor, in bytes.
    keys, orders : tuple of int
        Per dimension, what a step adds to the key and to the order.
    key_dims : tuple of int
        The dimensions in which keys count.
    indices : Arrays
    space : int
        How many keys there are.
    """

    shape: tuple
    tensor: object
    strides: tuple
    keys: tuple
    orders: tuple
    key_dims: tuple
    indices: Arrays
    space: int

    @property
    def size(self):
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def column_dims(self):
        """The dimensions in which keys do not count."""
        return tuple(d for d in range(len(self.shape)) if d not in self.key_dims)

    def length(self, dims):
        """The number of elements in some of the dimensions."""
        return math.prod(self.shape[d] for d in dims)

    def packed(self, name, values=None, dims=None, unit=0, arrays=True):
        """The struct of the kernels, for some of the dimensions, and the size of what they move.

        Parameters
        ----------
        values : tuple of int, optional
            Strides of the values in bytes, per dimension of the index.
        dims : sequence of int, optional
            All of them by default.
        unit : int
            The size of an element. Where neighbours can be moved together the result is a multiple.
        arrays : bool
            Whether the arrays of indices move through the tensor as well.

        Returns
        -------
        packed : bytes
        count : int
            Of what is moved.
        unit : int
        """
        chosen = range(len(self.shape)) if dims is None else dims
        found = self.indices
        operands = [
            self.strides,
            (0,) * len(self.shape) if values is None else values,
            self.keys,
            self.orders,
            *found.strides,
        ]
        lengths, steps = layout.collapse(
            tuple(self.shape[d] for d in chosen),
            [tuple(own[d] for d in chosen) for own in operands],
        )
        if len(lengths) > layout.MAX_DIMS or len(found.arrays) > MAX_ARRAYS:
            raise RuntimeError(
                f"{name}: at most {layout.MAX_DIMS} dimensions that cannot be joined and {MAX_ARRAYS} arrays of indices "
                f"on a CUDA device, got an index of shape {self.shape} with {len(found.arrays)} arrays"
            )
        while unit and self._can_double(lengths, steps, unit):
            unit *= 2
            lengths[0] //= 2
            steps[0] = [unit, unit, *steps[0][2:]]
        return self._struct(lengths, steps, arrays), math.prod(lengths), unit

    def _can_double(self, lengths, steps, unit):
        first, *rest = steps
        places = [int(self.tensor.gpudata), *(step for own in rest for step in own[:2])]
        even = all(place % (2 * unit) == 0 for place in (*places, *self.indices.steps))
        together = list(first[:2]) == [unit, unit] and not any(first[2:])
        return unit < 16 and lengths[0] % 2 == 0 and even and together

    def _struct(self, lengths, steps, arrays):
        found, dims = self.indices, layout.MAX_DIMS
        storage.used(*found.arrays)

        def padded(values, room):
            values = list(values)
            return values + [0] * (room - len(values))

        columns = [padded((own[i] for own in steps), dims) for i in range(len(steps[0]))]
        columns += [[0] * dims] * (4 + MAX_ARRAYS - len(columns))
        return struct.pack(
            f"{2 + dims * (5 + MAX_ARRAYS) + 3 * MAX_ARRAYS}q{MAX_ARRAYS}Q",
            len(lengths), len(found.arrays) if arrays else 0, *padded(lengths, dims),
            *(value for column in columns for value in column),
            *padded(found.steps, MAX_ARRAYS), *padded(found.bounds, MAX_ARRAYS),
            *padded(found.weights, MAX_ARRAYS),
            *padded((int(array.gpudata) for array in found.arrays), MAX_ARRAYS),
        )  # fmt: skip


# ---- an index by arrays and slices ---------------------------------------------------------------------------


def addresses(name, tensor, spec, indices):
    """The addresses of ``tensor[index]``.

    Parameters
    ----------
    name : str
        The operator's, for errors.
    tensor : GPUArray
    spec : tuple
        As `spec.parse_index` makes it.
    indices : sequence of GPUArray
        int64, one per `ARRAY` of the spec.

    Raises
    ------
    IndexError
        An integer lies outside its dimension, there are too many indices, or the arrays do not broadcast.
    """
    basic = tuple(WHOLE if entry == ARRAY else entry for entry in spec)
    view = view_by(lambda ghost: read(name, ghost, basic), tensor)
    try:
        common = np.broadcast_shapes(*(x.shape for x in indices))
    except ValueError:
        shapes = " and ".join(str(x.shape) for x in indices)
        raise IndexError(
            f"{name}: arrays of indices of shapes {shapes} do not broadcast; the tensor has shape {tensor.shape}"
        ) from None
    axes, first = _array_dims(spec, tensor.ndim, len(common))
    free = [d for d in range(view.ndim) if d not in axes]

    def merged(of_view, of_arrays):
        kept = [of_view[d] for d in free]
        return (*kept[:first], *of_arrays, *kept[first:])

    none, nowhere = (0,) * view.ndim, (0,) * len(common)
    bounds = [view.shape[d] for d in axes]
    own = [
        layout.broadcast_strides(common, x.shape, tuple(s // 8 for s in x.strides)) for x in indices
    ]
    return Addresses(
        shape=merged(view.shape, common),
        tensor=view,
        strides=merged(view.strides, nowhere),
        keys=merged(none, nowhere),
        orders=merged(none, layout.dense_strides(common, 1)),
        key_dims=tuple(range(first, first + len(common))),
        indices=Arrays(
            list(indices),
            [merged(none, strides) for strides in own],
            [view.strides[d] for d in axes],
            bounds,
            list(layout.dense_strides(bounds, 1)),
        ),
        space=math.prod(bounds),
    )


@cache
def _array_dims(spec, ndim, common):
    """The dimensions of the view that arrays of indices go along, and where their common dimensions stand."""
    used = sum(entry is not None and entry is not Ellipsis for entry in spec)
    axes, at = [], 0
    for entry in spec:
        if entry is Ellipsis:
            at += ndim - used
        elif entry == ARRAY:
            axes.append(at)
            at += 1
        elif type(entry) is not int:
            at += 1
    plain = tuple(
        WHOLE if type(entry) is tuple else 0 if type(entry) is int else entry for entry in spec
    )
    probe = np.zeros((2,) * common, np.intp)
    shape = np.empty((1,) * ndim)[numpy_index(plain, [probe] * len(axes))].shape
    return tuple(axes), shape.index(2) if common else 0


# ---- an index along one dimension ----------------------------------------------------------------------------


def addresses_along(tensor, indices, seen, dim):
    """The addresses that ``take_along_dim(tensor, indices, dim)``, of shape `seen`, reads."""
    if not tensor.ndim:
        tensor = as_strided(tensor, (1,), (0,))
        seen, indices = (1,), as_strided(indices, (1,), (0,))
    shape = tensor.shape
    others = tuple(1 if d == dim else n for d, n in enumerate(shape))
    strides = layout.broadcast_strides(seen, others, tensor.strides)
    strides = tuple(0 if d == dim else s for d, s in enumerate(strides))
    along = layout.broadcast_strides(seen, indices.shape, tuple(s // 8 for s in indices.strides))
    # Through a dimension in which the indices repeat, and the tensor does not, every element leads somewhere else.
    key_dims = tuple(
        d for d in range(len(seen)) if d == dim or indices.shape[d] != 1 or shape[d] != seen[d]
    )
    dense = layout.dense_strides(shape, 1)
    inside = [seen[d] if d in key_dims else 1 for d in range(len(seen))]
    orders = layout.dense_strides(inside, 1)
    return Addresses(
        shape=seen,
        tensor=tensor,
        strides=strides,
        keys=tuple(
            dense[d] if d in key_dims and d != dim and shape[d] > 1 else 0 for d in range(len(seen))
        ),
        orders=tuple(orders[d] if d in key_dims else 0 for d in range(len(seen))),
        key_dims=key_dims,
        indices=Arrays([indices], [along], [tensor.strides[dim]], [shape[dim]], [dense[dim]]),
        space=math.prod(shape),
    )
