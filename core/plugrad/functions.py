"""Functions that are no operators: what they return follows from how they are called, or they take no tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from plugrad.backends.dtypes import kind
from plugrad.graph import roles
from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = ["broadcast_shapes", "is_complex", "is_floating_point", "numel", "where"]


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """`input` where `condition` is true, else `other`; see ``plugrad.ops.where``.

    With `condition` alone, the indices of what is not zero: one tensor per dimension, as
    ``nonzero(condition, as_tuple=True)`` gives them.

    Raises
    ------
    TypeError
        One of `input` and `other` is missing.
    """
    if input is None and other is None:
        return ops.nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where(): give both input and other, or neither")
    return ops.where(condition, input, other)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that tensors of these shapes (sequences of integers, or integers) broadcast to.

    Raises
    ------
    RuntimeError
        They do not broadcast, or a length is negative.
    """
    given = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    try:
        return np.broadcast_shapes(*given)
    except ValueError:
        raise RuntimeError(
            f"broadcast_shapes(): {' and '.join(map(str, given))} do not broadcast"
        ) from None


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is a complex one."""
    return input.dtype.kind == "c"


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating one; complex ones are not."""
    return kind(input.dtype) == "f"


def numel(input: Tensor) -> int:
    """Number of elements."""
    return input.numel()


def _where_method(self: Tensor, condition: Any, other: Any) -> Any:
    """This tensor where `condition` is true, else `other`."""
    return ops.where(condition, self, other)


roles.install_method("where", _where_method)
