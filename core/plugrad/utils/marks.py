"""What tells whether a tensor that is saved a second time has the values it had the first time."""

from __future__ import annotations

import weakref
from typing import Any

from plugrad.backends.checksum import checksum
from plugrad.graph.tensor import Tensor


class Checksums:
    """Checksums of saved tensors. What is saved by two operators in a row, as output and as input, is read once."""

    def __init__(self) -> None:
        self.last: tuple[weakref.ref[Any], int, int] | None = None

    def of(self, tensor: Tensor) -> int:
        """The checksum of a tensor's values."""
        array, version = tensor.array, tensor._version
        if self.last is not None and self.last[0]() is array and self.last[1] == version:
            return self.last[2]
        value = checksum(array)
        self.last = weakref.ref(array), version, value
        return value


class Mark:
    """What a tensor saved by a second run is compared with: its memory, if that stays, or a checksum."""

    __slots__ = ("checksum", "kind", "staying", "version")

    def __init__(self, tensor: Tensor, checksum: int | None) -> None:
        self.checksum = checksum
        self.staying: Tensor | None = tensor if checksum is None else None
        self.kind = (tensor.shape, tensor.dtype, tensor.device)
        self.version = tensor._version

    def fits(self, tensor: Tensor, checksums: Checksums) -> bool:
        if self.kind != (tensor.shape, tensor.dtype, tensor.device):
            return False
        if self.staying is None:
            return self.checksum == checksums.of(tensor)
        if self.staying._version != self.version:
            return False
        same = self.staying.array is tensor.array
        return same or checksum(self.staying.array) == checksums.of(tensor)

    def difference(self, tensor: Tensor) -> str:
        shape, dtype, device = self.kind
        if self.staying is not None and self.staying._version != self.version:
            return f"({dtype}{list(shape)}) was changed in-place since, or by the function itself"
        if self.kind == (tensor.shape, tensor.dtype, tensor.device):
            return f"({dtype}{list(shape)}) has other values"
        return f"is {tensor.dtype}{list(tensor.shape)} on {tensor.device}, was {dtype}{list(shape)} on {device}"
