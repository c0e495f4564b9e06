"""Puts the emulated device into this process, and speaks with it."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import _cache, _libcuda
from ._compiler import version
from .errors import EmulatorUnavailable

ORDERS = ("forward", "reversed", "shuffled")

_library: ctypes.CDLL | None = None


def installed() -> bool:
    """Whether :func:`install` made this process's CUDA driver the emulated one."""
    return _library is not None


def _loaded_driver() -> str | None:
    """A real libcuda that this process has already opened."""
    with open("/proc/self/maps") as maps:
        return next((line.split()[-1] for line in maps if "/libcuda.so" in line), None)


def _nvcc_folder() -> Path:
    def build(folder: Path) -> None:
        script = folder / "nvcc"
        package = Path(__file__).parent.parent
        script.write_text(
            f"#!/bin/sh\nPYTHONPATH={str(package)!r}${{PYTHONPATH:+:$PYTHONPATH}} "
            f'exec {sys.executable!r} -m plugrad_emulator.nvcc "$@"\n'
        )
        script.chmod(0o755)

    return _cache.built("nvcc", _cache.key_of([sys.executable, Path(__file__)]), build)


def install() -> None:
    """Makes the emulated device this process's CUDA device 0; a second call does nothing.

    To be called before ``pycuda.driver`` is imported.  Builds what it needs on first use (some seconds), puts an
    ``nvcc`` in front of ``PATH`` that compiles for it, and from then on PyCUDA works on it as on any other.

    Raises
    ------
    EmulatorUnavailable
        If GCC or PyCUDA is missing, the system is not Linux, or a real CUDA driver is in use in this process.
    """
    global _library
    if _library is not None:
        return
    if (driver := _loaded_driver()) is not None:
        raise EmulatorUnavailable(
            f"this process already uses the CUDA driver {driver}: "
            "call plugrad_emulator.install() before anything imports pycuda.driver"
        )
    library = _libcuda.library()
    version()
    os.environ["PATH"] = f"{_nvcc_folder()}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    _library = _declared(ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL))


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    library.plugrad_emulator_take_message.argtypes = [ctypes.c_char_p, ctypes.c_int]
    library.plugrad_emulator_last_message.argtypes = [ctypes.c_char_p, ctypes.c_int]
    library.plugrad_emulator_last_message.restype = None
    library.plugrad_emulator_explain.argtypes = [ctypes.c_char_p, ctypes.c_int]
    library.plugrad_emulator_explain.restype = None
    library.plugrad_emulator_reset.restype = None
    library.plugrad_emulator_set_order.argtypes = [ctypes.c_char_p, ctypes.c_uint]
    library.plugrad_emulator_set_order.restype = ctypes.c_char_p
    library.plugrad_emulator_set_extent.argtypes = [
        ctypes.c_ulonglong,
        ctypes.c_size_t,
        ctypes.c_void_p,
    ]
    return library


def _driver() -> ctypes.CDLL:
    if _library is None:
        raise EmulatorUnavailable(
            "the emulated device is not in this process: call plugrad_emulator.install() first"
        )
    return _library


def diagnostics() -> list[str]:
    """What the device found wrong since this was last asked, oldest first.

    Work is queued until something waits for it: synchronise first to hear of all of it.
    """
    library, buffer, messages = _driver(), ctypes.create_string_buffer(4096), []
    while library.plugrad_emulator_take_message(buffer, len(buffer)) >= 0:
        messages.append(buffer.value.decode(errors="replace"))
    return messages


def last_error() -> str:
    """The newest message, kept until :func:`reset`; an empty string if there is none."""
    if _library is None:
        return ""
    buffer = ctypes.create_string_buffer(4096)
    _library.plugrad_emulator_last_message(buffer, len(buffer))
    return buffer.value.decode(errors="replace")


def explain() -> str:
    """What the device says of the error that a call of the driver has just given; an empty string if nothing.

    The newest message, if the context is faulted or if this was not told of it before.
    """
    if _library is None:
        return ""
    buffer = ctypes.create_string_buffer(4096)
    _library.plugrad_emulator_explain(buffer, len(buffer))
    return buffer.value.decode(errors="replace")


def reset() -> None:
    """Clears the fault of the context, drops queued work and forgets all messages; memory stays as it is.

    A context that faulted refuses every call, as on hardware, where only a new process helps.
    """
    if _library is not None:
        _library.plugrad_emulator_reset()
        diagnostics()


@contextlib.contextmanager
def order(name: str, seed: int | None = None) -> Iterator[None]:
    """Within it, kernels are launched with their blocks and threads in another order.

    Parameters
    ----------
    name
        ``"forward"``, ``"reversed"`` or ``"shuffled"``.  Threads change over only where they wait, so each runs on
        from one barrier to the next.
    seed
        Of the shuffled order, not 0; by default as it was (``PLUGRAD_EMULATOR_SEED``, 1).
    """
    if name not in ORDERS:
        raise ValueError(
            f"order {name!r} is none of {', '.join(ORDERS)}; in_every_order() runs a function in all of them"
        )
    before = _driver().plugrad_emulator_set_order(name.encode(), seed or 0)
    try:
        yield
    finally:
        _driver().plugrad_emulator_set_order(before, 0)


class OrderError(AssertionError):
    """A result depends on the order in which threads ran."""


def in_every_order(
    function: Callable[[], Any],
    *,
    shuffles: int = 3,
    same: Callable[[Any, Any], bool] | None = None,
) -> Any:
    """Calls a function in forward, reversed and several shuffled orders and compares what it returns.

    Parameters
    ----------
    function
        Without arguments; launches kernels and returns their result on the host (an array, a number, a tuple ...).
    shuffles
        How many shuffled orders.
    same
        Compares two results; by default all bytes of arrays and scalars must agree.  Sums by ``atomicAdd`` of floats
        rightly differ in their last bits: give a comparison with a tolerance.

    Returns
    -------
    The result in forward order.

    Raises
    ------
    OrderError
        If two orders give different results: a barrier or an atomic operation is missing.
    """
    same = same or _same
    orders: list[tuple[str, int | None]] = [("forward", None), ("reversed", None)]
    orders += [("shuffled", seed) for seed in range(1, shuffles + 1)]
    results = []
    for name, seed in orders:
        with order(name, seed):
            results.append(function())
        if not same(results[0], results[-1]):
            how = name if seed is None else f"{name} (seed {seed})"
            raise OrderError(
                f"threads in {how} order give another result than in forward order: a barrier or an atomic operation "
                f"is missing\nforward: {results[0]!r}\n{how}: {results[-1]!r}"
            )
    return results[0]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "tobytes"):
        return bool(a.shape == b.shape and a.tobytes() == b.tobytes())
    return bool(a == b) or (a != a and b != b)


@contextlib.contextmanager
def races(check: bool) -> Iterator[None]:
    """Within it, launches look for races or do not (by default they do; ``PLUGRAD_EMULATOR_RACES=0``)."""
    before = _driver().plugrad_emulator_check_races(int(check))
    try:
        yield
    finally:
        _driver().plugrad_emulator_check_races(before)


@contextlib.contextmanager
def peeking() -> Iterator[None]:
    """Within it, asking whether an event or a stream is done lets no queued work run."""
    before = _driver().plugrad_emulator_peek(1)
    try:
        yield
    finally:
        _driver().plugrad_emulator_peek(before)


def set_extent(pointer: int, nbytes: int, stream: int = 0) -> None:
    """For memory pools: the block at ``pointer`` now serves a request of ``nbytes`` bytes.

    The rest of the block is out of bounds from now on, and what it held before is gone (0xFF).  0 when the block goes
    back to the pool: then any use of it is diagnosed.

    Parameters
    ----------
    pointer, nbytes
        The block, and how much of it is in use.
    stream
        The handle of the stream (0: the default one) that the block serves.  Kernels find the new extent behind what
        is queued there; a kernel on another stream that was not made to wait finds the old one.

    Raises
    ------
    ValueError
        If ``pointer`` is not the start of an allocation, or ``nbytes`` is more than was allocated.
    """
    if _driver().plugrad_emulator_set_extent(int(pointer), nbytes, stream):
        raise ValueError(
            f"0x{int(pointer):x} is not the start of a device allocation of at least {nbytes} bytes"
        )
