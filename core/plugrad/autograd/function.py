"""``Function``: a private differentiable function, written as a forward and a backward on Tensors.

A Function is not an operator: it is in no registry, no rule may call it, and nothing has checked it.
``plugrad.contract.check`` does when asked.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from plugrad.autograd.binding import bound, check_dirty, check_reachable
from plugrad.autograd.intermediates import Intermediates, barrier, is_intermediate, tensors_in
from plugrad.autograd.saved import SavedTensor, refuse_tangents
from plugrad.backends.creation import zeros
from plugrad.graph.custom import CustomOp, alias, rewritten, writable
from plugrad.graph.grad_mode import enable_grad, is_grad_enabled, no_grad
from plugrad.graph.instruments import dual
from plugrad.graph.rule import sealed
from plugrad.graph.tensor import Tensor


class FunctionContext:
    """What forward leaves for backward: the ``ctx`` of both.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        Per argument of ``apply``, whether it wants a gradient.
    saved_tensors : tuple of Tensor or None
        What ``save_for_backward`` was given.

    Notes
    -----
    Any other attribute may be set by forward and read by backward. Tensors kept that way or saved should be arguments
    or outputs: how anything else depends on the arguments is not known when backward is differentiated, which is
    then an error (see `mark_constant`).
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_constants",
        "_dirty",
        "_forward_mode",
        "_freed",
        "_function",
        "_intermediate_slots",
        "_intermediates",
        "_materialize",
        "_metas",
        "_node",
        "_nondifferentiable",
        "_recorded",
        "_saved",
        "_to_forward",
        "_to_save",
        "needs_input_grad",
    )

    def __init__(
        self, function: type[Function], needs_input_grad: tuple[bool, ...], recorded: bool
    ) -> None:
        self._intermediates = Intermediates({}, set())
        self._intermediate_slots: frozenset[int] = frozenset()
        self._constants: tuple[Tensor, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._to_forward: tuple[Tensor | None, ...] = ()
        self._forward_mode = False
        self._recorded = recorded
        self.needs_input_grad = needs_input_grad
        self._function = function
        self._to_save: tuple[Tensor | None, ...] = ()
        self._saved: list[SavedTensor] = []
        self._nondifferentiable: tuple[Tensor, ...] = ()
        self._materialize = True
        self._freed = False
        self._metas: tuple[Any, ...] = ()
        self._node: Callable[[], Any] = lambda: None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward; a later in-place change of one is an error there."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"{self._function.__name__}: save_for_backward() takes Tensors and None, "
                    f"got {type(tensor).__name__}; keep other values as attributes of ctx"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``, which sees them in ``saved_tensors``."""
        self._to_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        if self._forward_mode:
            return self._to_forward
        found = self._saved  # read before the flag, which another thread sets first
        if self._freed:
            raise RuntimeError(
                f"backward went through {self._function.__name__} a second time, but the tensors it saved "
                "were already freed by the first; pass retain_graph=True to the first backward to keep them"
            )
        name, node = self._function.__name__, self._node()
        tensors = [saved.get(name, node) for saved in found]
        if self._intermediate_slots and is_grad_enabled():
            for i in self._intermediate_slots:
                tensor = tensors[i]
                assert tensor is not None
                tensors[i] = barrier(tensor, node, name, f"saved_tensors[{i}]")
        return tuple(tensors)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say that forward changes these arguments in place; each must be one of its outputs, too.

        Raises
        ------
        RuntimeError
            One of them must not be written: a leaf that requires grad, or a view that cannot follow the change.
        """
        name = self._function.__name__
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{name}: mark_dirty() takes Tensors, got {type(tensor).__name__}")
            if self._recorded:
                with enable_grad():
                    writable(name, tensor)
        self._dirty = tensors

    def mark_constant(self, *tensors: Tensor) -> None:
        """Say that these tensors, which are kept for backward, depend on no argument.

        What forward computed on the way and kept is neither an argument nor an output. Differentiating a backward
        that uses it is an error, because its part of the derivative would be missing; for a tensor marked here
        that part is zero.
        """
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"{self._function.__name__}: mark_constant() takes Tensors, got {type(tensor).__name__}"
                )
        self._constants += tensors

    def __getattr__(self, name: str) -> Any:
        if name == "_intermediates" or name not in self._intermediates:
            raise AttributeError(
                f"the ctx of {self._function.__name__} has no attribute {name!r}; forward did not set it"
            )
        if is_grad_enabled():
            return self._intermediates.shown(name, self._node(), self._function.__name__)
        return self._intermediates.get(name)

    def __delattr__(self, name: str) -> None:
        if name in self._intermediates:
            self._intermediates.remove(name)
        else:
            object.__delattr__(self, name)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that these outputs have no gradient."""
        self._nondifferentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for outputs nothing was computed from."""
        self._materialize = bool(value)

    # ---- called by the engine, through CustomOp ----

    def run(self, grads: tuple[Any, ...]) -> Any:
        backward = self._function.backward
        recording = is_grad_enabled()
        if dual() is not None and getattr(backward, "once_differentiable", False):
            refuse_tangents(self._function.__name__, grads, self._saved)
        if recording and getattr(backward, "once_differentiable", False):
            with no_grad():
                result = backward(self, *grads)
            result = sealed(self._function.__name__, self._node(), result)
        else:
            result = backward(self, *grads)
        return _trim(self, result)

    def complete(self, pending: list[Any]) -> list[Any]:
        if self._materialize:
            for i, grad in enumerate(pending):
                if grad is None:
                    meta = self._metas[i]
                    pending[i] = zeros(meta.shape, dtype=meta.dtype, device=meta.device)
        return pending

    def free(self) -> None:
        self._freed = True
        self._saved = []


def _trim(ctx: FunctionContext, result: Any) -> Any:
    """Drop surplus trailing Nones, which backward may return."""
    if isinstance(result, (tuple, list)):
        result = list(result)
        while len(result) > len(ctx.needs_input_grad) and result[-1] is None:
            result.pop()
    return result


class Function:
    """A differentiable function of your own: subclass it and call ``apply``.

    ``forward(ctx, *args)`` computes Tensors from Tensors and runs outside the graph;
    ``backward(ctx, *grads)`` gets one gradient per output and returns one per argument of ``apply`` (None
    where there is none). With ``setup_context(ctx, inputs, output)`` defined, forward takes no ctx.

    A gradient that backward gets is its own to write into. Arguments may be given by name; keyword-only ones have
    no gradient, and reach a ``setup_context`` that has a parameter ``keyword_only_inputs``.

    Examples
    --------
    >>> import plugrad
    >>> class Cube(plugrad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x * x * grad
    >>> x = plugrad.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a Function defines the static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError("a Function defines the static method backward(ctx, *grads)")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Take tangents forward: one per argument of ``apply`` (or None) to one per output.

        Need not be defined: tangents then follow from ``backward``.
        """
        raise NotImplementedError("this Function defines no static method jvp(ctx, *tangents)")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record the call.

        Raises
        ------
        TypeError
            forward returned something else than Tensors, or a tensor that requires grad was given where
            its gradient would be lost: inside a list, or as a keyword-only argument.
        RuntimeError
            A tensor marked dirty is no argument, or not among the outputs.
        """
        if dual() is not None:
            from plugrad.autograd.forward_function import apply  # only forward mode needs it

            return apply(cls, args, kwargs)
        return cls._call(args, kwargs)[1]

    @classmethod
    def _call(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[FunctionContext, Any]:
        """The context of one call, and what ``apply`` returns."""
        setup = getattr(cls, "setup_context", None)
        if kwargs:
            args, kwargs = bound(cls, setup is None, args, kwargs)
        needs = tuple(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        recorded = is_grad_enabled() and any(needs)
        ctx = FunctionContext(cls, needs, recorded)
        if is_grad_enabled():
            check_reachable(cls.__name__, args, kwargs)
        with no_grad():
            if setup is None:
                output = cls.forward(ctx, *args, **kwargs)
            else:
                output = cls.forward(*args, **kwargs)
                if kwargs and "keyword_only_inputs" in inspect.signature(setup).parameters:
                    setup(ctx, inputs=args, keyword_only_inputs=kwargs, output=output)
                else:
                    setup(ctx, args, output)
        single = not isinstance(output, (tuple, list))
        outputs = _checked_outputs(cls, [output] if single else list(output))
        inputs = {id(arg) for arg in tensors_in(args)} | {id(arg) for arg in tensors_in(kwargs)}
        check_dirty(cls.__name__, ctx._dirty, inputs, outputs)
        if not recorded:
            for tensor in ctx._dirty:
                rewritten(tensor, None, 0)
            return ctx, output
        outs = _record(ctx, args, inputs, outputs)
        return ctx, outs[0] if single else tuple(outs)


def _record(
    ctx: FunctionContext, args: tuple[Any, ...], inputs: set[int], outputs: list[Tensor]
) -> list[Tensor]:
    """Record a call whose forward has run, keep what it saved, and return the outputs in their place."""
    inputs = inputs - {id(tensor) for tensor in ctx._dirty}
    dirty = [any(t is marked for marked in ctx._dirty) for t in outputs]
    apart = inputs | {id(t) for t in ctx._dirty}
    outs = [
        alias(t) if id(t) in apart or t.requires_grad or _position(t, outputs) != i else t
        for i, t in enumerate(outputs)
    ]
    flat = [
        i for i, t in enumerate(outputs) if any(t is marked for marked in ctx._nondifferentiable)
    ]
    node = _op_of(ctx._function).record(list(args), outs, tuple(flat), ctx)
    for i, t in enumerate(outputs):
        if dirty[i]:
            rewritten(t, node if outs[i].requires_grad else None, i)
            outs[i] = t
    ctx._metas = node.metadata
    ctx._node = weakref.ref(node)
    ctx._saved = [
        SavedTensor(t, _position(t, outputs) if t is not None and id(t) not in inputs else None)
        for t in ctx._to_save
    ]
    known = inputs | {id(t) for t in (*outputs, *outs, *ctx._constants)}
    ctx._intermediate_slots = frozenset(
        i for i, t in enumerate(ctx._to_save) if t is not None and is_intermediate(t, known)
    )
    ctx._intermediates = Intermediates(ctx.__dict__, known)
    ctx._to_save = ctx._nondifferentiable = ctx._constants = ctx._dirty = ()
    return outs


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Declare that a Function's backward cannot be differentiated: doing so raises, always."""

    @functools.wraps(backward)
    def wrapper(*args: Any) -> Any:
        return backward(*args)

    wrapper.once_differentiable = True  # type: ignore[attr-defined]
    return wrapper


def _op_of(cls: type[Function]) -> CustomOp:
    op = cls.__dict__.get("_op")
    if op is None:
        op = CustomOp(cls.__name__)
        cls._op = op  # type: ignore[attr-defined]
    return op


def _position(tensor: Tensor, outputs: Iterable[Tensor]) -> int | None:
    return next((i for i, output in enumerate(outputs) if output is tensor), None)


def _checked_outputs(cls: type[Function], outputs: list[Any]) -> list[Tensor]:
    for output in outputs:
        if not isinstance(output, Tensor):
            raise TypeError(
                f"{cls.__name__}.forward must return a Tensor or a tuple of Tensors, "
                f"got {type(output).__name__}"
            )
    return outputs
