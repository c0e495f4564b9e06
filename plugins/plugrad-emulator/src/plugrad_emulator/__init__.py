"""An emulated CUDA device under unmodified PyCUDA: CUDA kernels run, and are checked, on the host's processor."""

from ._compiler import compile, version
from ._device import (
    OrderError,
    diagnostics,
    explain,
    in_every_order,
    install,
    installed,
    last_error,
    order,
    peeking,
    races,
    reset,
    set_extent,
)
from .errors import CompileError, EmulatorUnavailable

__all__ = [
    "CompileError",
    "EmulatorUnavailable",
    "OrderError",
    "compile",
    "diagnostics",
    "explain",
    "in_every_order",
    "install",
    "installed",
    "last_error",
    "order",
    "peeking",
    "races",
    "reset",
    "set_extent",
    "version",
]
