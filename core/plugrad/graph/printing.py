"""How a tensor prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from plugrad.graph.tensor import Tensor


def describe(tensor: Tensor) -> str:
    """``tensor([1., 2.], requires_grad=True)``: the values, and what is not the default."""
    values = np.asarray(tensor.detach().numpy())
    body = np.array2string(values, separator=", ", prefix="tensor(", threshold=1000, precision=4)
    notes = []
    if 0 in values.shape:
        notes.append(f"size={tensor.shape}")
    if values.dtype not in (np.float32, np.int64, np.bool_):
        notes.append(f"dtype={values.dtype}")
    if tensor.device != "cpu":
        notes.append(f"device={tensor.device!r}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn={tensor.grad_fn!r}")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([body, *notes])})"
