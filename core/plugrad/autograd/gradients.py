"""``backward`` and ``grad`` as functions of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plugrad.backends.creation import zeros
from plugrad.graph import engine, roles
from plugrad.graph.tensor import Tensor

Tensors = Tensor | Sequence[Tensor]
Seeds = Tensor | Sequence[Tensor | None] | None


def backward(
    tensors: Tensors,
    grad_tensors: Seeds = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradients of `tensors` to the ``grad`` of every leaf they depend on.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
        Where to start.
    grad_tensors : Tensor or sequence of Tensor or None, optional
        The gradient to start with, per tensor; needed where a tensor has more than one element.
    retain_graph : bool, optional
        Keep the saved values for another backward; by default the value of `create_graph`.
    create_graph : bool, default False
        Record the backward pass, so that the gradients can be differentiated.
    inputs : Tensor or sequence of Tensor, optional
        Accumulate only into these.

    Raises
    ------
    RuntimeError
        A tensor does not require grad, a gradient is missing or has another shape, or the
        graph's values were freed by an earlier backward.
    """
    engine.backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Seeds = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The sum of the gradients of `outputs` with respect to each of `inputs`; no ``grad`` is touched.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of Tensor
    grad_outputs : Tensor or sequence of Tensor or None, optional
        The vector of the vector-Jacobian product, per output.
    retain_graph : bool, optional
        Keep the saved values for another backward; by default the value of `create_graph`.
    create_graph : bool, default False
        Record the backward pass, so that the gradients can be differentiated.
    allow_unused : bool, optional
        Return None for an input that the outputs do not depend on, instead of raising.
    is_grads_batched : bool, default False
        Each of `grad_outputs` has a dimension more, in front: a product for each entry of it. The results
        have that dimension, too. Products are computed one after the other.
    materialize_grads : bool, default False
        Return zeros for such an input.

    Returns
    -------
    tuple of Tensor
        One gradient per input, of its shape and dtype.

    Raises
    ------
    RuntimeError
        An input does not require grad or is not used, `is_grads_batched` without `grad_outputs` that have
        one first dimension in common, or as ``backward``.
    """
    if is_grads_batched:
        return _batched(
            outputs,
            inputs,
            grad_outputs,
            retain_graph,
            create_graph,
            allow_unused,
            materialize_grads,
        )
    return engine.grad(
        outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads
    )


def _batched(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Seeds,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Any, ...]:
    """`grad` for each entry of the first dimension of `grad_outputs`, the results stacked."""
    seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or ())
    lengths = {seed.shape[:1] for seed in seeds if seed is not None}
    if len(lengths) != 1 or lengths == {()}:
        raise RuntimeError(
            "grad(): is_grads_batched needs grad_outputs with one first dimension in common, got "
            + (", ".join("None" if s is None else f"shape {s.shape}" for s in seeds) or "none")
        )
    (n,) = lengths.pop()
    keep = create_graph if retain_graph is None else retain_graph
    found = [
        engine.grad(
            outputs,
            inputs,
            [None if seed is None else seed[b] for seed in seeds],
            keep or b < n - 1,
            create_graph,
            allow_unused,
            materialize_grads,
        )
        for b in range(n)
    ]
    if not found:
        targets = [inputs] if isinstance(inputs, Tensor) else inputs
        return tuple(zeros((0, *t.shape), dtype=t.dtype, device=t.device) for t in targets)
    return tuple(None if each[0] is None else roles.call("stack", each) for each in zip(*found))
