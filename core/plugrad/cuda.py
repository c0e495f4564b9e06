"""CUDA devices: whether one can be used, its memory, streams and events, and kernels of one's own.

Names follow ``torch.cuda``. Nothing here looks for a device before it is asked for one.

>>> import plugrad
>>> plugrad.cuda.is_available()
False
>>> print(plugrad.cuda.why_unavailable())
PyCUDA is not installed; pip install 'plugrad[cuda]' brings it ...
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from plugrad.backends.cuda.errors import (
    CompileError,
    CudaError,
    LaunchError,
    NotAvailableError,
    OutOfMemoryError,
)

if TYPE_CHECKING:
    from plugrad.backends.cuda.context import Event, Stream, current_stream, default_stream
    from plugrad.backends.cuda.elementwise import Elementwise
    from plugrad.backends.cuda.memory import (
        empty_cache,
        max_memory_allocated,
        mem_get_info,
        memory_allocated,
        memory_reserved,
        memory_stats,
        reset_peak_memory_stats,
    )
    from plugrad.backends.cuda.module import Module
    from plugrad.backends.cuda.reduction import Reduction
    from plugrad.registry.cuda import on_tensors

__all__ = [
    "CompileError",
    "CudaError",
    "Elementwise",
    "Event",
    "LaunchError",
    "Module",
    "NotAvailableError",
    "OutOfMemoryError",
    "Reduction",
    "Stream",
    "check_indices",
    "current_device",
    "current_stream",
    "default_stream",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "is_available",
    "is_emulated",
    "manual_seed",
    "manual_seed_all",
    "matmul_allow_tf32",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "on_tensors",
    "reset_peak_memory_stats",
    "set_stream",
    "stream",
    "synchronize",
    "why_unavailable",
]

check_indices = True
"""Whether kernels that are given positions wait for the device to say that all lie inside. Without, a position outside
reads zeros and writes nothing."""

matmul_allow_tf32 = False
"""Whether matrix products of float32 may round their factors to TF32 where cuBLAS does them, as
``torch.backends.cuda.matmul.allow_tf32``."""

# Where a name lives; its module is imported when the name is first used.
_HOMES = {
    **dict.fromkeys(
        ("Event", "Stream", "current_stream", "default_stream"), "backends.cuda.context"
    ),
    **dict.fromkeys(
        (
            "empty_cache",
            "max_memory_allocated",
            "mem_get_info",
            "memory_allocated",
            "memory_reserved",
            "memory_stats",
            "reset_peak_memory_stats",
        ),
        "backends.cuda.memory",
    ),
    "Elementwise": "backends.cuda.elementwise",
    "Module": "backends.cuda.module",
    "Reduction": "backends.cuda.reduction",
    "on_tensors": "registry.cuda",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'plugrad.cuda' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"plugrad.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__


# ---- the device ----------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether a CUDA device can be used; `why_unavailable` says why not."""
    return why_unavailable() is None


def why_unavailable() -> str | None:
    """What is missing and the command that brings it; None where a device can be used."""
    from plugrad.backends.cuda import device

    return device.why_unavailable()


def is_emulated() -> bool:
    """Whether the device is the emulated one, which runs kernels on the host."""
    from plugrad.backends.cuda import device

    return is_available() and device.emulated()


def device_count() -> int:
    """The number of devices that can be used: 1 or 0."""
    return int(is_available())


def current_device() -> int:
    """The number of the device in use: 0."""
    _check(None)
    return 0


def get_device_name(device: Any = None) -> str:
    """The device's name, as its driver gives it.

    Raises
    ------
    NotAvailableError
        No device can be used.
    """
    return _check(device).name()


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability, for example ``(9, 0)``.

    Raises
    ------
    NotAvailableError
        No device can be used.
    """
    return _check(device).capability()


def _check(number: Any) -> Any:
    from plugrad.backends.cuda import device

    device.require()
    if number not in (None, 0, "cuda", "cuda:0"):
        raise ValueError(f"plugrad works on one CUDA device, 'cuda:0', got {number!r}")
    return device


def manual_seed(seed: int) -> None:
    """`plugrad.manual_seed`: one generator serves all devices, with the same numbers."""
    from plugrad.random import manual_seed

    manual_seed(seed)


manual_seed_all = manual_seed


# ---- streams -------------------------------------------------------------------------------------


def synchronize(device: Any = None) -> None:
    """Wait until everything queued on the device has run.

    Raises
    ------
    CudaError
        A kernel that was queued earlier failed.
    """
    _check(device)
    from plugrad.backends.cuda import context

    context.wait(None)


def set_stream(stream: Stream) -> None:
    """Let this thread's work go to `stream` from now on."""
    from plugrad.backends.cuda import context

    context.set_stream(stream)


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Let this thread's work go to a stream while the context lasts; None changes nothing."""
    if stream is None:
        yield
        return
    from plugrad.backends.cuda import context

    before = context.set_stream(stream)
    try:
        yield
    finally:
        context.set_stream(before)
