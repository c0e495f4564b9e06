"""Device memory: a pool per stream, statistics, and errors that say where the memory went.

(a) Freed blocks stay with their pool and are used again, since asking the driver costs as much as many kernels
    do. When the driver refuses, all pools give their free blocks back and the request is made once more.
(b) What is counted are bytes that arrays asked for; a pool rounds up, which `memory_reserved` shows.
"""

from __future__ import annotations

import threading
from typing import Any

from plugrad.backends.cuda import device
from plugrad.backends.cuda.errors import OutOfMemoryError

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "new_pool",
    "reset_peak_memory_stats",
]

_lock = threading.Lock()
_pools: list[Any] = []  # pools live as long as the process: their blocks may outlive a stream


def new_pool() -> Any:
    """A pool for one stream."""
    from pycuda.tools import DeviceMemoryPool

    pool = DeviceMemoryPool()
    with _lock:
        _pools.append(pool)
    return pool


def close_pools() -> None:
    """Give free blocks back, and every other one as soon as it is freed."""
    for pool in _pools:
        pool.stop_holding()


def allocate(pool: Any, nbytes: int, what: str) -> Any:
    """A block of a pool; called where the pool itself had none and the driver refused.

    Raises
    ------
    OutOfMemoryError
        Not even after every pool gave its free blocks back.
    """
    from plugrad.backends.cuda.storage import reclaim

    driver = device.driver()
    try:
        reclaim(wait=True)
        empty_cache()
        return pool.allocate(nbytes)
    except driver.MemoryError as error:
        free, total = mem_get_info()
        # Nothing is cached any more: what is reserved beyond what arrays asked for is the rounding of their blocks.
        rounding = max(memory_reserved() - memory_allocated(), 0)
        raise OutOfMemoryError(
            f"the device has no memory for {what} ({_size(nbytes)}): {_size(memory_allocated())} are held by arrays, "
            f"{_size(rounding)} lost to the rounding of their blocks, {_size(free)} of {_size(total)} are free"
        ) from error
    except driver.Error as error:
        from plugrad.backends.cuda.context import failed

        raise failed(error) from error


def _size(nbytes: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= factor:
            return f"{nbytes / factor:.2f} {unit}"
    return f"{nbytes} bytes"


def empty_cache() -> None:
    """Give memory that no array uses back to the driver."""
    from plugrad.backends.cuda.storage import reclaim

    reclaim()
    for pool in list(_pools):
        pool.free_held()


def memory_allocated() -> int:
    """Bytes that arrays hold."""
    from plugrad.backends.cuda.storage import counters

    return counters()[0]


def max_memory_allocated() -> int:
    """The most bytes that arrays held at one time, since the start or the last `reset_peak_memory_stats`."""
    from plugrad.backends.cuda.storage import counters

    return counters()[1]


def memory_reserved() -> int:
    """Bytes taken from the driver: those that arrays hold and those that are cached."""
    return sum(pool.managed_bytes for pool in list(_pools))


def reset_peak_memory_stats() -> None:
    """Let `max_memory_allocated` start again from what is held now."""
    from plugrad.backends.cuda.storage import reset_peak

    reset_peak()


def mem_get_info() -> tuple[int, int]:
    """(free, total) bytes of the device, whoever uses the rest."""
    from plugrad.backends.cuda import context

    context.enter()
    free, total = device.driver().mem_get_info()
    return int(free), int(total)


def memory_stats() -> dict[str, int]:
    """Numbers on memory, under PyTorch's names for them.

    Returns
    -------
    dict
        ``allocated_bytes.all.current`` and ``.peak`` (held by arrays), ``reserved_bytes.all.current``
        (taken from the driver), ``active.all.current`` (blocks that arrays hold) and
        ``inactive.all.current`` (cached blocks).
    """
    from plugrad.backends.cuda.storage import counters

    allocated, peak, blocks = counters()
    return {
        "allocated_bytes.all.current": allocated,
        "allocated_bytes.all.peak": peak,
        "reserved_bytes.all.current": memory_reserved(),
        "active.all.current": blocks,
        "inactive.all.current": sum(pool.held_blocks for pool in list(_pools)),
    }
