"""Forward mode through a `Function`: by its ``jvp``, or by transposing its ``backward``.

What forward does inside has no tangents, as it has no graph: the Function stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plugrad.autograd.function import Function, FunctionContext
from plugrad.autograd.intermediates import tensors_in
from plugrad.autograd.jacobians import bare, fresh
from plugrad.backends.creation import zeros
from plugrad.graph import duals, engine
from plugrad.graph.grad_mode import enable_grad, is_grad_enabled
from plugrad.graph.instruments import Tangents
from plugrad.graph.tensor import Tensor


def apply(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``cls.apply(*args, **kwargs)`` where an argument may have tangents.

    Raises
    ------
    TypeError
        A dual tensor was given where its tangent would be lost: inside a list, or by name.
    RuntimeError
        The backward is once_differentiable and there is no jvp, or a tangent does not fit its output.
    """
    levels = duals.levels_of(args)
    if duals.levels_of(
        t for arg in (*args, kwargs) if not isinstance(arg, Tensor) for t in tensors_in(arg)
    ):
        raise TypeError(
            f"{cls.__name__}.apply(): a tensor with a tangent was given inside a list or by name, where the tangent "
            "would be lost; pass it by position"
        )
    if not levels:
        with duals.below(None):
            return cls._call(args, kwargs)[1]
    own = cls.jvp is not Function.jvp
    if not own and getattr(cls.backward, "once_differentiable", False):
        raise RuntimeError(
            f"forward mode: the backward of {cls.__name__} is once_differentiable, so tangents cannot be derived from "
            "it; define a static method jvp(ctx, *tangents)"
        )
    recording = is_grad_enabled()
    given = {level: [duals.tangent_of(arg, level) for arg in args] for level in levels}
    with duals.below(None):
        if own:
            ctx, output = cls._call(args, kwargs)
        else:
            # Backward is what gives the tangents, so the call is recorded for every dual argument.
            dual = [any(row[i] is not None for row in given.values()) for i in range(len(args))]
            used = tuple(
                fresh(a, recording) if d and not (recording and a.requires_grad) else a
                for a, d in zip(args, dual)
            )
            with enable_grad():
                ctx, output = cls._call(used, kwargs)
    single = isinstance(output, Tensor)
    outs = [output] if single else list(output)
    inner = outs
    if not own and not (recording and any(isinstance(a, Tensor) and a.requires_grad for a in args)):
        outs = [bare(out) if out.requires_grad else out for out in outs]
    _push(cls, ctx, outs, inner, args, given, own)
    return outs[0] if single else tuple(outs)


def _push(
    cls: type[Function],
    ctx: FunctionContext,
    outs: list[Tensor],
    inner: list[Tensor],
    args: tuple[Any, ...],
    given: dict[duals.Level, list[Tensor | None]],
    own: bool,
) -> None:
    """Give the outputs their tangents, outermost level first; `inner` are the outputs as they were recorded."""
    written = [any(out is arg for arg in args) for out in outs]
    for out, again in zip(outs, written):
        if again:
            out._tangent = Tangents()
    for level, tangents in given.items():
        with duals.below(level):
            found = (
                _by_jvp(cls, ctx, outs, tangents)
                if own
                else _by_backward(ctx, args, inner, tangents)
            )
        for i, (out, tangent) in enumerate(zip(outs, found)):
            if tangent is None:
                continue
            if tangent.shape != out.shape or tangent.dtype != out.dtype:
                raise RuntimeError(
                    f"jvp of {cls.__name__} returned a tangent of shape {tangent.shape} and dtype {tangent.dtype} "
                    f"for output {i}, which has shape {out.shape} and dtype {out.dtype}"
                )
            duals.attach(out, level, tangent)
    for out, again in zip(outs, written):
        if again:
            duals.written(out)


def _by_jvp(
    cls: type[Function], ctx: FunctionContext, outs: list[Tensor], tangents: list[Tensor | None]
) -> Sequence[Tensor | None]:
    """What the Function's own jvp gives."""
    ctx._forward_mode = True
    try:
        found = cls.jvp(ctx, *tangents)
    finally:
        ctx._forward_mode = False
    found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    if len(found) != len(outs):
        raise RuntimeError(
            f"jvp of {cls.__name__} must return {len(outs)} tangents, one per output, got {len(found)}"
        )
    for item in found:
        if item is not None and not isinstance(item, Tensor):
            raise TypeError(
                f"jvp of {cls.__name__} must return Tensors or None, got {type(item).__name__}"
            )
    return found


def _by_backward(
    ctx: FunctionContext,
    args: tuple[Any, ...],
    outs: list[Tensor],
    tangents: list[Tensor | None],
) -> list[Tensor | None]:
    """Backward is linear in the incoming gradients: differentiated by them it gives the Jacobian."""
    record = is_grad_enabled() and any(
        isinstance(t, Tensor) and t.requires_grad for t in (*args, *tangents)
    )
    with enable_grad():
        seeds = [
            zeros(out.shape, dtype=out.dtype, device=out.device, requires_grad=True)
            if out.requires_grad
            else None
            for out in outs
        ]
        # Copies, since backward may write into what it gets.
        found = ctx.run(tuple(ctx.complete([s if s is None else s * 1 for s in seeds])))
        found = [found] if found is None or isinstance(found, Tensor) else list(found)
        pairs = [
            (gradient, tangent)
            for gradient, tangent in zip(found, tangents)
            if tangent is not None and gradient is not None and gradient.requires_grad
        ]
    live = [seed for seed in seeds if seed is not None]
    if not pairs or not live:
        return [None] * len(outs)
    given = iter(
        engine.grad(
            [gradient for gradient, _ in pairs],
            live,
            [tangent for _, tangent in pairs],
            create_graph=record,
            allow_unused=True,
        )
    )
    return [None if seed is None else next(given) for seed in seeds]
