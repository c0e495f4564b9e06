"""What the functional transforms share: inputs of their own, unit vectors, and Jacobians from rows or columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from plugrad.backends.creation import zeros
from plugrad.backends.dtypes import kind
from plugrad.graph import engine
from plugrad.graph.custom import alias
from plugrad.graph.grad_mode import enable_grad, no_grad
from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = ["assemble", "bare", "columns", "fresh", "gradients", "rows", "units", "zeros_for"]


def fresh(tensor: Tensor, connected: bool = True) -> Tensor:
    """A tensor with the same values that requires grad and that nothing else has a gradient for.

    Parameters
    ----------
    tensor : Tensor
    connected : bool, default True
        Whether gradients flow on to `tensor`, if it requires grad. Tangents come along in any case.
    """
    if connected and tensor.requires_grad:
        with enable_grad():
            return tensor[...]
    own = bare(tensor)
    return own.requires_grad_() if kind(own.dtype) in "fc" else own


def bare(tensor: Tensor) -> Tensor:
    """The tensor without its graph, but with its tangents."""
    own = alias(tensor)
    own._tangent = tensor._tangent
    return own


def zeros_for(tensor: Tensor, lead: Sequence[int] = ()) -> Tensor:
    """Zeros of the shape of a tensor, after dimensions `lead`."""
    return zeros((*lead, *tensor.shape), dtype=tensor.dtype, device=tensor.device)


def units(tensor: Tensor) -> Iterator[Tensor]:
    """The unit vectors of the tensor's space, in C order."""
    n = tensor.numel()
    for k in range(n):
        with no_grad():
            flat = zeros((n,), dtype=tensor.dtype, device=tensor.device)
            flat[k] = 1
            unit = flat.reshape(tensor.shape)
        yield unit


def gradients(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    create_graph: bool,
    retain_graph: bool | None = None,
) -> list[Any]:
    """Gradients of those outputs that have a graph, with respect to those inputs that require grad; else None."""
    live = [(out, seed) for out, seed in zip(outputs, seeds) if out.requires_grad]
    places = [i for i, x in enumerate(inputs) if x.requires_grad]
    found: list[Any] = [None] * len(inputs)
    if live and places:
        given = engine.grad(
            [out for out, _ in live],
            [inputs[i] for i in places],
            [seed for _, seed in live],
            retain_graph=retain_graph,
            create_graph=create_graph,
            allow_unused=True,
        )
        for i, grad in zip(places, given):
            found[i] = grad
    return found


def rows(output: Tensor, inputs: Sequence[Tensor], create_graph: bool) -> list[list[Any]]:
    """Per input its gradients for each element of `output`: the rows of its Jacobian; None: zeros."""
    found = [
        gradients([output], inputs, [unit], create_graph, retain_graph=True)
        for unit in units(output)
    ]
    return [list(column) for column in zip(*found)] if found else [[] for _ in inputs]


def assemble(parts: Sequence[Tensor | None], output: Tensor, given: Tensor) -> Tensor:
    """A Jacobian of shape ``(*output.shape, *given.shape)`` from its rows."""
    shape = (*output.shape, *given.shape)
    if not parts or all(part is None for part in parts):
        return zeros(shape, dtype=given.dtype, device=given.device)
    filled = [zeros_for(given) if part is None else part for part in parts]
    return ops.stack(filled).reshape(shape)


def columns(parts: Sequence[Tensor | None], output: Tensor, given: Tensor) -> Tensor:
    """The same from its columns: tangents of `output`, one per element of `given`."""
    shape = (*output.shape, *given.shape)
    if not parts or all(part is None for part in parts):
        return zeros(shape, dtype=output.dtype, device=output.device)
    filled = [zeros_for(output) if part is None else part for part in parts]
    return ops.stack(filled, dim=-1).reshape(shape)
