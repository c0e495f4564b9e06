"""``__cuda_array_interface__``, version 3: memory of a device shared with other libraries, without copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from plugrad.backends.cuda import array as arrays
from plugrad.backends.cuda import context, storage
from plugrad.backends.cuda.dtypes import c_type
from plugrad.backends.dtypes import bfloat16

__all__ = ["exported", "imported", "misaligned"]

BFLOAT16_AS = np.dtype("V2")  # in the interface, which has no name for it; PyTorch writes the same
LEGACY = 1  # the interface's number for the default stream


def exported(array: Any) -> dict[str, Any]:
    """What the array is to libraries that read the interface; they wait for the current stream."""
    return {
        "shape": tuple(array.shape),
        "strides": None if arrays.is_contiguous(array) else tuple(array.strides),
        "typestr": array.dtype.str,
        "data": (storage.pointer(array), False),
        "version": 3,
        "stream": context.current_stream().ptr or LEGACY,
    }


def imported(source: Any) -> Any:
    """The memory of an object that has the interface as an array, which keeps the object alive.

    Memory that must not be written is copied.

    Raises
    ------
    TypeError
        The interface has a mask, a dtype that arrays cannot have, or elements that no kernel can read where they lie.
    """
    context.enter()
    from pycuda.gpuarray import GPUArray

    if isinstance(source, GPUArray):
        return source
    interface = source.__cuda_array_interface__
    kind = type(source).__name__
    if interface.get("mask") is not None:
        raise TypeError(f"a {kind} with a mask cannot be a tensor: its mask would be ignored")
    dtype = np.dtype(interface["typestr"])
    if dtype == BFLOAT16_AS:
        dtype = bfloat16()
    if dtype.hasobject or not dtype.isnative:
        raise TypeError(f"a {kind} of dtype {dtype} cannot be a tensor")
    c_type(dtype, kind)
    shape = tuple(int(length) for length in interface["shape"])
    strides = interface.get("strides")
    strides = c_order(shape, dtype) if strides is None else tuple(int(step) for step in strides)
    address, read_only = interface["data"]
    if why := misaligned(int(address or 0), shape, strides, dtype):
        raise TypeError(f"a {kind} of dtype {dtype} cannot be a tensor: {why}")
    _wait_for(interface.get("stream"))
    array = storage.view(shape, dtype, strides, int(address or 0), source)
    return arrays.copied(array) if read_only else array


def misaligned(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> str:
    """Why kernels, which read an element as a whole, cannot read these; empty where they can."""
    size = dtype.itemsize
    if 0 in shape:
        return ""
    if address % size:
        return f"its address {address:#x} is no multiple of {size}, the size of an element; copy it"
    if any(step % size for step, n in zip(strides, shape) if n > 1):
        return f"its strides {strides} are no multiples of {size} bytes, the size of an element; copy it"
    return ""


def c_order(shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    """The strides of an array in C order."""
    strides, step = [], dtype.itemsize
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def _wait_for(stream: int | None) -> None:
    """Wait for what the producer queued, unless it is queued where this thread's work goes, too."""
    if stream is None:
        return
    if stream == 0:
        raise TypeError(
            "stream 0 in __cuda_array_interface__ is ambiguous: 1 is the default stream"
        )
    if stream != (context.current_stream().ptr or LEGACY):
        context.wait(None)
