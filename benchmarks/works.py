"""What is measured, against which budget. One function per piece of work; each gives the rows of its part of the table.

A budget is a ratio to a peer, or a number in the row's own unit where there is no peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median

import chains
import convnet
import deep
import footprint
import operators
import training
from measure import Timing, can_measure_memory, growth_in_fresh_process, interleave
from rows import Row, timed_rows, unsteady


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    peers: tuple[str, ...]
    rounds: int
    chain_length: int
    chain_rounds: int
    table: operators.Selection


NO_MEMORY = "skipped: needs Linux's /proc/self/clear_refs"

Work = Callable[[Settings], Iterable[Row]]


# ------------------------------------------------------------------------------------------------------------ time


def multiply(settings: Settings) -> list[Row]:
    timing = interleave(chains.multiply_chain(settings.peers), settings.rounds)
    per = 1e6 / chains.LENGTH
    return timed_rows("multiply chain, 4 elements", "µs/op", per, timing, {"torch": 1 / 8})


def python_operator(settings: Settings) -> list[Row]:
    timing = interleave(chains.python_operator(settings.peers), settings.rounds)
    per = 1e6 / chains.LENGTH
    return timed_rows("operator written in Python", "µs/op", per, timing, {"torch": 1 / 6})


def small_step(settings: Settings) -> list[Row]:
    bodies = training.training_step(settings.peers, training.SMALL)
    timing = interleave(bodies, settings.rounds)
    budgets = {"numpy": 1.3, "torch": 1 / 4.3}
    return timed_rows("step 32x64 → 64 → 10, SGD", "µs", 1e6, timing, budgets)


def large_step(settings: Settings) -> list[Row]:
    peers = tuple(peer for peer in settings.peers if peer != "autograd")
    timing = interleave(training.training_step(peers, training.LARGE), settings.rounds, 0.1)
    budgets = {"torch": 1.0}
    return timed_rows("step 256x784 → 512 → 512 → 10, Adam", "ms", 1e3, timing, budgets)


def convnet_step(settings: Settings) -> list[Row]:
    timing = interleave(convnet.training_step(settings.peers), settings.rounds, 0.1)
    return timed_rows("step of a ConvNet, 64x1x28x28", "ms", 1e3, timing, {"torch": 1.0})


def checkpoint_time(settings: Settings) -> list[Row]:
    """Against the same step that keeps everything; the columns of other libraries stay empty."""
    timing = interleave(deep.steps(), settings.rounds, 0.1)
    return [
        Row(
            f"48 layers, checkpoints {way}",
            "ms",
            {"plugrad": 1e3 * timing.median(way)},
            budget,
            "plain",
            timing.ratio(way, "plain"),
            unsteady(timing.ratios(way, "plain")),
        )
        for way, budget in (("unchecked", 1.35), ("checked", 1.45))
    ]


def operator_table(settings: Settings) -> Iterator[Row]:
    return operators.rows(settings.table, settings.peers)


def long_chain(settings: Settings) -> list[Row]:
    length = settings.chain_length
    for first in chains.long_chain(settings.peers, 1_000).values():
        first()  # what is set up on first use is not the graph's
    bodies = chains.long_chain(settings.peers, length)
    phases: dict[str, dict[str, list[float]]] = {}
    for round_ in range(settings.chain_rounds):
        for peer in sorted(bodies, reverse=bool(round_ % 2)):
            seconds = bodies[peer]()
            seconds["all three"] = sum(seconds.values())
            for phase, value in seconds.items():
                phases.setdefault(phase, {}).setdefault(peer, []).append(value)
    rows = []
    for phase in ("all three", "build", "backward", "free"):
        budgets = {"torch": 1 / 12} if phase == "all three" else {}
        work = f"chain of {length:,} nodes: {phase}"
        rows += timed_rows(work, "µs/op", 1e6 / length, Timing(phases[phase]), budgets)
    return rows


# ---------------------------------------------------------------------------------------------------------- memory


def chain_memory(settings: Settings) -> list[Row]:
    length = settings.chain_length
    work = f"chain of {length:,} nodes: memory"
    return _memory(settings, "chain", length, work, "bytes/op", length, 1 / 3, processes=1)


def step_memory(settings: Settings) -> list[Row]:
    return [
        *_memory(settings, "training", 3, "peak memory of the Adam step", "MB", 1e6, 1.0),
        *_memory(settings, "convnet", 3, "peak memory of the ConvNet step", "MB", 1e6, 1.0),
    ]


def checkpoint_memory(settings: Settings) -> list[Row]:
    work = "48 layers, checkpoints: activations"
    if not can_measure_memory():
        return [Row(work, "MB", {}, note=NO_MEMORY)]
    plain, kept = (growth_in_fresh_process("deep", way, 1) / 1e6 for way in ("plain", "checked"))
    return [Row(work, "MB", {"plugrad": kept}, 1 / 4, "plain", kept / plain)]


def _memory(
    settings: Settings,
    workload: str,
    size: int,
    work: str,
    unit: str,
    per: float,
    budget: float,
    processes: int = 3,
) -> list[Row]:
    """The median of several processes: from one to the next a peak varies by a few per cent."""
    if not can_measure_memory():
        return [Row(work, unit, {}, note=NO_MEMORY)]
    figures = {
        peer: median(
            growth_in_fresh_process(workload, peer, size) / per
            for _ in range(min(processes, settings.rounds))
        )
        for peer in settings.peers
        if peer in ("plugrad", "torch")
    }
    if "torch" not in figures:
        return [Row(work, unit, figures, note="no ratio without torch")]
    return [Row(work, unit, figures, budget, "torch", figures["plugrad"] / figures["torch"])]


# ------------------------------------------------------------------------------------------------------- footprint


def import_time(settings: Settings) -> list[Row]:
    modules = [peer for peer in settings.peers if peer != "numpy"]
    figures = footprint.import_seconds(modules, min(settings.rounds, 5))
    note = "beyond NumPy"
    return [Row("import", "s", figures, 0.1, None, figures["plugrad"], note)]


def installed_size(settings: Settings) -> list[Row]:
    size, note = footprint.installed_bytes()
    return [Row("installed size", "MB", {"plugrad": size / 1e6}, 10.0, None, size / 1e6, note)]


def battery(settings: Settings) -> list[Row]:
    """The budget holds for each operator, so the slowest is compared with it."""
    seconds = footprint.battery_seconds(min(settings.rounds, 3))
    milliseconds = {name: 1e3 * value for name, value in seconds.items()}
    worst = max(milliseconds, key=milliseconds.__getitem__)
    over = sum(value > 20 for value in milliseconds.values())
    middle = median(milliseconds.values())
    note = f"{worst}; {over} of {len(milliseconds)} operators over"
    slowest = milliseconds[worst]
    return [
        Row("quick battery, slowest operator", "ms", {"plugrad": slowest}, 20, None, slowest, note),
        Row("quick battery, median operator", "ms", {"plugrad": middle}, 20, None, middle),
    ]


WORKS: dict[str, Work] = {
    "multiply": multiply,
    "python-operator": python_operator,
    "small-step": small_step,
    "large-step": large_step,
    "convnet": convnet_step,
    "checkpoint": checkpoint_time,
    "chain": long_chain,
    "chain-memory": chain_memory,
    "step-memory": step_memory,
    "checkpoint-memory": checkpoint_memory,
    "import": import_time,
    "size": installed_size,
    "battery": battery,
    "operators": operator_table,  # last: it takes longer than all others together
}
