"""Tensors that Python code keeps for backward, with the care that operators take of what they save.

A kept tensor goes through the hook for saved tensors that is in use. Without one, a later change of its memory is
an error: by its version always, in anomaly mode also by a checksum.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from plugrad.backends.checksum import checksum
from plugrad.graph.custom import alias, pack, place, producer, unpack
from plugrad.graph.duals import levels_in
from plugrad.graph.instruments import watching
from plugrad.graph.tensor import Tensor


class KeptTensor:
    """The value of a tensor, outside the graph; ``get`` notices when its memory was written since.

    Parameters
    ----------
    tensor : Tensor
        Its array is shared, not copied.
    hooks : bool, default True
        Whether a hook for saved tensors may replace the value; it then answers for it.
    """

    __slots__ = ("_checksum", "_packed", "_tangents", "_tensor", "_version")

    def __init__(self, tensor: Tensor, hooks: bool = True) -> None:
        self._packed = pack(tensor) if hooks else None
        if self._packed is None:
            self._tensor = alias(tensor)
            self._version = tensor._version
            self._tangents = tensor._tangent
            self._checksum = value_checksum(tensor.array) if watching() else None

    @property
    def shared_array(self) -> Any:
        """The array that is shared, or None where a hook has replaced it."""
        return None if self._packed is not None else self._tensor.array

    def get(self, owner: str) -> Tensor:
        """The tensor, without a graph.

        Parameters
        ----------
        owner : str
            Who keeps it, for the error.

        Raises
        ------
        RuntimeError
            It was changed in-place or, in anomaly mode, in any way.
        """
        if self._packed is not None:
            return unpack(self._packed, owner)
        tensor = alias(self._tensor)
        if tensor._version != self._version:
            raise RuntimeError(
                f"a tensor that {owner} saved for backward was changed by an in-place operation: "
                f"shape {list(tensor.shape)}, dtype {tensor.dtype}, is at version {tensor._version}, "
                f"expected {self._version}"
            )
        if self._checksum is not None and value_checksum(tensor.array) != self._checksum:
            raise RuntimeError(written_behind(owner, "a tensor", tensor.array))
        if self._tangents is not None:
            tensor._tangent = self._tangents
        return tensor


class SavedTensor:
    """One tensor that a Function saved, with its place in the graph.

    Parameters
    ----------
    tensor : Tensor or None
    nr : int or None
        Which output of the Function it is; None for any other tensor. An output is kept without its node, which
        would be a cycle.
    """

    __slots__ = ("_edge", "_kept", "_nr")

    def __init__(self, tensor: Tensor | None, nr: int | None) -> None:
        self._nr = nr
        self._kept = None if tensor is None else KeptTensor(tensor)
        self._edge = None if tensor is None or nr is not None else producer(tensor)

    @property
    def tangents(self) -> Any:
        """The record of its tangents, or None."""
        return None if self._kept is None else getattr(self._kept, "_tangents", None)

    def get(self, owner: str, node: Any) -> Tensor | None:
        """The tensor where it was in the graph; `owner` is the name of the Function, `node` its node."""
        if self._kept is None:
            return None
        tensor = self._kept.get(owner)
        if self._nr is not None:
            return place(tensor, node, self._nr)
        return tensor if self._edge is None else place(tensor, *self._edge)


def refuse_tangents(name: str, grads: Iterable[Any], saved: Iterable[SavedTensor]) -> None:
    """Refuse to go with dual tensors through a backward that is once_differentiable.

    Raises
    ------
    RuntimeError
        A gradient or a saved tensor has tangents.
    """
    records = [grad._tangent for grad in grads if isinstance(grad, Tensor)]
    records += [each.tangents for each in saved]
    if levels_in(records):
        raise RuntimeError(
            f"the backward of {name} is once_differentiable: its gradients cannot be differentiated, so they have "
            "no tangents"
        )


def value_checksum(array: Any) -> int:
    """The checksum of an array's values, whatever its layout."""
    # A device's arrays are summed in the order of their elements, not of memory.
    return checksum(np.ascontiguousarray(array) if isinstance(array, np.ndarray) else array)


def written_behind(owner: str, what: str, array: Any) -> str:
    """The message for a saved value that changed while its version did not."""
    return (
        f"{what} that {owner} saved for backward was written behind plugrad's back, probably through a NumPy array "
        f"that shares its memory: shape {list(array.shape)}, dtype {array.dtype}, has other values at the same "
        "version. Write through plugrad's in-place operations, or into a copy."
    )
