"""How a tensor prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.graph.backend import backend_named

if TYPE_CHECKING:
    from plugrad.graph.tensor import Tensor


def describe(tensor: Tensor) -> str:
    """``tensor([1., 2.], requires_grad=True)``: the values, and what is not the default."""
    body, default_dtype = backend_named(tensor.device).render(tensor.array, "tensor(")
    notes = []
    if 0 in tensor.shape:
        notes.append(f"size={tensor.shape}")
    if not default_dtype:
        notes.append(f"dtype={tensor.dtype}")
    if tensor.device != "cpu":
        notes.append(f"device={tensor.device!r}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn={tensor.grad_fn!r}")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([body, *notes])})"
