"""An operator's kernels for devices other than the CPU: which there are, and when they serve calls.

A kernel is made when a tensor of its device first meets the operator, and is entered into the graph's table only when
the battery has passed with it there. A call that finds none in the table asks `find_kernel`, so nothing goes around
the check and the CPU's calls do not see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from plugrad.graph.backend import backend_named
from plugrad.graph.op import READY, Kernel, Op
from plugrad.registry.declared import Declared

if TYPE_CHECKING:
    from plugrad.registry.cuda import Origin
    from plugrad.registry.schema import Schema

__all__ = ["OnDevice"]


class OnDevice(Declared, Op):
    """The part of `Operator` that is about devices.

    Attributes
    ----------
    cuda : object
        As declared: an expression, the name of a kernel, a callable, `via_host`, or None.
    cuda_backward : object
        As declared with ``backward_kernel(cuda=…)``.
    origin : Origin or None
        Where it was declared.
    """

    schema: Schema
    rule: Callable[..., Any] | None = None
    expression: str | None = None
    cuda: Any = None
    cuda_backward: Any = None
    origin: Origin | None = None

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._offered: dict[str, Callable[..., Any]] = {}
        self._made: dict[str, Kernel] = {}

    def kernel_on(self, device: str) -> Kernel:
        """The kernel that is to serve a device, verified or not; made when it is first asked for.

        Raises
        ------
        NotImplementedError
            There is none; the message says how to give one.
        """
        made = self._made.get(device)
        if made is None:
            function = self._offered.get(device) or self._own(device)
            if function is None:
                raise NotImplementedError(missing(self, device))
            kernel = (
                function if isinstance(function, Kernel) else backend_named(device).kernel(function)
            )
            made = self._made[device] = kernel
        return made

    def _own(self, device: str) -> Callable[..., Any] | None:
        if device != "cuda":
            return None
        from plugrad.registry.cuda import kernel_for

        return kernel_for(self)

    @property
    def cuda_kind(self) -> str:
        """How its declaration serves CUDA: "expression", "kernel", "composition", "view", "via host", or ""."""
        from plugrad.registry.cuda import kernel_kind

        return kernel_kind(self)

    @property
    def offered_devices(self) -> tuple[str, ...]:
        """The devices for which another plugin's kernel is in place."""
        return tuple(self._offered)

    def has_own(self, device: str) -> bool:
        """Whether the declaration itself gives a kernel for a device."""
        return device == "cpu" or (device == "cuda" and self.cuda_kind != "")

    def offer(self, device: str, function: Callable[..., Any] | None) -> None:
        """Have another plugin's kernel tried on a device in place of the operator's own; None: its own again."""
        self._made.pop(device, None)
        if function is None:
            self._offered.pop(device, None)
        else:
            self._offered[device] = function

    def admit(self, device: str) -> None:
        """Let the kernel that was verified serve calls."""
        self._set_kernel(device, self.kernel_on(device))

    def dismiss(self, device: str) -> None:
        """Have the next call on a device ask `find_kernel` again."""
        if self._kernel(device) is not None:

            def ask(*args: Any, **constants: Any) -> Any:
                return self.find_kernel(device)(*args, **constants)

            self._set_kernel(device, Kernel(ask))

    # ---- what the graph asks -----------------------------------------------------------------

    def find_kernel(self, device: str) -> Kernel:
        """The kernel for a device that has none in the table yet, once the battery has passed with it.

        Raises
        ------
        NotImplementedError
            There is none.
        OperatorRefused
            It did not pass, now or before; the CPU goes on.
        """
        if self.state_on(device) != READY:
            from plugrad import registry

            registry.verify(self, device=device)
        return self.kernel_on(device)

    def make_backward_kernel(self, function: Any, device: str) -> Callable[..., Any]:
        """A backward kernel as it was declared, as a callable on arrays."""
        if device == "cpu":
            return function
        from plugrad.registry.device_backward import make_backward

        return make_backward(self, function)


def missing(operator: Op, device: str) -> str:
    """Why an operator cannot be called on a device, and what to do."""
    own = operator.name.partition("::")[2]
    elementwise = getattr(getattr(operator, "schema", None), "elementwise", False)
    if device != "cuda":
        return (
            f"operator {operator.name} has no kernel for device {device!r}; it has one for: "
            f"{', '.join(operator._devices) or 'none'}"
        )
    ways = ["cuda='<C expression of the inputs>'"] if elementwise else []
    ways += [f"cuda='.cuda:{own}' (a function of arrays)", "cuda=plugrad.on_tensors(function)"]
    return (
        f"operator {operator.name} has no CUDA kernel, and was called on a tensor of device {device!r}. Declare one: "
        f"{', '.join(ways)}; or have it run on the host, with a copy there and back, by cuda=plugrad.via_host; "
        "or move the tensor with .cpu() first"
    )
