"""``Function``: a private differentiable function, written as a forward and a backward on Tensors.

A Function is not an operator: it is in no registry, no rule may call it, and nothing has checked it.
``plugrad.contract.check`` does when asked.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from plugrad.backends.creation import zeros
from plugrad.graph.custom import CustomOp, alias, place
from plugrad.graph.grad_mode import is_grad_enabled, no_grad
from plugrad.graph.op import sealed
from plugrad.graph.tensor import Tensor


class FunctionContext:
    """What forward leaves for backward: the ``ctx`` of both.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        Per argument of ``apply``, whether it wants a gradient.
    saved_tensors : tuple of Tensor or None
        What ``save_for_backward`` was given.
    """

    def __init__(self, function: type[Function], needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._function = function
        self._to_save: tuple[Tensor | None, ...] = ()
        self._saved: list[_SavedTensor] = []
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

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        if self._freed:
            raise RuntimeError(
                f"backward went through {self._function.__name__} a second time, but the tensors it saved "
                "were already freed by the first; pass retain_graph=True to the first backward to keep them"
            )
        return tuple(saved.unpack(self) for saved in self._saved)

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


class _SavedTensor:
    """One saved tensor: an input as it is, an output without the graph (it would be a cycle)."""

    __slots__ = ("nr", "tensor", "version")

    def __init__(self, tensor: Tensor | None, nr: int | None) -> None:
        self.tensor = tensor if tensor is None or nr is None else alias(tensor)
        self.nr = nr
        self.version = 0 if tensor is None else tensor._version

    def unpack(self, ctx: FunctionContext) -> Tensor | None:
        tensor = self.tensor
        if tensor is None:
            return None
        if tensor._version != self.version:
            raise RuntimeError(
                f"a tensor that {ctx._function.__name__} saved for backward was changed by an in-place "
                f"operation: shape {list(tensor.shape)} is at version {tensor._version}, "
                f"expected {self.version}"
            )
        return tensor if self.nr is None else place(tensor, ctx._node(), self.nr)


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

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record the call.

        Raises
        ------
        TypeError
            forward returned something else than Tensors.
        """
        needs = tuple(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        ctx = FunctionContext(cls, needs)
        setup = getattr(cls, "setup_context", None)
        with no_grad():
            if setup is None:
                output = cls.forward(ctx, *args, **kwargs)
            else:
                output = cls.forward(*args, **kwargs)
                setup(ctx, args, output)
        single = not isinstance(output, (tuple, list))
        outputs = _checked_outputs(cls, [output] if single else list(output))
        if not (is_grad_enabled() and any(needs)):
            return output
        inputs_by_id = {id(arg) for arg in args if isinstance(arg, Tensor)}
        outs = [alias(t) if id(t) in inputs_by_id or t.requires_grad else t for t in outputs]
        saved = [
            _SavedTensor(t, _position(t, outputs) if t is not None and id(t) not in inputs_by_id else None)
            for t in ctx._to_save
        ]
        flat = [i for i, t in enumerate(outputs) if any(t is marked for marked in ctx._nondifferentiable)]
        node = _op_of(cls).record(list(args), outs, tuple(flat), ctx)
        ctx._metas = node.metadata
        ctx._node = weakref.ref(node)
        ctx._saved = saved
        ctx._to_save = ctx._nondifferentiable = ()
        return outs[0] if single else tuple(outs)


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
