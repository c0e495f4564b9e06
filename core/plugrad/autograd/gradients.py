"""``backward`` and ``grad`` as functions of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plugrad.graph import engine
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
    materialize_grads : bool, default False
        Return zeros for such an input.

    Returns
    -------
    tuple of Tensor
        One gradient per input, of its shape and dtype.

    Raises
    ------
    RuntimeError
        An input does not require grad or is not used, or as ``backward``.
    """
    return engine.grad(  # type: ignore[no-any-return]
        outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads
    )
