"""What the checks need of a tensor library: plugrad's graph, and PyTorch's for ``torch.autograd.Function`` classes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["Library", "PlugradLibrary", "TorchLibrary"]

Array = np.ndarray


class Library(Protocol):
    """What the checks need of a tensor library."""

    name: str

    def tensor(self, array: Array, requires_grad: bool = False) -> Any: ...

    def array(self, tensor: Any) -> Array: ...

    def is_tensor(self, value: Any) -> bool: ...

    def recording(self, on: bool) -> contextlib.AbstractContextManager[Any]: ...

    def operators_callable(self) -> contextlib.AbstractContextManager[Any]: ...

    def copy(self, tensor: Any) -> Any: ...

    def raw(self, tensor: Any) -> Any: ...

    def host(self, value: Any) -> Any: ...

    def is_array(self, value: Any) -> bool: ...

    def share_memory(self, a: Any, b: Any) -> bool: ...

    def dirty(self, arrays: Sequence[Array]) -> None: ...

    def orders(self) -> Iterator[tuple[str, contextlib.AbstractContextManager[Any]]]: ...

    def settle(self) -> None: ...

    def recover(self) -> None: ...

    def grad(
        self,
        outputs: list[Any],
        inputs: list[Any],
        seeds: list[Any],
        create_graph: bool,
        keep: bool,
    ) -> Sequence[Any]: ...


class HostLibrary:
    """What libraries of tensors in host memory have in common; one for another device overrides it."""

    def host(self, value: Any) -> Any:
        """An array of this library as a NumPy array; anything else as it is."""
        return value

    def is_array(self, value: Any) -> bool:
        """Whether a value is an array as tensors and nodes hold it."""
        return isinstance(value, np.ndarray)

    def dirty(self, arrays: Sequence[Array]) -> None:
        """Leave rubbish where arrays of these sizes will be allocated next; NumPy's memory needs none."""

    def orders(self) -> Iterator[tuple[str, contextlib.AbstractContextManager[Any]]]:
        """Ways to run the same call once more that must not matter, beside running it again."""
        yield from ()

    def settle(self) -> None:
        """Wait for what was queued before the battery: it is no business of the operator's if that fails."""

    def recover(self) -> None:
        """Let the device, which a faulty kernel may have stopped, work again where that is possible."""


class PlugradLibrary(HostLibrary):
    """Tensors of plugrad's own graph."""

    name = "plugrad"
    device = "cpu"

    def __init__(self) -> None:
        from plugrad.graph import engine, grad_mode, roles
        from plugrad.graph.tensor import Tensor

        self._tensor = Tensor
        self._engine = engine
        self._grad_mode = grad_mode
        self._roles = roles

    def tensor(self, array: Array, requires_grad: bool = False) -> Any:
        # Arithmetic on 0-d arrays gives NumPy scalars, which are no arrays.
        return self._tensor(np.asarray(array), requires_grad)

    def array(self, tensor: Any) -> Array:
        return tensor.array

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._tensor)

    def recording(self, on: bool) -> contextlib.AbstractContextManager[Any]:
        return self._grad_mode.enable_grad() if on else self._grad_mode.no_grad()

    def operators_callable(self) -> contextlib.AbstractContextManager[Any]:
        """Operators met for the first time run now and are verified at the end of the block."""
        from plugrad import registry

        return registry.group()

    def copy(self, tensor: Any) -> Any:
        return self._roles.call("copy", tensor)

    def raw(self, tensor: Any) -> Any:
        """The array that a tensor holds."""
        return tensor.array

    def share_memory(self, a: Any, b: Any) -> bool:
        """Whether two tensors may see the same bytes."""
        return bool(np.shares_memory(a.array, b.array))

    def grad(
        self,
        outputs: list[Any],
        inputs: list[Any],
        seeds: list[Any],
        create_graph: bool,
        keep: bool,
    ) -> Sequence[Any]:
        return self._engine.grad(
            outputs, inputs, seeds, retain_graph=keep, create_graph=create_graph, allow_unused=True
        )


class TorchLibrary(HostLibrary):
    """Tensors of PyTorch, for checking a ``torch.autograd.Function``."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self._torch = torch

    def tensor(self, array: Array, requires_grad: bool = False) -> Any:
        if any(stride < 0 for stride in array.strides):
            array = array.copy()  # PyTorch has no negative strides
        return self._torch.from_numpy(np.asarray(array)).requires_grad_(requires_grad)

    def array(self, tensor: Any) -> Array:
        return tensor.detach().numpy()

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor)

    def recording(self, on: bool) -> contextlib.AbstractContextManager[Any]:
        return self._torch.set_grad_enabled(on)

    def operators_callable(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def copy(self, tensor: Any) -> Any:
        return tensor.clone()

    def raw(self, tensor: Any) -> Any:
        return self.array(tensor)

    def share_memory(self, a: Any, b: Any) -> bool:
        return bool(np.shares_memory(self.array(a), self.array(b)))

    def grad(
        self,
        outputs: list[Any],
        inputs: list[Any],
        seeds: list[Any],
        create_graph: bool,
        keep: bool,
    ) -> Sequence[Any]:
        return self._torch.autograd.grad(
            outputs, inputs, seeds, retain_graph=keep, create_graph=create_graph, allow_unused=True
        )
