"""Tensors from nothing, from numbers and from arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import plugrad.backends  # noqa: F401  (a tensor needs a backend)
from plugrad.backends.dtypes import as_dtype, kind, rounded
from plugrad.graph.backend import backend_named
from plugrad.graph.tensor import Tensor

DTypeLike = npt.DTypeLike
Shape = int | Sequence[int]

# Python floats become float32, like everything that is created without a dtype.
DEFAULT_DTYPE = np.dtype(np.float32)

# DLPack's codes: host memory, page-locked host memory, CUDA, memory that both can use.
DLPACK_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cpu"}


def tensor(
    data: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with a copy of `data`.

    Parameters
    ----------
    data : number, nested sequence of numbers, array or Tensor
    dtype : dtype, optional
        By default that of an array or Tensor; float32 for Python floats, int64 for integers.
    device : str, optional
        By default that of a Tensor or device array, else ``"cpu"``.
    requires_grad : bool, default False

    Returns
    -------
    Tensor
        A leaf.
    """
    found = _elsewhere(data)
    if found is not None:
        made = found.to(dtype or found.dtype, device or found.device, copy=True)
        return made.requires_grad_() if requires_grad else made
    return finished(np.array(_values(data, dtype), copy=True), device, requires_grad)


def as_tensor(data: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """`data` as a tensor, sharing memory where that is possible; a Tensor of that dtype is returned as it is.

    Anything with ``__cuda_array_interface__`` (arrays of PyCUDA, CuPy, Numba, PyTorch) is taken as it lies on
    its device.
    """
    found = data if isinstance(data, Tensor) else _elsewhere(data)
    if found is not None:
        return found.to(dtype or found.dtype, device or found.device)
    return finished(np.asarray(_values(data, dtype)), device, False)


def asarray(
    obj: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` as a tensor: a copy if `copy` is true, else sharing memory where that is possible."""
    if copy:
        return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    made = as_tensor(obj, dtype, device)
    return made.requires_grad_() if requires_grad else made


def scalar_tensor(
    s: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A 0-d tensor of one number; float32 unless `dtype` says otherwise."""
    return full((), s, dtype=dtype or DEFAULT_DTYPE, device=device, requires_grad=requires_grad)


def frombuffer(
    buffer: Any,
    *,
    dtype: DTypeLike,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """A 1-d tensor on the memory of an object that offers a buffer.

    Parameters
    ----------
    count : int
        How many elements; all by default.
    offset : int
        How many bytes to leave out in front.
    """
    return Tensor(np.frombuffer(buffer, as_dtype(dtype), count, offset), requires_grad)


def from_dlpack(source: Any) -> Tensor:
    """A tensor on the memory of an array of another library, on the device where that is.

    Parameters
    ----------
    source : object with ``__dlpack__`` and ``__dlpack_device__``

    Raises
    ------
    TypeError
        `source` has none.
    BufferError
        It lies on a device that plugrad has no backend for, or cannot be shared.
    """
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(
            f"from_dlpack() takes an array with __dlpack__, got {type(source).__name__}"
        )
    place, number = source.__dlpack_device__()
    device = DLPACK_DEVICES.get(int(place))
    if device is None:
        raise BufferError(
            f"from_dlpack(): the array lies on a device of DLPack's type {int(place)} (number {number}); known are "
            f"{', '.join(f'{code} ({name})' for code, name in DLPACK_DEVICES.items())}"
        )
    return Tensor(backend_named(device).from_dlpack(source))


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares memory with a NumPy array.

    Raises
    ------
    TypeError
        `array` is not a numpy.ndarray.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy() takes a numpy.ndarray, got {type(array).__name__}")
    return Tensor(array)


def zeros(
    *sizes: Any,
    size: Shape | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of zeros of the given shape (integers, or one sequence of them); float32 unless `dtype` says otherwise."""
    return _filled(
        _shape(sizes if size is None else (*sizes, size)),
        dtype or DEFAULT_DTYPE,
        0,
        device,
        requires_grad,
    )


def ones(
    *sizes: Any,
    size: Shape | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of ones of the given shape; float32 unless `dtype` says otherwise."""
    return _filled(
        _shape(sizes if size is None else (*sizes, size)),
        dtype or DEFAULT_DTYPE,
        1,
        device,
        requires_grad,
    )


def empty(
    *sizes: Any,
    size: Shape | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of the given shape whose values are whatever the memory held."""
    array = backend_named(device or "cpu").uninitialised(
        _shape(sizes if size is None else (*sizes, size)), as_dtype(dtype or DEFAULT_DTYPE)
    )
    return Tensor(array, requires_grad)


def full(
    size: Shape,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor filled with one value; its dtype follows the value's kind unless given."""
    chosen = _values(fill_value, dtype)
    return _filled(_shape((size,)), chosen.dtype, chosen, device, requires_grad)


def zeros_like(
    input: Tensor,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros with the shape, dtype and device of `input`."""
    return _filled(input.shape, dtype or input.dtype, 0, device or input.device, requires_grad)


def ones_like(
    input: Tensor,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones with the shape, dtype and device of `input`."""
    return _filled(input.shape, dtype or input.dtype, 1, device or input.device, requires_grad)


def empty_like(
    input: Tensor,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """An uninitialised tensor with the shape, dtype and device of `input`."""
    backend = backend_named(device or input.device)
    return Tensor(backend.uninitialised(input.shape, as_dtype(dtype or input.dtype)), requires_grad)


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`fill_value` (a number, or a 0-d tensor of any device) everywhere, with the shape, dtype and device of `input`."""
    if isinstance(fill_value, Tensor):
        if fill_value.shape != ():
            raise RuntimeError(
                f"full_like() takes a number or a 0-d tensor, got shape {fill_value.shape}"
            )
        fill_value = _host(fill_value)
    return _filled(
        input.shape, dtype or input.dtype, fill_value, device or input.device, requires_grad
    )


def _values(data: Any, dtype: DTypeLike | None) -> np.ndarray:
    asked = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        data = _host(data)
    if isinstance(data, (np.ndarray, np.generic)):
        values = np.asarray(data)
        return values if asked is None or asked == values.dtype else rounded(values, asked)
    if isinstance(data, (list, tuple)):
        data = _plain(data)
    try:
        values = np.asarray(data)
    except ValueError as error:
        raise ValueError(
            f"tensor(): the nested lists have rows of different lengths ({error})"
        ) from None
    if kind(values.dtype) not in "biufc":
        raise TypeError(
            f"tensor(): {type(data).__name__} does not hold numbers (NumPy dtype {values.dtype})"
        )
    if asked is not None:
        if not _holds_arrays(data):
            _require_fit(values, asked)
        with np.errstate(all="ignore"):  # what does not fit becomes infinity, without a warning
            return rounded(values, asked)
    if values.dtype.kind == "f" and not _holds_arrays(data):
        return values.astype(DEFAULT_DTYPE)
    if values.dtype.kind == "c" and not _holds_arrays(data):
        return values.astype(np.complex64)
    return values


def _require_fit(values: np.ndarray, dtype: np.dtype) -> None:
    """Raise if integers cannot hold Python numbers, which would come out as others."""
    if dtype.kind not in "iu" or values.dtype.kind not in "iuf" or not values.size:
        return
    info, low, high = np.iinfo(dtype), values.min(), values.max()
    if not (info.min <= low and high <= info.max):  # NaN is neither
        raise RuntimeError(f"tensor(): {dtype} holds {info.min} to {info.max}, got {low} to {high}")


def _host(tensor: Tensor) -> np.ndarray:
    """The values of a tensor of any device."""
    return backend_named(tensor.device).to_numpy(tensor.array)


def _elsewhere(data: Any) -> Tensor | None:
    """What is not in host memory as a Tensor on the same memory; None for what is."""
    if isinstance(data, Tensor):
        return None if data.device == "cpu" else data.detach()
    if isinstance(data, (np.ndarray, np.generic, int, float, complex, list, tuple)):
        return None
    if getattr(data, "__cuda_array_interface__", None) is None:
        return None
    from plugrad.backends.cuda.interface import imported

    return Tensor(imported(data))


def _plain(data: Any) -> Any:
    """Nested lists with Tensors in them as nested lists of arrays and numbers."""
    if isinstance(data, Tensor):
        return _host(data)
    return [_plain(item) for item in data] if isinstance(data, (list, tuple)) else data


def _holds_arrays(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.ndarray, np.generic))


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    try:
        shape = tuple(operator.index(length) for length in size)
    except TypeError:
        raise TypeError(f"a shape consists of integers, got {size}") from None
    if min(shape, default=0) < 0:
        raise RuntimeError(f"a shape cannot have negative lengths, got {shape}")
    return shape


def _filled(
    shape: tuple[int, ...], dtype: DTypeLike, value: Any, device: str | None, requires_grad: bool
) -> Tensor:
    return Tensor(
        backend_named(device or "cpu").filled(shape, as_dtype(dtype), value), requires_grad
    )


def finished(array: np.ndarray, device: str | None, requires_grad: bool) -> Tensor:
    """A leaf on a device, with the values of a host array."""
    return Tensor(backend_named(device or "cpu").from_numpy(array), requires_grad)
