"""What goes wrong on a device, as exceptions that say what was asked for."""

from __future__ import annotations

import os
import re
from typing import Any

__all__ = [
    "CompileError",
    "CudaError",
    "EarlierFailure",
    "LaunchError",
    "NotAvailableError",
    "OutOfMemoryError",
    "is_of_earlier",
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


class EarlierFailure(CudaError):
    """A kernel that was queued before a battery failed: nothing is known of the operator, which can be checked later."""


class OutOfMemoryError(CudaError, MemoryError):
    """The device has no memory left, even after the cached blocks were given back."""


def translated(error: BaseException, doing: str, kind: type[CudaError] = CudaError) -> CudaError:
    """An error of PyCUDA as one of plugrad's; `doing` tells what it interrupted."""
    from plugrad.backends.cuda import device

    # What PyCUDA refuses by itself has no name of the driver's in it, and the device has not heard of it.
    said = device.emulator_report() if str(error).startswith("cu") else ""
    text = f"{doing}: {error}"
    return kind(f"{text}\n{said}" if said else text)


_OF_A_KERNEL = re.compile(
    "illegal memory access|misaligned address|illegal instruction|unspecified launch failure|device-side assert"
)


def is_of_earlier(error: BaseException) -> bool:
    """Whether what the driver reports is the failure of a kernel that ran before the call that met it."""
    blocking = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
    return not blocking and _OF_A_KERNEL.search(str(error)) is not None


def describe_argument(value: Any) -> str:
    """An argument of a kernel in a few words: ``float32[3, 4]``, ``7``."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if not shape and not hasattr(value, "gpudata"):
        return f"{value!r}" if dtype is None else f"{dtype}({value})"
    return f"{dtype}{list(shape or ())}"
