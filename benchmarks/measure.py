"""Timing of several bodies against each other in one process, and memory of one body in a process of its own.

Why interleaved: on a machine that does other work, or changes its clock, two runs one after the other differ by more than
what is looked for. Here every round times each body once, in an order that rotates, and a ratio is the median over the
rounds of the ratios within a round: what slows both sides of a round leaves its ratio alone.

Why a rest before each sample: after its last product OpenBLAS keeps its threads spinning for some 30 ms. In a process that
holds two thread pools on as many cores as each has threads, that makes PyTorch's next barriers wait for the scheduler: one
training step took 89 ms instead of 0.35.

Memory needs a fresh process: a freed page is used again, and then a second body would seem to need nothing.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from statistics import median

import numpy as np

Body = Callable[[], object]

# Shorter samples measure the clock and the scheduler, longer ones meet more of the machine's other work.
SAMPLE_SECONDS = 0.02

REST_SECONDS = 0.05

# With one thread for every body `time.process_time` does, too: it leaves out what other processes did meanwhile.
clock: Callable[[], float] = time.perf_counter


@dataclass
class Timing:
    """Seconds per call of each body, one number per round, rounds in the same order for all."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        return median(self.seconds[name])

    def ratio(self, name: str, against: str) -> float:
        """Median over the rounds of `name` / `against`, each within its round."""
        return median(self.ratios(name, against))

    def ratios(self, name: str, against: str) -> list[float]:
        return [a / b for a, b in zip(self.seconds[name], self.seconds[against], strict=True)]


def sample(body: Body, calls: int, rest: float | None = None) -> float:
    """Seconds per call. The garbage collector runs before, not during: the same for every body."""
    gc.collect()
    gc.disable()
    try:
        time.sleep(REST_SECONDS if rest is None else rest)
        if calls > 1:  # one that fills a sample alone needs no other before it to be warm
            body()
        start = clock()
        for _ in repeat(None, calls):
            body()
        return (clock() - start) / calls
    finally:
        gc.enable()


def calls_for(body: Body, seconds: float, rest: float | None = None) -> int:
    """How many calls fill a sample.

    The first call after a rest finds caches cold and threads asleep and can take five times as long as those that follow,
    so that a number drawn from it alone would fill a fifth of a sample.
    """
    calls = 1
    while True:
        once = sample(body, calls, rest)
        needed = max(1, round(seconds / max(once, 1e-9)))
        if needed <= 2 * calls:
            return needed
        calls = min(needed, 100 * calls)


def interleave(
    bodies: Mapping[str, Body],
    rounds: int,
    seconds: float = SAMPLE_SECONDS,
    rest: float | None = None,
) -> Timing:
    """Times every body once per round, for about `seconds`, after a rest (`REST_SECONDS` unless given).

    Bodies that return a number or an array must agree on it, or they would not be doing the same work.
    """
    agree({name: body() for name, body in bodies.items()})
    # What exists by now (modules, mostly) need not be looked at again in every collection.
    gc.collect()
    gc.freeze()
    calls = {name: calls_for(body, seconds, rest) for name, body in bodies.items()}
    names = list(bodies)
    timing = Timing({name: [] for name in names})
    for round_ in range(rounds):
        shift = round_ % len(names)
        for name in names[shift:] + names[:shift]:
            timing.seconds[name].append(sample(bodies[name], calls[name], rest))
    return timing


def agree(results: Mapping[str, object]) -> None:
    """Raises where two bodies that were to compute the same did not."""
    known = {name: np.asarray(value) for name, value in results.items() if value is not None}
    if not known:
        return
    first, *others = known
    for name in others:
        if known[first].shape != known[name].shape:
            raise ValueError(
                f"{first} and {name} do not do the same work: they give shapes "
                f"{known[first].shape} and {known[name].shape}"
            )
        # Sums of 10⁷ float32 numbers in another order differ by some 1e-4 of their size.
        scale = float(np.max(np.abs(known[first]), initial=0.0))
        error = float(np.max(np.abs(known[first] - known[name]), initial=0.0))
        if not error <= 2e-3 * scale + 1e-6:
            raise ValueError(
                f"{first} and {name} do not do the same work: their results differ by up to {error:.3g} "
                f"where the largest is {scale:.3g}"
            )


# ---------------------------------------------------------------------------------------------------- memory


def growth_in_fresh_process(workload: str, peer: str, size: int) -> int:
    """Bytes by which a workload of `memory.py` raises the resident set at its peak, in a new interpreter."""
    script = Path(__file__).with_name("memory.py")
    done = subprocess.run(
        [sys.executable, str(script), workload, peer, str(size)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"memory of {workload} with {peer} failed:\n{done.stderr}")
    return int(done.stdout)


def peak_growth(body: Body) -> int:
    """Bytes by which `body` raises this process's resident set at its peak (Linux)."""
    gc.collect()
    # Sets the kernel's high-water mark back to what is resident now.
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    body()
    return max(0, _status("VmHWM") - before)


def can_measure_memory() -> bool:
    return Path("/proc/self/clear_refs").exists()


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}")
