"""The class of arrays that this backend makes; importing this module needs a driver."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pycuda.gpuarray import GPUArray, splay

from plugrad.backends.cuda.storage import allocate


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
        return allocate

    @cached_property
    def _splayed(self) -> Any:
        return splay(self.size)

    @cached_property
    def _grid(self) -> Any:
        return self._splayed[0]

    @cached_property
    def _block(self) -> Any:
        return self._splayed[1]
