"""Tangents forward: an operator's Jacobian times the tangents of its inputs.

(a) An operator may say itself how tangents go forward (`Operator.jvp`). Otherwise its backward rule does: the rule
    is linear in the incoming gradient, so differentiating it with respect to that gives the Jacobian itself. No
    operator needs a second formula for forward mode.
(b) An elementwise rule multiplies by a diagonal, which is its own transpose: given the tangent in place of the
    gradient it gives the tangent of the result. A view is linear: the tangent is seen the same way.
(c) Rules are run as they are under ``create_graph``: on the tensors of the call, in their place in the graph. So
    tangents can be differentiated, backward and forward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.backends.creation import zeros
from plugrad.backends.dtypes import kind
from plugrad.graph import engine, roles
from plugrad.graph.grad_mode import enable_grad, is_grad_enabled
from plugrad.graph.op import named
from plugrad.graph.tensor import Tensor

if TYPE_CHECKING:
    from plugrad.registry.operator import Operator

__all__ = ["pushforward"]

Tangents = list[Tensor | None]


def pushforward(
    op: Operator,
    inputs: list[Any],
    constants: tuple[Any, ...],
    outputs: list[Tensor],
    tangents: Tangents,
) -> Tangents:
    """The tangents of the outputs of one call; None stands for zero.

    Parameters
    ----------
    op : Operator
    inputs : list of Tensor, number or None
        As its kernel got them: promoted, a list input spread.
    constants : tuple
        In order.
    outputs : list of Tensor
        What the call returned.
    tangents : list of Tensor or None
        One per input.

    Raises
    ------
    RuntimeError
        The operator is once differentiable, or its rule is not linear, and it declares no `jvp`.
    """
    live = [
        kind(out.dtype) in "fc" and not flat
        for out, flat in zip(outputs, op.schema.nondifferentiable)
    ]
    tangents = [
        t if t is not None and kind(t.dtype) in "fc" and kind(x.dtype) in "fc" else None
        for t, x in zip(tangents, inputs)
    ]
    if not any(live) or all(t is None for t in tangents):
        return [None] * len(outputs)
    found = _by_jvp(op, inputs, constants, outputs, tangents)
    if found is None:
        _require_linear(op)
        found = (
            _as_view(op, inputs, constants, tangents)
            or _by_diagonal(op, inputs, constants, outputs, tangents)
            or _by_transposing(op, inputs, constants, outputs, tangents, live)
        )
    return [
        None if t is None or not flows else _fitted(op, t, out)
        for t, out, flows in zip(found, outputs, live)
    ]


def _require_linear(op: Operator) -> None:
    why = (
        "is once_differentiable" if op.once_differentiable
        else "is not linear in the incoming gradient" if "linearity" in op.exempt
        else None
    )  # fmt: skip
    if why is not None:
        raise RuntimeError(
            f"forward mode: the rule of {op.name} {why}, so tangents cannot be derived from it; "
            f"declare how they go forward with @{op.__name__}.jvp"
        )


def _fitted(op: Operator, tangent: Tensor, out: Tensor) -> Tensor:
    """A tangent in the shape and dtype of its output, or an error that names the operator."""
    if not isinstance(tangent, Tensor):
        raise TypeError(
            f"jvp of {op.name} must return Tensors or None, one per output, got {type(tangent).__name__}"
        )
    if tangent.shape != out.shape:
        if not op.schema.elementwise:
            raise RuntimeError(
                f"jvp of {op.name} returned a tangent of shape {tangent.shape} for an output of shape {out.shape}"
            )
        tangent = roles.call("broadcast_to", tangent, out.shape)
    return tangent if tangent.dtype == out.dtype else roles.call("cast", tangent, dtype=out.dtype)


# ---- the ways ----------------------------------------------------------------------------------


def _by_jvp(
    op: Operator,
    inputs: list[Any],
    constants: tuple[Any, ...],
    outputs: list[Tensor],
    tangents: Tangents,
) -> Tangents | None:
    """What the operator's own rule for tangents gives."""
    if op.jvp_rule is None:
        return None
    first = named("Tangents", op.schema.inputs)._make(_grouped(op, tangents))
    found = op.jvp_rule(*_arguments(op, op.jvp_plan, first, inputs, constants, outputs, None))
    if len(outputs) == 1 and not isinstance(found, tuple | list):
        found = [found]
    if not isinstance(found, tuple | list) or len(found) != len(outputs):
        raise RuntimeError(
            f"jvp of {op.name} must return {len(outputs)} tangents, one per output, "
            f"got {len(found) if isinstance(found, tuple | list) else type(found).__name__}"
        )
    return list(found)


def _as_view(
    op: Operator, inputs: list[Any], constants: tuple[Any, ...], tangents: Tangents
) -> Tangents | None:
    """The same view of the tangent, where it lies in memory as the input does."""
    place = op.schema.view_of
    if place < 0 or op.surrogate is not None:
        return None
    tangent = tangents[place]
    if tangent is None or tangent.array.strides != inputs[place].array.strides:
        return None
    seen = [tangent if i == place else x for i, x in enumerate(inputs)]
    return [op(*seen, **dict(zip(op.schema.constants, constants)))]


def _by_diagonal(
    op: Operator,
    inputs: list[Any],
    constants: tuple[Any, ...],
    outputs: list[Tensor],
    tangents: Tangents,
) -> Tangents | None:
    """The rule of an elementwise operator, given tangents for gradients."""
    out = outputs[0]
    if (
        not op.schema.elementwise
        or len(outputs) != 1
        or op.surrogate is not None
        or kind(out.dtype) != "f"
    ):
        return None
    total: Tensor | None = None
    for i, tangent in enumerate(tangents):
        if tangent is None:
            continue
        if tangent.dtype != out.dtype:
            return None
        seed = tangent
        if seed.shape != out.shape:
            seed = roles.call("broadcast_to", seed, out.shape)
        needs = _needs(op, [j == i for j in range(len(inputs))])
        part = _run_rule(op, seed, inputs, constants, outputs, needs)[i]
        if part is None:
            continue
        if part.shape != out.shape or part.dtype != out.dtype:
            return None  # summed by the rule itself: no diagonal any more
        total = part if total is None else total + part
    return [total]


def _by_transposing(
    op: Operator,
    inputs: list[Any],
    constants: tuple[Any, ...],
    outputs: list[Tensor],
    tangents: Tangents,
    live: list[bool],
) -> Tangents:
    """The rule as a linear function of its incoming gradient, transposed by differentiating it."""
    seeds = [
        zeros(out.shape, dtype=out.dtype, device=out.device, requires_grad=True) if flows else None
        for out, flows in zip(outputs, live)
    ]
    record = is_grad_enabled() and any(
        isinstance(t, Tensor) and t.requires_grad for t in (*inputs, *outputs, *tangents)
    )
    with enable_grad():
        first = seeds[0] if len(seeds) == 1 else tuple(seeds)
        needs = _needs(op, [t is not None for t in tangents])
        gradients = _run_rule(op, first, inputs, constants, outputs, needs)
        roots, given = [], []
        for gradient, tangent in zip(gradients, tangents):
            if gradient is None or tangent is None or not gradient.requires_grad:
                continue
            if tangent.shape != gradient.shape and op.schema.elementwise:
                tangent = roles.call("broadcast_to", tangent, gradient.shape)
            roots.append(gradient)
            given.append(tangent)
    if not roots:
        return [None] * len(outputs)
    wanted = [seed for seed in seeds if seed is not None]
    found = iter(engine.grad(roots, wanted, given, create_graph=record, allow_unused=True))
    return [None if seed is None else next(found) for seed in seeds]


# ---- running a rule ----------------------------------------------------------------------------


def _run_rule(
    op: Operator,
    grad: Any,
    inputs: list[Any],
    constants: tuple[Any, ...],
    outputs: list[Tensor],
    needs: Any,
) -> list[Tensor | None]:
    """The gradients that the rule gives, one per input."""
    assert op.rule is not None
    found = op.rule(*_arguments(op, op.rule_arguments, grad, inputs, constants, outputs, needs))
    if found is None or isinstance(found, Tensor):
        found = [found]
    if len(found) != len(inputs):
        raise RuntimeError(
            f"backward of {op.name} returned {len(found)} gradients, expected {len(inputs)}"
        )
    return list(found)


def _arguments(
    op: Operator,
    plan: tuple[tuple[str, int], ...],
    first: Any,
    inputs: list[Any],
    constants: tuple[Any, ...],
    outputs: list[Tensor],
    needs: Any,
) -> list[Any]:
    """The arguments of a rule; `like` shows the inputs themselves, which have shape, dtype and device."""
    grouped = _grouped(op, inputs)
    values: dict[str, Any] = {"input": grouped, "output": outputs, "constant": constants}
    arguments = []
    for what, index in plan:
        if what in values:
            arguments.append(values[what][index])
        elif what == "needs":
            arguments.append(needs)
        elif what == "like":
            arguments.append(named("Like", op.schema.inputs)._make(grouped))
        else:
            arguments.append(first)
    return arguments


def _grouped(op: Operator, flat: list[Any]) -> list[Any]:
    """One entry per input; those of a list input are a tuple."""
    if not op.schema.variadic:
        return flat
    fixed = len(op.schema.inputs) - 1
    return [*flat[:fixed], tuple(flat[fixed:])]


def _needs(op: Operator, flags: list[bool]) -> Any:
    return named("Needs", op.schema.inputs)._make(_grouped(op, flags))
