"""Hooks into graphs: on what is saved, on nodes, on several gradients at once; versions and edges.

Hooks for saved tensors hold on the thread that entered them; of nested ones the innermost is asked. While a pack
hook runs, nothing is recorded and no other hook is asked.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

from plugrad.autograd.saved import KeptTensor
from plugrad.graph import inplace
from plugrad.graph.custom import producer
from plugrad.graph.engine import current_run
from plugrad.graph.grad_mode import no_grad
from plugrad.graph.instruments import Packed, install
from plugrad.graph.node import Node
from plugrad.graph.tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


# ---- saved tensors -----------------------------------------------------------------------------


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[saved_tensors_hooks] = []
        self.packing = False
        self.forbidden: str | None = None


_local = _Local()
_lock = threading.Lock()
_entered = 0


def _pack(tensor: Tensor) -> Packed | None:
    """The instrument: asked for every tensor that is saved, on any thread, while some thread has hooks."""
    if not _local.stack or _local.packing:
        return None
    hooks = _local.stack[-1]
    if not hooks.computes:
        return Packed(hooks.pack_hook(tensor), hooks.unpack_hook)
    _local.packing = True
    try:
        with no_grad():
            return Packed(hooks.pack_hook(tensor), hooks.unpack_hook)
    finally:
        _local.packing = False


def _count(change: int) -> None:
    global _entered
    with _lock:
        _entered += change
        install("pack", _pack if _entered else None)


class saved_tensors_hooks:
    """Replace what is saved for backward: a context manager.

    Parameters
    ----------
    pack_hook : callable
        ``pack_hook(tensor) -> anything``, called when an operator or a Function saves a tensor, which it is given
        without its graph; a leaf that requires grad is shown as one. It must not change the tensor.
    unpack_hook : callable
        ``unpack_hook(what pack_hook returned) -> Tensor``, called when backward needs it, once per use. The tensor
        must have the values, shape and dtype of the one that was packed; its place in the graph is restored.

    Raises
    ------
    TypeError
        A hook is not callable; at backward: `unpack_hook` returned no Tensor.
    RuntimeError
        Entered where hooks are disabled; while saving: `pack_hook` changed its argument in-place; at backward:
        `unpack_hook` returned another shape or dtype.

    Notes
    -----
    What a hook keeps is its own affair: in-place changes of the tensor after it was packed are not noticed. A
    `pack_hook` that returns its argument and an in-place operation give a wrong gradient.

    Examples
    --------
    >>> import plugrad
    >>> x = plugrad.tensor([2.0, 3.0], requires_grad=True)
    >>> with plugrad.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().astype("f2"),
    ...                                                 lambda a: plugrad.tensor(a).float()):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([4., 6.])
    """

    # Whether the pack hook may call operators. Setting that up costs more than a hook that only takes notes.
    computes = True

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(f"{name} must be callable, got {type(hook).__name__}")
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> Self:
        if _local.forbidden is not None:
            raise RuntimeError(_local.forbidden)
        _local.stack.append(self)
        _count(+1)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _local.stack.pop()
        _count(-1)


class save_on_cpu(saved_tensors_hooks):
    """Keep what is saved in host memory and bring it back for backward: a context manager.

    Tensors that are in host memory stay as they are, and a later in-place change of one is an error as always.

    Parameters
    ----------
    pin_memory : bool, default False
        Accepted for compatibility; no device of this version has pinned memory.
    device_type : str, optional
        Accepted for compatibility; the device is that of each tensor.
    """

    def __init__(self, pin_memory: bool = False, device_type: str | None = None) -> None:
        super().__init__(_to_host, _from_host)


def _to_host(tensor: Tensor) -> tuple[str, Any]:
    if tensor.device == "cpu":
        return tensor.device, KeptTensor(tensor, hooks=False)
    return tensor.device, tensor.to("cpu", copy=True)


def _from_host(content: tuple[str, Any]) -> Tensor:
    device, kept = content
    return kept.get("an operator") if isinstance(kept, KeptTensor) else kept.to(device)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Any:
    """Within the block, entering `saved_tensors_hooks` on this thread raises a RuntimeError with this message.

    Raises
    ------
    RuntimeError
        Hooks are in use already.
    """
    if _local.stack:
        raise RuntimeError(error_message)
    before, _local.forbidden = _local.forbidden, error_message
    try:
        yield
    finally:
        _local.forbidden = before


# ---- several gradients -------------------------------------------------------------------------


class _Handles:
    """Takes several hooks out at once with ``remove()``. Also a context manager."""

    def __init__(self, handles: Iterable[Any]) -> None:
        self._handles = tuple(handles)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


class _Gathered:
    """What one backward pass has brought so far to a hook on several tensors."""

    def __init__(self, count: int, missing: int) -> None:
        self.grads: list[Tensor | None] = [None] * count
        self.missing = missing
        self.delivered = False


class _AllGradients:
    def __init__(
        self, tensors: Sequence[Tensor], hook: Callable[[list[Tensor | None]], Any]
    ) -> None:
        self.hook = hook
        # Weak: the node has this hook, and must not be kept alive by it.
        self.nodes = [weakref.ref(get_gradient_edge(tensor).node) for tensor in tensors]

    def arrived(self, index: int, grad: Tensor) -> None:
        run = current_run()
        assert run is not None
        state = run.notes.get(self)
        if state is None:
            nodes = [node() for node in self.nodes]
            reached = sum(node is not None and run.will_visit(node) for node in nodes)
            state = run.notes[self] = _Gathered(len(nodes), reached)
            # A gradient that does not come after all, since a rule returned None, is known at the end.
            run.when_done(lambda: self.deliver(state))
        state.grads[index] = grad
        state.missing -= 1
        if state.missing == 0:
            self.deliver(state)

    def deliver(self, state: _Gathered) -> None:
        if not state.delivered:
            state.delivered = True
            self.hook(state.grads)


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], Any], *, mode: str = "all"
) -> _Handles:
    """Call a function when the gradients of several tensors are known.

    Parameters
    ----------
    tensors : sequence of Tensor
        Tensors that require grad.
    fn : callable
        With mode "all": ``fn(grads)``, once per backward pass that reaches any of the tensors, as soon as all
        gradients that it gives are known; a list with None for the others. With mode "any": ``fn(grad)``, with
        the first one of a pass. What it returns is ignored.
    mode : {"all", "any"}

    Returns
    -------
    handle
        With ``remove()``.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"mode must be 'all' or 'any', got {mode!r}")
    if not callable(fn):
        raise TypeError(f"fn must be callable, got {type(fn).__name__}")
    tensors = tuple(tensors)
    if mode == "all":
        gathering = _AllGradients(tensors, fn)
        return _Handles(
            tensor.register_hook(partial(gathering.arrived, i)) for i, tensor in enumerate(tensors)
        )
    key = object()

    def first(grad: Tensor) -> None:
        run = current_run()
        assert run is not None
        if key not in run.notes:
            run.notes[key] = True
            fn(grad)

    return _Handles(tensor.register_hook(first) for tensor in tensors)


# ---- edges and versions ------------------------------------------------------------------------


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor goes: output `output_nr` of `node`."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor that requires grad; a leaf's node is the one that accumulates its gradient.

    Raises
    ------
    RuntimeError
        The tensor does not require grad.
    """
    found = producer(tensor)
    if found is None:
        raise RuntimeError(
            f"a tensor (shape {tensor.shape}) that does not require grad has no edge"
        )
    return GradientEdge(*found)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Say that the memory of a tensor (or of several) was written by means that plugrad does not see.

    Values saved from it are found changed at backward, as after an in-place operation.
    """
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        inplace.increment_version(each)
