"""Finding PyCUDA and a device, and holding its primary context.

(a) Nothing is imported until a device is asked for; what is missing is kept as a sentence, with the command
    that brings it.
(b) The *primary* context is used, which PyTorch and CuPy use, too, so that memory can be shared. PyCUDA keeps a stack of
    contexts per thread and aborts the process when a thread ends with something on it: `enter` pushes,
    and a guard in a thread-local pops when the thread ends.
(c) CUDA does not survive a fork: in the child every use is an error, not a crash.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.metadata
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from plugrad.backends.cuda.errors import CudaError, NotAvailableError

__all__ = [
    "architecture",
    "capability",
    "default_stream_is_done",
    "driver",
    "emulated",
    "emulator_report",
    "enter",
    "extent_setter",
    "free_late",
    "make_available",
    "name",
    "require",
    "why_unavailable",
]

NOT_READY = 600  # CUDA_ERROR_NOT_READY
GROUP = "plugrad.devices"  # entry points: name of a device -> function that makes it available
EMULATOR = "pip install ./plugins/plugrad-emulator, in a clone of plugrad's repository"


class _State:
    """What is known of the device; one object, so that a fork or a new device replaces all of it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.driver: ModuleType | None = None
        self.context: Any = None
        self.closed = ""


_state = _State()
_threads = threading.local()


# ---- is there one? -------------------------------------------------------------------------------


def why_unavailable() -> str | None:
    """Why no CUDA device can be used, with the command that brings what is missing; None if one can."""
    with _state.lock:
        if _state.closed:
            return _state.closed
        # That there is none is not remembered: what is missing may be brought while the process runs.
        return None if _state.driver is not None else _look()


def _look() -> str | None:
    emulator = f"{EMULATOR} brings device 'cuda-emulated', which needs no GPU"
    if _offering("cuda-emulated"):
        emulator = "Without a GPU, use device='cuda-emulated': the emulator is installed"
    if importlib.util.find_spec("pycuda") is None:
        return (
            "PyCUDA is not installed; pip install 'plugrad[cuda]' brings it (it is compiled against a CUDA toolkit, "
            "which must be there: set CUDA_ROOT to it). Where there is no driver, python -m plugrad_emulator.build_pycuda "
            f"builds it. {emulator}"
        )
    try:
        import pycuda.driver as driver
    except ImportError as error:
        return (
            f"PyCUDA is installed but the CUDA driver is not ({error}); install NVIDIA's driver, in a container "
            f"start it with --gpus all. {emulator}"
        )
    try:
        driver.init()
        count = driver.Device.count()
    except driver.Error as error:
        return f"the CUDA driver found no usable device ({error}); nvidia-smi shows what it sees. {emulator}"
    if count == 0:
        return f"the CUDA driver sees no device; look at CUDA_VISIBLE_DEVICES and nvidia-smi. {emulator}"
    _state.driver = driver
    return None


def require() -> None:
    """Refuse with the reason where no CUDA device can be used.

    Raises
    ------
    NotAvailableError
        What is missing, and the command that brings it.
    """
    reason = why_unavailable()
    if reason is not None:
        raise NotAvailableError(f"no CUDA device: {reason}")


def driver() -> Any:
    """The module pycuda.driver, initialised."""
    if _state.driver is None:
        require()
    return _state.driver


def make_available(name: str) -> bool:
    """Let the distribution that offers device `name` make it available; False where none offers it.

    Raises
    ------
    NotAvailableError
        It could not, another device is in use already, or the distribution is one of ours and not installed.
    """
    found = _offering(name)
    if not found:
        if name == "cuda-emulated":
            raise NotAvailableError(f"device {name!r} is not installed; {EMULATOR} brings it")
        return False
    with _state.lock:
        if _state.closed:
            raise NotAvailableError(f"device {name!r} cannot be made available: {_state.closed}")
        if _state.driver is None or not emulated():
            if "pycuda.driver" in sys.modules:
                raise NotAvailableError(
                    f"device {name!r} must be asked for before PyCUDA's driver is imported: this process uses "
                    "'cuda' already"
                )
            try:
                found[0].load()()
            except Exception as error:
                raise NotAvailableError(
                    f"device {name!r} cannot be made available: {error}"
                ) from error
    return True


def _offering(name: str) -> list[importlib.metadata.EntryPoint]:
    """The entry points that offer a device of this name."""
    return [point for point in importlib.metadata.entry_points(group=GROUP) if point.name == name]


# ---- the context ---------------------------------------------------------------------------------


class _Guard:
    """Pops the context of a thread when the thread ends."""

    def __init__(self, context: Any, left: Callable[[bool], None]) -> None:
        self.context = context
        self.left = left
        self.thread = threading.get_ident()

    def pop(self) -> None:
        context, self.context = self.context, None
        if context is None or self.thread != threading.get_ident():
            return
        self.left(True)
        # A context that is gone already (a child process, a device that failed) has nothing to be popped from.
        with contextlib.suppress(Exception):
            context.pop()

    __del__ = pop


def enter() -> None:
    """Make the primary context current on this thread; `context.ensure` calls it once per thread.

    Raises
    ------
    NotAvailableError
        There is no device; or this process was forked from one that used it.
    """
    with _state.lock:
        require()
        if _state.context is None:
            _state.context = _state.driver.Device(0).retain_primary_context()  # type: ignore[union-attr]
            atexit.register(_close)
    _state.context.push()
    from plugrad.backends.cuda.context import left

    _threads.guard = _Guard(_state.context, left)


def free_late(block: list[Any]) -> bool:
    """Empty a list of memory on a thread whose context is popped already; False where that must not be done."""
    if _state.closed:
        return False
    _state.context.push()
    try:
        block.clear()
    finally:
        _state.context.pop()
    return True


def _close() -> None:
    """Give memory and context back before PyCUDA's own objects go."""
    from plugrad.backends.cuda import memory, module

    module.keep_loaded()
    if not _state.closed:  # else a child process, whose memory is not its own
        _state.closed = "the interpreter is shutting down"
        with contextlib.suppress(Exception):
            # PyCUDA frees on threads where the context is current only, and this thread may have had no use for it.
            _state.context.push()
            memory.close_pools()
            _state.context.pop()
    guard = getattr(_threads, "guard", None)
    if guard is not None:
        guard.pop()


def _after_fork() -> None:
    """The driver was initialised, in whatever little use: none is possible in a child."""
    _state.lock = threading.RLock()  # another thread may have held it
    if _state.driver is None:
        return
    _state.closed = (
        "this process was forked from one that used CUDA, which does not survive a fork; start it with "
        "multiprocessing.get_context('spawn')"
    )
    guard = getattr(_threads, "guard", None)  # of the thread that forked: the only one there is
    if guard is not None:
        guard.left(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ---- what it is ----------------------------------------------------------------------------------


def emulated() -> bool:
    """Whether the device is the emulated one, which runs kernels on the host."""
    return name().startswith("Emulated")


def name() -> str:
    """The device's name, as its driver gives it."""
    return str(driver().Device(0).name())


def capability() -> tuple[int, int]:
    """The compute capability, for example ``(9, 0)``."""
    major, minor = driver().Device(0).compute_capability()
    return int(major), int(minor)


def architecture() -> str:
    """The device's architecture as compilers name it, for example ``"sm_90"``."""
    major, minor = capability()
    return f"sm_{major}{minor}"


def default_stream_is_done() -> bool:
    """Whether everything queued on the default stream has run; PyCUDA asks for streams of its own only."""
    library = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    status = library.cuStreamQuery(None)
    if status not in (0, NOT_READY):
        raise CudaError(
            f"the default stream cannot be asked whether it is done: CUDA error {status}"
        )
    return bool(status == 0)


def extent_setter() -> Callable[[int, int, int], None] | None:
    """What tells the emulated device how much of a block of memory is in use; None on hardware."""
    return sys.modules["plugrad_emulator"].set_extent if emulated() else None


def peeking() -> contextlib.AbstractContextManager[None]:
    """Within it, asking for an event lets no work run that nothing waits for: the emulated device works only when asked."""
    return sys.modules["plugrad_emulator"].peeking() if emulated() else contextlib.nullcontext()


def emulator_report() -> str:
    """What the emulated device says of the error that was just raised; empty on hardware."""
    emulator = sys.modules.get("plugrad_emulator")
    if emulator is None or _state.driver is None or not emulated():
        return ""
    return str(emulator.explain())
