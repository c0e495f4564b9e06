"""A tensor in another dtype or on another device, by PyTorch's calling conventions."""

from __future__ import annotations

from typing import Any

from plugrad.graph import roles
from plugrad.graph.backend import backend_named
from plugrad.graph.tensor import Tensor
from plugrad.graph.transfer import transfer


def to(
    tensor: Tensor,
    *args: Any,
    dtype: Any = None,
    device: str | None = None,
    non_blocking: bool = False,
    copy: bool = False,
) -> Tensor:
    """`tensor` with another dtype or on another device; itself if nothing changes.

    A dtype is changed before the device. `non_blocking` is accepted as PyTorch has it; a copy to or
    from a device is waited for in any case.
    """
    named = backend_named(tensor.device).dtype_named
    for arg in args:
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, str) and named(arg) is None:
            device = arg
        else:
            dtype = arg
    wanted = tensor.dtype if dtype is None else named(dtype)
    if wanted is None:
        raise TypeError(f"to(): {dtype!r} is neither a dtype, a device nor a Tensor")
    out = tensor if wanted == tensor.dtype else roles.call("cast", tensor, dtype=wanted)
    if device is not None:
        out = transfer(out, device)
    return roles.call("copy", tensor) if copy and out is tensor else out
