"""GPUArrays as storage: to and from the host, views, copies in C order.

(a) Work is queued on the current stream. What comes back to the host is waited for.
(b) A view is made by asking NumPy (see `views`): whatever makes a view of a NumPy array makes one of a device array.
(c) Copying needs no types, only sizes: elements travel as integers of their size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from plugrad.backends.cuda import context, device, layout, storage
from plugrad.backends.cuda.context import failed
from plugrad.backends.cuda.dtypes import c_type
from plugrad.backends.cuda.storage import empty
from plugrad.backends.cuda.views import seen_by

__all__ = [
    "as_strided",
    "contiguous",
    "copied",
    "copy_into",
    "empty",
    "fill",
    "from_host",
    "is_contiguous",
    "restrided",
    "to_host",
    "view_by",
]

_CARRIERS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
_WORDS = {1: "memset_d8_async", 2: "memset_d16_async", 4: "memset_d32_async"}


# ---- to and from the host ------------------------------------------------------------------------


def from_host(array: np.ndarray) -> Any:
    """A copy on the device, in C order.

    Raises
    ------
    TypeError
        The array is of a dtype that kernels do not have, or not of the machine's byte order.
    OutOfMemoryError
        The device has not enough memory.
    """
    host = np.asarray(array, order="C")
    if host.dtype.hasobject or not host.dtype.isnative:
        raise TypeError(f"arrays of dtype {host.dtype} cannot lie on a device")
    c_type(host.dtype, "a transfer to the device")
    out = empty(host.shape, host.dtype)
    if host.size:
        _to_device(storage.pointer(out), host)
    return out


def _to_device(pointer: int, host: np.ndarray) -> None:
    stream = context.current_stream()
    block = host.reshape(-1).view(np.uint8)  # not every dtype can be handed on as a buffer
    if stream.handle is None:
        _queue("memcpy_htod", pointer, block)
    else:
        _queue("memcpy_htod_async", pointer, block, stream.handle)
        stream.synchronize()  # the caller may change its array as soon as this returns


def _queue(name: str, *args: Any) -> None:
    """Call a function of the driver; what it reports may be the failure of something queued earlier."""
    driver = device.driver()
    try:
        getattr(driver, name)(*args)
    except driver.Error as error:
        raise failed(error) from error


def to_host(array: Any) -> np.ndarray:
    """A copy on the host; waits for everything queued on the current stream.

    Raises
    ------
    CudaError
        A kernel that was queued earlier failed.
    """
    shape, dtype = tuple(array.shape), array.dtype
    if array.size == 0:
        return np.empty(shape, dtype)
    strides = tuple(array.strides)
    if layout.is_dense(shape, strides, dtype.itemsize):
        block = np.empty(array.size, dtype)
        out = np.lib.stride_tricks.as_strided(block, shape, strides)  # in the order of the device's
    else:
        array = contiguous(array)
        block = out = np.empty(shape, dtype)
    stream = context.current_stream()
    if stream.handle is None:
        _queue("memcpy_dtoh", block.reshape(-1).view(np.uint8), storage.pointer(array))
    else:
        _queue(
            "memcpy_dtoh_async",
            block.reshape(-1).view(np.uint8),
            storage.pointer(array),
            stream.handle,
        )
        stream.synchronize()
    return out


# ---- views ---------------------------------------------------------------------------------------


def as_strided(
    array: Any, shape: Sequence[int], strides: Sequence[int], offset_bytes: int = 0
) -> Any:
    """A view of the same dtype; nothing is checked, and the memory stays alive with the view."""
    return _seen(array, tuple(shape), array.dtype, tuple(strides), offset_bytes)


def restrided(array: Any, strides: tuple[int, ...], shape: tuple[int, ...] | None = None) -> Any:
    """An array that nothing else sees yet, with other strides; it owns the memory from now on."""
    shape = tuple(array.shape) if shape is None else shape
    return storage.view(shape, array.dtype, strides, storage.pointer(array), array.base)


def _seen(
    array: Any, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...], offset: int
) -> Any:
    owner = array if storage.owns(array) or array.base is None else array.base
    return storage.view(shape, dtype, strides, storage.pointer(array) + offset, owner)


def is_contiguous(array: Any) -> bool:
    """Whether the elements lie in C order without gaps."""
    expected = array.dtype.itemsize
    for length, stride in zip(reversed(array.shape), reversed(array.strides)):
        if length == 0:
            return True
        if length != 1:
            if stride != expected:
                return False
            expected *= length
    return True


def contiguous(array: Any) -> Any:
    """The array itself where it is in C order, else a copy that is."""
    return array if is_contiguous(array) else copied(array)


def copied(array: Any) -> Any:
    """A copy in C order."""
    out = empty(tuple(array.shape), array.dtype)
    copy_into(out, array)
    return out


def view_by(function: Callable[..., Any], array: Any, *args: Any, **constants: Any) -> Any:
    """What a NumPy function that makes views gives for a device array.

    Parameters
    ----------
    function : callable
        Called ``function(host_array, *args, **constants)``. It may look at shape, strides and dtype, not
        at values.
    array : GPUArray

    Returns
    -------
    GPUArray or tuple of GPUArray
        Views of `array`; where the function had to copy, because these strides allow no such view, of a
        copy of `array` in C order.

    Raises
    ------
    TypeError
        The function returns no array, or copies even what lies in C order.
    """
    found = seen_by(function, array, args, constants)
    if found is None:
        array = copied(array)
        found = seen_by(function, array, args, constants)
    if found is None:
        raise TypeError(
            f"{getattr(function, '__name__', function)} makes no view of an array in C order (shape {array.shape}); "
            "on a device it needs a kernel"
        )
    return found


# ---- copying and filling -------------------------------------------------------------------------


@cache
def _copy_kernel() -> Any:
    from plugrad.backends.cuda.elementwise import Elementwise

    return Elementwise("x", inputs=("x",), name="copy")


def _carried(array: Any) -> Any:
    """The same elements as integers of their size."""
    size = array.dtype.itemsize
    if size not in _CARRIERS:
        raise TypeError(
            f"arrays of dtype {array.dtype} ({size} bytes an element) cannot be copied on a device"
        )
    return _seen(array, tuple(array.shape), np.dtype(_CARRIERS[size]), tuple(array.strides), 0)


def copy_into(target: Any, values: Any) -> None:
    """Write `values`, of the same dtype and broadcast to the target's shape, over `target`."""
    if target.size == 0:
        return
    if target.dtype != values.dtype:
        raise TypeError(
            f"copy_into(): values of dtype {values.dtype} for an array of {target.dtype}"
        )
    shape, strides = tuple(target.shape), tuple(target.strides)
    read = layout.broadcast_strides(shape, tuple(values.shape), tuple(values.strides))
    if read == strides and layout.is_dense(shape, strides, target.dtype.itemsize):
        nbytes, stream = target.size * target.dtype.itemsize, context.current_stream().handle
        storage.used(target, values)
        _queue(
            "memcpy_dtod_async", storage.pointer(target), storage.pointer(values), nbytes, stream
        )
        return
    _copy_kernel()(_carried(as_strided(values, shape, read)), out=_carried(target))


def fill(array: Any, value: Any) -> None:
    """Write one value into every element."""
    if array.size == 0:
        return
    with np.errstate(all="ignore"):
        one = np.asarray(value).astype(array.dtype).reshape(1)
    pattern, stream = one.tobytes(), context.current_stream().handle
    if layout.is_dense(tuple(array.shape), tuple(array.strides), array.dtype.itemsize):
        for size, name in _WORDS.items():
            times = len(pattern) // size
            if times and pattern == pattern[:size] * times:
                word = int.from_bytes(pattern[:size], "little")
                storage.used(array)
                _queue(name, storage.pointer(array), word, array.size * times, stream)
                return
    copy_into(array, from_host(one))
