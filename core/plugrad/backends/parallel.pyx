# cython: boundscheck=False, wraparound=False
"""Threads for loops over long arrays: one pool for all kernels, and how many threads they and BLAS may use.

A pool of our own in place of OpenMP: it survives a fork, every C compiler can build it, and there is no second OpenMP
runtime in a process that holds PyTorch's. How it works is told in pool.h.
"""

import os

cdef extern from "pool.h" nogil:
    int pg_threads
    void pg_run(Py_ssize_t n, Py_ssize_t grain, Chunk chunk, void *context) noexcept

cdef enum:
    MOST_THREADS = 256

cdef unsigned int _times_limited = 0


cdef void parallel_for(Py_ssize_t n, Py_ssize_t grain, Chunk chunk, void *context) noexcept nogil:
    pg_run(n, grain, chunk, context)


cdef int threads() noexcept nogil:
    return pg_threads


cdef unsigned int times_limited() noexcept nogil:
    return _times_limited


def get_num_threads():
    """How many threads a kernel on the CPU may use.

    At the start the number of processors that this process may run on, or what ``OMP_NUM_THREADS`` says.
    """
    return pg_threads


def set_num_threads(n):
    """Let kernels on the CPU, and the BLAS below NumPy, use `n` threads; for the whole process.

    Results are the same each time for one number of threads, and may differ in rounding between two.

    Parameters
    ----------
    n : int
        At least 1; beyond 256 as 256.

    Raises
    ------
    TypeError
        `n` is not an integer.
    ValueError
        `n` is less than 1.
    """
    global pg_threads, _times_limited
    if isinstance(n, bool) or not hasattr(type(n), "__index__"):
        raise TypeError(f"set_num_threads: n is an integer, got {n!r}")
    if n < 1:
        raise ValueError(f"set_num_threads: n is at least 1, got {n}")
    from threadpoolctl import threadpool_limits

    pg_threads = min(n.__index__(), MOST_THREADS)
    # Before and after: a product may begin between the two.
    _times_limited += 1
    threadpool_limits(limits=pg_threads, user_api="blas")
    _times_limited += 1


def _at_start():
    # OpenMP takes a list, one number per level of nesting.
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if text.isdecimal() and int(text) > 0:
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


pg_threads = min(_at_start(), MOST_THREADS)
