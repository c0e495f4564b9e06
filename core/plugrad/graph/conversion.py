"""A tensor in another dtype or on another device, by PyTorch's calling conventions."""

from __future__ import annotations

from typing import Any

from plugrad.graph import roles
from plugrad.graph.backend import backend_named
from plugrad.graph.tensor import Tensor


def to(
    tensor: Tensor, *args: Any, dtype: Any = None, device: str | None = None, copy: bool = False
) -> Tensor:
    """`tensor` with another dtype or on another device; itself if nothing changes."""
    named = backend_named(tensor.device).dtype_named
    for arg in args:
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, str) and named(arg) is None:
            device = arg
        else:
            dtype = arg
    if device is not None and device != tensor.device:
        raise ValueError(f"to(): there is no way from device {tensor.device!r} to {device!r}")
    wanted = tensor.dtype if dtype is None else named(dtype)
    if wanted is None:
        raise TypeError(f"to(): {dtype!r} is neither a dtype, a device nor a Tensor")
    if wanted != tensor.dtype:
        return roles.call("cast", tensor, dtype=wanted)
    return roles.call("copy", tensor) if copy else tensor
