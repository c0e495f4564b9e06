"""Tensors on a device, for the checks: arrays go there with their strides and come back as NumPy arrays.

The strides are made as views on the device, since a plain copy would make every array contiguous and no check of
layouts would mean anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from plugrad.contract.libraries import PlugradLibrary

__all__ = ["DeviceLibrary", "overlap"]

Array = np.ndarray


class DeviceLibrary(PlugradLibrary):
    """plugrad's tensors on the device "cuda"."""

    device = "cuda"
    failed = False  # whether a battery has left the device of this process unusable

    def tensor(self, array: Array, requires_grad: bool = False) -> Any:
        return self._tensor(placed(np.asarray(array)), requires_grad)

    def array(self, tensor: Any) -> Array:
        return self.host(tensor.array)

    def host(self, value: Any) -> Any:
        from plugrad.backends.cuda.array import to_host

        return to_host(value) if hasattr(value, "gpudata") else value

    def is_array(self, value: Any) -> bool:
        return hasattr(value, "gpudata")

    def share_memory(self, a: Any, b: Any) -> bool:
        return overlap(a.array, b.array)

    def dirty(self, arrays: Sequence[Array]) -> None:
        """Leave rubbish where arrays of these sizes will be allocated next.

        A kernel that leaves elements unwritten would otherwise find the right values of the call before.
        """
        from plugrad.backends.cuda.array import from_host

        held = [
            from_host(np.full(array.nbytes, 0xFF, np.uint8))
            for array in arrays
            for _ in range(3)
            if array.nbytes
        ]
        del held

    def orders(self) -> Iterator[tuple[str, AbstractContextManager[Any]]]:
        found = emulator()
        if found is not None:
            yield "when threads run in reversed order", found.order("reversed")
            yield "when threads run in shuffled order", found.order("shuffled", 7)

    def settle(self) -> None:
        from plugrad.backends.cuda import context
        from plugrad.backends.cuda.errors import CudaError, EarlierFailure

        try:
            context.wait(None)
        except CudaError as error:
            # After a battery stopped the device, its report is the one to be read, not an error of the next.
            if not DeviceLibrary.failed:
                raise EarlierFailure(str(error)) from error

    def recover(self) -> None:
        from plugrad.backends.cuda import context
        from plugrad.backends.cuda.errors import CudaError

        found = emulator()
        if found is not None:
            found.reset()
            return
        try:
            context.wait(None)
        except CudaError:
            DeviceLibrary.failed = True


def emulator() -> Any:
    """The module of the emulated device, if that is the one in use."""
    from plugrad.registry.hardware import EMULATED, kind_of

    return sys.modules.get("plugrad_emulator") if kind_of("cuda") == EMULATED else None


def placed(array: Array) -> Any:
    """An array on the device with the same strides."""
    from plugrad.backends.cuda.array import as_strided, from_host

    if array.flags.c_contiguous or not array.size:
        return from_host(array)
    backwards = tuple(
        slice(None, None, -1) if stride < 0 else slice(None) for stride in array.strides
    )
    lowest = array[backwards]
    steps = [
        abs(stride) // array.itemsize for stride, n in zip(array.strides, array.shape) if n > 1
    ]
    reach = 1 + sum(step * (n - 1) for step, n in zip(steps, (n for n in array.shape if n > 1)))
    memory = np.lib.stride_tricks.as_strided(lowest, (reach,), (array.itemsize,))
    offset = sum(-stride * (n - 1) for stride, n in zip(array.strides, array.shape) if stride < 0)
    return as_strided(from_host(np.array(memory)), array.shape, array.strides, offset)


def overlap(a: Any, b: Any) -> bool:
    """Whether the ranges of memory that two device arrays reach have bytes in common."""
    (low_a, high_a), (low_b, high_b) = _range(a), _range(b)
    return low_a < high_b and low_b < high_a


def _range(array: Any) -> tuple[int, int]:
    from plugrad.backends.cuda.storage import pointer

    if not array.size:
        return 0, 0
    low = high = int(pointer(array))
    for stride, n in zip(array.strides, array.shape):
        if stride < 0:
            low += stride * (n - 1)
        else:
            high += stride * (n - 1)
    return low, high + array.dtype.itemsize
