"""What goes wrong on a device, as exceptions that say what was asked for."""

from __future__ import annotations

from typing import Any

__all__ = [
    "CompileError",
    "CudaError",
    "LaunchError",
    "NotAvailableError",
    "OutOfMemoryError",
    "translated",
]


class CudaError(RuntimeError):
    """Something that a CUDA device or its driver refused."""


class NotAvailableError(CudaError):
    """No CUDA device can be used here; the message says what is missing and what brings it."""


class CompileError(CudaError):
    """A kernel that does not compile.

    Attributes
    ----------
    log : str
        What the compiler said, with the file and line that the author of the kernel gave.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class LaunchError(CudaError):
    """A kernel that could not be launched, or that failed while it ran."""


class OutOfMemoryError(CudaError, MemoryError):
    """The device has no memory left, even after the cached blocks were given back."""


def translated(error: BaseException, doing: str, kind: type[CudaError] = CudaError) -> CudaError:
    """An error of PyCUDA as one of plugrad's; `doing` tells what it interrupted."""
    from plugrad.backends.cuda import device

    said = device.emulator_report()
    text = f"{doing}: {error}"
    return kind(f"{text}\n{said}" if said else text)


def describe_argument(value: Any) -> str:
    """An argument of a kernel in a few words: ``float32[3, 4]``, ``7``."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if not shape and not hasattr(value, "gpudata"):
        return f"{value!r}" if dtype is None else f"{dtype}({value})"
    return f"{dtype}{list(shape or ())}"
