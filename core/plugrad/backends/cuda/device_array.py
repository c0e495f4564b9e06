"""The class of arrays that this backend makes, and their memory for PyCUDA; importing this module needs a driver."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pycuda.driver import PointerHolderBase
from pycuda.gpuarray import GPUArray, splay

from plugrad.backends.cuda.storage import Memory, allocate


class Block(PointerHolderBase):
    """Memory for the results of PyCUDA's own methods.

    Not an allocation of PyCUDA's: dropped on a thread without the context, that one ends the process.
    """

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self.memory: Memory | None = allocate(nbytes)
        # By this name PyCUDA takes it as an argument of a kernel.
        self.gpudata = self.memory.pointer

    def get_pointer(self) -> int:
        """The address."""
        return self.gpudata

    __int__ = __index__ = get_pointer

    def free(self) -> None:
        """Give the memory back."""
        self.memory = None


class DeviceArray(GPUArray):
    """A GPUArray built by its shape, dtype, strides, size, gpudata and base; the rest follows when asked for."""

    @cached_property
    def mem_size(self) -> int:
        return self.size

    @cached_property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @cached_property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @cached_property
    def allocator(self) -> Any:
        return Block

    @cached_property
    def _splayed(self) -> Any:
        return splay(self.size)

    @cached_property
    def _grid(self) -> Any:
        return self._splayed[0]

    @cached_property
    def _block(self) -> Any:
        return self._splayed[1]
