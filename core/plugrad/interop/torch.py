"""PyTorch: plugrad operators as differentiable functions of PyTorch tensors.

(a) A call runs on plugrad Tensors that share memory with PyTorch's and records a plugrad graph; the backward of the
    PyTorch node goes back through that graph. Nothing is computed twice, so random operators are safe. The graph lives as
    long as the PyTorch node, for PyTorch does not say which backward is the last.
(b) While PyTorch records the backward (``create_graph=True``), the gradients are outputs of one more such node, whose
    graph is plugrad's recorded backward: derivatives of any order, by one rule.
(c) What the plugrad graph kept of a PyTorch tensor is also saved in PyTorch, which then notices in-place changes.
(d) A result that shares memory with an argument or another result (a view) is copied: PyTorch could not know.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from plugrad.autograd import grad
from plugrad.backends.dtypes import bfloat16, is_bfloat16
from plugrad.graph.custom import CustomOp
from plugrad.graph.grad_mode import enable_grad, no_grad
from plugrad.graph.tensor import Tensor

try:
    import torch
except ImportError as error:
    raise ImportError(
        "plugrad.interop.torch needs PyTorch, which is not installed (pip install torch)"
    ) from error

__all__ = ["function"]


def function(op: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """Make a plugrad operator callable on PyTorch tensors, as one node of PyTorch's graph.

    Parameters
    ----------
    op : callable
        An operator, a composite, or any function that takes and returns plugrad Tensors.
    name : str, optional
        What PyTorch calls the node; by default the name of `op`.

    Returns
    -------
    callable
        Takes what `op` takes, with PyTorch tensors (alone or in lists, tuples and dictionaries) for Tensors; everything
        else is passed through, a ``torch.dtype`` as the NumPy dtype. Returns PyTorch tensors that share memory
        with plugrad's results. Gradients of any order flow back to arguments that require them.

    Raises
    ------
    TypeError
        From the call: a tensor is not dense, not on the CPU, or of a dtype that NumPy lacks; or `op` returned
        something else than Tensors.
    ModuleNotFoundError
        From the call: a tensor is bfloat16, and the package ml_dtypes is not installed.
    RuntimeError
        From the call: `op` changed an argument in place.

    Examples
    --------
    >>> import plugrad, torch
    >>> silu = plugrad.interop.torch.function(plugrad.ops.silu)
    >>> x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    >>> silu(x).sum().backward()
    >>> x.grad
    tensor([0.5000, 0.5000, 0.5000], dtype=torch.float64)
    """
    if not callable(op):
        raise TypeError(
            f"function() takes an operator or another callable, got {type(op).__name__}"
        )
    label = name or str(getattr(op, "name", None) or getattr(op, "__name__", type(op).__name__))
    node_type: Any = type(label.replace("::", "_"), (_Node,), {})

    def call(*args: Any, **kwargs: Any) -> Any:
        tensors: list[torch.Tensor] = []
        layout = _taken_apart((args, kwargs), tensors)
        for tensor in tensors:
            _check(tensor, label)
        single = False

        def compute(inputs: list[Tensor]) -> list[Tensor]:
            nonlocal single
            rebuilt_args, rebuilt_kwargs = _put_together(layout, iter(inputs))
            result = op(*rebuilt_args, **rebuilt_kwargs)
            single = isinstance(result, Tensor)
            outs = [result] if single else list(result) if isinstance(result, (tuple, list)) else []
            if not outs or not all(isinstance(out, Tensor) for out in outs):
                raise TypeError(
                    f"{label} must return a Tensor or a tuple of them, got {type(result).__name__}"
                )
            return outs

        results = node_type.apply(_Computation(label, compute), *tensors)
        return results[0] if single else results

    functools.update_wrapper(call, op, updated=())
    call.__name__ = call.__qualname__ = label.rpartition("::")[2]
    return call


# ---- the node in PyTorch's graph -----------------------------------------------------------------


class _Computation:
    """What one node computes from its inputs: plugrad Tensors in, plugrad Tensors out."""

    def __init__(self, label: str, compute: Callable[[list[Tensor]], list[Tensor]]) -> None:
        self.label = label
        self.compute = compute
        self.record = bool(torch.is_grad_enabled())

    def inputs(self, tensors: Sequence[torch.Tensor], wanted: Sequence[bool]) -> list[Tensor]:
        """Plugrad's view of the node's inputs."""
        return [Tensor(_array(tensor), requires_grad=want) for tensor, want in zip(tensors, wanted)]


class _Vjp(_Computation):
    """The gradients of an earlier node: a computation on the inputs of that node and on incoming gradients.

    The inputs are in the recorded graph already; only the gradients are new.
    """

    def __init__(self, label: str, graph: _Graph, present: list[bool], wanted: list[bool]) -> None:
        super().__init__(label, self._gradients)
        self._graph = graph
        self._present = present
        self._wanted = wanted

    def inputs(self, tensors: Sequence[torch.Tensor], wanted: Sequence[bool]) -> list[Tensor]:
        known = self._graph.inputs
        fresh = super().inputs(tensors[len(known) :], wanted[len(known) :])
        return [*known, *fresh]

    def _gradients(self, inputs: list[Tensor]) -> list[Tensor]:
        arrived = iter(inputs[len(self._graph.inputs) :])
        seeds = [next(arrived) if there else None for there in self._present]
        found = self._graph.gradients(seeds, self._wanted, create_graph=True)
        return [g for g in found if g is not None]


class _Graph:
    """A recorded plugrad computation."""

    def __init__(self, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        self.inputs = inputs
        self.outputs = outputs

    def gradients(
        self, seeds: Sequence[Tensor | None], wanted: Sequence[bool], create_graph: bool
    ) -> list[Tensor | None]:
        """One gradient per input; None where it is not wanted. Zero where nothing depends on it."""
        pairs = [
            (out, seed)
            for out, seed in zip(self.outputs, seeds)
            if seed is not None and out.requires_grad
        ]
        targets = [x for x, want in zip(self.inputs, wanted) if want]
        if not pairs or not targets:
            return [None] * len(self.inputs)
        outputs, given = zip(*pairs)
        found = iter(
            grad(
                outputs,
                targets,
                given,
                retain_graph=True,
                create_graph=create_graph,
                materialize_grads=True,
            )
        )
        return [next(found) if want else None for want in wanted]


class _Node(torch.autograd.Function):
    """One plugrad computation; each wrapped operator has a subclass, so that PyTorch shows its name."""

    @staticmethod
    def forward(ctx: Any, computation: _Computation, *tensors: torch.Tensor) -> Any:
        # The first flag belongs to `computation`. The others do not know of torch.no_grad().
        wanted = [need and computation.record for need in ctx.needs_input_grad[1:]]
        record = any(wanted)
        inputs = computation.inputs(tensors, wanted)
        versions = [x._version for x in inputs]
        with enable_grad() if record else no_grad():
            outputs = computation.compute(inputs)
        if [x._version for x in inputs] != versions:
            raise RuntimeError(
                f"{computation.label} changed an argument in place, which PyTorch would not notice; wrap a function "
                "that does not"
            )
        results = _results(outputs, inputs)
        ctx.set_materialize_grads(False)
        if record:
            ctx.computation, ctx.graph = computation, _Graph(inputs, outputs)
            ctx.mark_non_differentiable(
                *(r for r, out in zip(results, outputs) if not out.requires_grad)
            )
            held = _saved_arrays(outputs)
            # Held is what backward reads; None: the graph keeps nothing that depends on a value.
            ctx.linear = held is not None and not held
            ctx.save_for_backward(
                *(() if ctx.linear else tensors),
                *(r for r in results if held is None or _shares(_array(r), held)),
            )
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        saved = ctx.saved_tensors  # raises if one was changed in place, or freed
        label, graph = ctx.computation.label, ctx.graph
        wanted = list(ctx.needs_input_grad[1:])
        present = [g is not None for g in grads]
        arrived = [g for g in grads if g is not None]
        if not arrived:
            return (None,) * (1 + len(wanted))
        for g in arrived:
            _check(g, label)
        if torch.is_grad_enabled():
            inputs = [_placeholder(x) for x in graph.inputs] if ctx.linear else saved[: len(wanted)]
            vjp = _Vjp(label, graph, present, wanted)
            found = iter(type(ctx)._forward_cls.apply(vjp, *inputs, *arrived))
            return None, *(next(found) if want else None for want in wanted)
        seeds_iter = iter(arrived)
        seeds = [Tensor(_array(next(seeds_iter))) if there else None for there in present]
        gradients = graph.gradients(seeds, wanted, create_graph=False)
        results = iter(_results([g for g in gradients if g is not None], []))
        return None, *(next(results) if g is not None else None for g in gradients)


# ---- tensors -------------------------------------------------------------------------------------


def _check(tensor: torch.Tensor, label: str) -> None:
    if tensor.layout is not torch.strided:
        raise TypeError(f"{label}: plugrad works on dense tensors, got layout {tensor.layout}")
    if tensor.device.type != "cpu":
        raise TypeError(
            f"{label}: plugrad.interop.torch works on CPU tensors, got one on {tensor.device}; use .cpu()"
        )
    if _dtype(tensor.dtype) is None:
        raise TypeError(f"{label}: NumPy has no dtype for {tensor.dtype}; convert the tensor first")


def _array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's memory as an array; lazy conjugates and negatives are carried out."""
    if tensor.dtype == torch.bfloat16:  # which PyTorch does not hand to NumPy
        return tensor.detach().view(torch.int16).numpy().view(bfloat16())
    found: np.ndarray = tensor.detach().resolve_conj().resolve_neg().numpy()
    return found


def _tensor(array: np.ndarray) -> torch.Tensor:
    """A PyTorch tensor on the memory of an array."""
    if is_bfloat16(array.dtype):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _results(outputs: Iterable[Tensor], inputs: Iterable[Tensor]) -> list[torch.Tensor]:
    """PyTorch tensors on the arrays of `outputs`, copied where PyTorch could not know who shares them."""
    taken = [x.array for x in inputs]
    results = []
    for out in outputs:
        array = out.array
        if not array.flags.writeable or min(array.strides, default=0) < 0 or _shares(array, taken):
            array = array.copy()
        taken.append(array)
        results.append(_tensor(array))
    return results


def _shares(array: np.ndarray, others: Iterable[np.ndarray]) -> bool:
    return any(np.may_share_memory(array, other) for other in others)


def _placeholder(x: Tensor) -> torch.Tensor:
    """Stands for an input on whose value no gradient depends."""
    return torch.empty(()).expand(x.shape)


def _saved_arrays(outputs: Iterable[Tensor]) -> list[np.ndarray] | None:
    """The arrays that the graph behind `outputs` holds for backward; None if that cannot be seen."""
    found: list[np.ndarray] = []
    seen: set[int] = set()
    stack = [out.grad_fn for out in outputs]
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen or hasattr(node, "variable"):
            continue
        seen.add(id(node))
        if isinstance(node.op, CustomOp):
            return None
        found += [value for value in node.saved if isinstance(value, np.ndarray)]
        stack += [edge for edge, _ in node.next_functions]
    return found


_DTYPES = {
    torch.from_numpy(np.empty(0, name)).dtype: np.dtype(name)
    for name in (
        *("float16", "float32", "float64", "complex64", "complex128"),
        *("int8", "int16", "int32", "int64", "uint8", "bool"),
    )
}


def _dtype(theirs: torch.dtype) -> np.dtype | None:
    """The NumPy dtype; None where there is none."""
    return bfloat16() if theirs == torch.bfloat16 else _DTYPES.get(theirs)


# ---- arguments -----------------------------------------------------------------------------------


class _Slot:
    """Where a tensor was among the arguments."""


_SLOT = _Slot()


def _taken_apart(value: Any, tensors: list[torch.Tensor]) -> Any:
    """The value with slots for its tensors, which are appended to `tensors` in order."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _SLOT
    if isinstance(value, torch.dtype):
        dtype = _dtype(value)
        if dtype is None:
            raise TypeError(f"NumPy has no dtype for {value}")
        return dtype
    if type(value) in (list, tuple, torch.Size):
        kind = list if type(value) is list else tuple
        return kind(_taken_apart(item, tensors) for item in value)
    if type(value) is dict:
        return {key: _taken_apart(item, tensors) for key, item in value.items()}
    return value


def _put_together(value: Any, tensors: Any) -> Any:
    if value is _SLOT:
        return next(tensors)
    if type(value) in (list, tuple):
        return type(value)(_put_together(item, tensors) for item in value)
    if type(value) is dict:
        return {key: _put_together(item, tensors) for key, item in value.items()}
    return value
