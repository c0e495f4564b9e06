"""Methods of Tensor that are no operators: new tensors like one (``x.new_zeros(2, 3)``), and how it lies in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.backends import creation
from plugrad.backends.creation import DTypeLike, Shape
from plugrad.graph import roles
from plugrad.graph.tensor import Tensor

if TYPE_CHECKING:
    from plugrad.backends.cuda.context import Stream

__all__ = [
    "data_ptr",
    "is_complex",
    "is_contiguous",
    "ndimension",
    "nelement",
    "new_empty",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
    "record_stream",
    "stride",
    "type_as",
]

# ---- new tensors ---------------------------------------------------------------------------------------------


def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A copy of `data` as a tensor of the dtype and on the device of this one."""
    return creation.tensor(
        data, requires_grad=requires_grad, **_like(self, {"dtype": dtype, "device": device})
    )


def new_full(
    self: Tensor,
    size: Shape,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """One value everywhere, in a tensor of the dtype and on the device of this one."""
    own = _like(self, {"dtype": dtype, "device": device})
    return creation.full(size, fill_value, requires_grad=requires_grad, **own)


def new_zeros(self: Tensor, *size: Any, **options: Any) -> Tensor:
    """Zeros of the dtype and on the device of this tensor; options as of `plugrad.zeros`."""
    return creation.zeros(*size, **_like(self, options))


def new_ones(self: Tensor, *size: Any, **options: Any) -> Tensor:
    """Ones of the dtype and on the device of this tensor; options as of `plugrad.ones`."""
    return creation.ones(*size, **_like(self, options))


def new_empty(self: Tensor, *size: Any, **options: Any) -> Tensor:
    """Uninitialised memory of the dtype and on the device of this tensor; options as of `plugrad.empty`."""
    return creation.empty(*size, **_like(self, options))


def _like(tensor: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    own = {"dtype": tensor.dtype, "device": tensor.device}
    return {**own, **{name: value for name, value in options.items() if value is not None}}


# ---- what it is, and how it lies in memory -------------------------------------------------------------------


def refuse_format(name: str, memory_format: Any) -> None:
    """Raise NotImplementedError unless `memory_format` is None."""
    if memory_format is not None:
        raise NotImplementedError(f"{name}: memory formats are not offered, got {memory_format!r}")


def is_contiguous(self: Tensor, *, memory_format: Any = None) -> bool:
    """Whether the elements lie in C order without gaps."""
    refuse_format("is_contiguous", memory_format)
    return bool(self.array.flags.c_contiguous)


def stride(self: Tensor, dim: int | None = None) -> Any:
    """How many elements apart neighbours of each dimension, or of one, lie in memory."""
    steps = tuple(step // self.array.dtype.itemsize for step in self.array.strides)
    return steps if dim is None else steps[dim]


def data_ptr(self: Tensor) -> int:
    """The address of the first element, in the memory of the tensor's device."""
    if self.device != "cpu":
        from plugrad.backends.cuda.storage import pointer

        return pointer(self.array)
    return int(self.array.__array_interface__["data"][0])


def nelement(self: Tensor) -> int:
    """Number of elements."""
    return self.numel()


def ndimension(self: Tensor) -> int:
    """Number of dimensions."""
    return self.ndim


def is_complex(self: Tensor) -> bool:
    """Whether the dtype is a complex one."""
    return self.dtype.kind == "c"


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The values in the dtype and on the device of another tensor."""
    return self.to(other.dtype, other.device)


# ---- on a device -----------------------------------------------------------------------------------------------


def record_stream(self: Tensor, stream: Stream) -> None:
    """Say that work on `stream` uses the tensor's memory, which is then not used again before that is done.

    Operators say so by themselves of the stream that they run on; this is for work that plugrad does not see.

    Raises
    ------
    RuntimeError
        The tensor is not on a CUDA device.
    """
    if self.device != "cuda":
        raise RuntimeError(
            f"record_stream() is for tensors on device 'cuda', whose memory belongs to a stream, got one on {self.device!r}"
        )
    from plugrad.backends.cuda.storage import record_stream

    record_stream(self.array, stream)


for _method in __all__:
    roles.install_method(_method, globals()[_method])
