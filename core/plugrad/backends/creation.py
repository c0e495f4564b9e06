"""Tensors from nothing, from numbers and from arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import plugrad.backends  # noqa: F401  (a tensor needs a backend)
from plugrad.graph.tensor import Tensor

DTypeLike = npt.DTypeLike
Shape = int | Sequence[int]

# Python floats become float32, like everything that is created without a dtype.
DEFAULT_DTYPE = np.dtype(np.float32)


def tensor(
    data: Any, *, dtype: DTypeLike | None = None, device: str = "cpu", requires_grad: bool = False
) -> Tensor:
    """A tensor with a copy of `data`.

    Parameters
    ----------
    data : number, nested sequence of numbers, array or Tensor
    dtype : dtype, optional
        By default that of an array or Tensor; float32 for Python floats, int64 for integers.
    device : str, default "cpu"
    requires_grad : bool, default False

    Returns
    -------
    Tensor
        A leaf.
    """
    return _finish(np.array(_values(data, dtype), copy=True), device, requires_grad)


def as_tensor(data: Any, dtype: DTypeLike | None = None, device: str = "cpu") -> Tensor:
    """`data` as a tensor, sharing memory where that is possible; a Tensor of that dtype is returned as it is."""
    if isinstance(data, Tensor):
        return data if dtype is None or data.dtype == np.dtype(dtype) else data.to(dtype)
    return _finish(np.asarray(_values(data, dtype)), device, False)


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
    *size: Any, dtype: DTypeLike | None = None, device: str = "cpu", requires_grad: bool = False
) -> Tensor:
    """A tensor of zeros of the given shape; float32 unless `dtype` says otherwise."""
    return _finish(np.zeros(_shape(size), dtype or DEFAULT_DTYPE), device, requires_grad)


def ones(
    *size: Any, dtype: DTypeLike | None = None, device: str = "cpu", requires_grad: bool = False
) -> Tensor:
    """A tensor of ones of the given shape; float32 unless `dtype` says otherwise."""
    return _finish(np.ones(_shape(size), dtype or DEFAULT_DTYPE), device, requires_grad)


def empty(
    *size: Any, dtype: DTypeLike | None = None, device: str = "cpu", requires_grad: bool = False
) -> Tensor:
    """A tensor of the given shape whose values are whatever the memory held."""
    return _finish(np.empty(_shape(size), dtype or DEFAULT_DTYPE), device, requires_grad)


def full(
    size: Shape,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """A tensor filled with one value; its dtype follows the value's kind unless given."""
    chosen = _values(fill_value, dtype)
    return _finish(np.full(_shape((size,)), chosen, dtype=chosen.dtype), device, requires_grad)


def zeros_like(
    input: Tensor, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """Zeros with the shape, dtype and device of `input`."""
    return _finish(np.zeros(input.shape, dtype or input.dtype), input.device, requires_grad)


def ones_like(
    input: Tensor, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """Ones with the shape, dtype and device of `input`."""
    return _finish(np.ones(input.shape, dtype or input.dtype), input.device, requires_grad)


def empty_like(
    input: Tensor, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """An uninitialised tensor with the shape, dtype and device of `input`."""
    return _finish(np.empty(input.shape, dtype or input.dtype), input.device, requires_grad)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """`fill_value` everywhere, with the shape, dtype and device of `input`."""
    return _finish(
        np.full(input.shape, fill_value, dtype or input.dtype), input.device, requires_grad
    )


def eye(
    n: int, m: int | None = None, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """Ones on the diagonal of an n × m matrix (n × n by default), zeros elsewhere."""
    return _finish(np.eye(n, m, dtype=dtype or DEFAULT_DTYPE), "cpu", requires_grad)


def arange(
    start: float,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers start, start + step, … below `end`; ``arange(end)`` starts at 0.

    int64 when all arguments are integers, else float32, unless `dtype` says otherwise.
    """
    if end is None:
        start, end = 0, start
    if step == 0:
        raise ValueError("arange(): step must not be 0")
    whole = all(isinstance(value, int) for value in (start, end, step))
    chosen = dtype or (np.dtype(np.int64) if whole else DEFAULT_DTYPE)
    return _finish(np.arange(start, end, step).astype(chosen), "cpu", requires_grad)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included."""
    return _finish(
        np.linspace(start, end, steps).astype(dtype or DEFAULT_DTYPE), "cpu", requires_grad
    )


def _values(data: Any, dtype: DTypeLike | None) -> np.ndarray:
    if isinstance(data, Tensor):
        data = data.detach().numpy()
    if isinstance(data, (np.ndarray, np.generic)):
        return np.asarray(data, dtype)
    if isinstance(data, (list, tuple)):
        data = _plain(data)
    try:
        values = np.asarray(data)
    except ValueError as error:
        raise ValueError(
            f"tensor(): the nested lists have rows of different lengths ({error})"
        ) from None
    if values.dtype.kind not in "biufc":
        raise TypeError(
            f"tensor(): {type(data).__name__} does not hold numbers (NumPy dtype {values.dtype})"
        )
    if dtype is not None:
        with np.errstate(all="ignore"):  # what does not fit becomes infinity, without a warning
            return values.astype(dtype)
    if values.dtype.kind == "f" and not _holds_arrays(data):
        return values.astype(DEFAULT_DTYPE)
    if values.dtype.kind == "c" and not _holds_arrays(data):
        return values.astype(np.complex64)
    return values


def _plain(data: Any) -> Any:
    """Nested lists with Tensors in them as nested lists of arrays and numbers."""
    if isinstance(data, Tensor):
        return data.detach().numpy()
    return [_plain(item) for item in data] if isinstance(data, (list, tuple)) else data


def _holds_arrays(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.ndarray, np.generic))


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    try:
        return tuple(operator.index(length) for length in size)
    except TypeError:
        raise TypeError(f"a shape consists of integers, got {size}") from None


def _finish(array: np.ndarray, device: str, requires_grad: bool) -> Tensor:
    if device != "cpu":
        raise ValueError(f"tensors are created on 'cpu'; there is no backend for device {device!r}")
    return Tensor(array, requires_grad)
