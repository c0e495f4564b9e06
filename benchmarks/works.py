"""What is measured, against which budget. One function per piece of work; each returns the rows of its part of the table.

A budget is a ratio to a peer, or a number in the row's own unit where there is no peer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import geometric_mean, median, quantiles

import chains
import footprint
import table
import training
from measure import Body, Timing, can_measure_memory, growth_in_fresh_process, interleave


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    peers: tuple[str, ...]
    rounds: int
    chain_length: int
    chain_rounds: int
    sizes: tuple[int, ...]


@dataclass
class Row:
    """One line of the table.

    `figures` are in `unit`, by peer. With a budget, `ratio` is plugrad's figure over that of `against`, or over the
    budget's own unit where `against` is None, and is what the budget bounds.
    """

    work: str
    unit: str
    figures: dict[str, float]
    budget: float | None = None
    against: str | None = None
    ratio: float | None = None
    note: str = ""
    verdict: str = field(init=False)

    def __post_init__(self) -> None:
        if self.ratio is None or self.budget is None:
            self.verdict = "-"
        else:
            self.verdict = "ok" if self.ratio <= self.budget else "over"


Work = Callable[[Settings], list[Row]]


def _rows(
    work: str,
    unit: str,
    factor: float,
    timing: Timing,
    budgets: dict[str, float],
) -> list[Row]:
    """One row per budget; `factor` turns seconds per call into the unit."""
    figures = {name: factor * timing.median(name) for name in timing.seconds}
    rows = [
        Row(
            work,
            unit,
            figures,
            budget,
            peer,
            timing.ratio("plugrad", peer),
            unsteady(timing.ratios("plugrad", peer)),
        )
        for peer, budget in budgets.items()
        if peer in figures
    ]
    if rows or not budgets:
        return rows or [Row(work, unit, figures)]
    return [Row(work, unit, figures, note=f"no ratio without {', '.join(budgets)}")]


def unsteady(ratios: list[float]) -> str:
    """A remark where the middle half of the rounds' ratios spreads over more than a third of their median."""
    if len(ratios) < 3:
        return ""
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    if high - low <= median(ratios) / 3:
        return ""
    return f"unsteady: {number(low)} to {number(high)}"


# ------------------------------------------------------------------------------------------------------------ time


def multiply(settings: Settings) -> list[Row]:
    timing = interleave(chains.multiply_chain(settings.peers), settings.rounds)
    per = 1e6 / chains.LENGTH
    return _rows("multiply chain, 4 elements", "µs/op", per, timing, {"torch": 1 / 8})


def python_operator(settings: Settings) -> list[Row]:
    timing = interleave(chains.python_operator(settings.peers), settings.rounds)
    per = 1e6 / chains.LENGTH
    return _rows("operator written in Python", "µs/op", per, timing, {"torch": 1 / 6})


def small_step(settings: Settings) -> list[Row]:
    bodies = training.training_step(settings.peers, training.SMALL)
    timing = interleave(bodies, settings.rounds)
    budgets = {"numpy": 1.3, "torch": 1 / 4.3}
    return _rows("step 32x64 → 64 → 10, SGD", "µs", 1e6, timing, budgets)


def large_step(settings: Settings) -> list[Row]:
    peers = tuple(peer for peer in settings.peers if peer != "autograd")
    timing = interleave(training.training_step(peers, training.LARGE), settings.rounds, 0.1)
    budgets = {"torch": 1.0}
    return _rows("step 256x784 → 512 → 512 → 10, Adam", "ms", 1e3, timing, budgets)


def operator_table(settings: Settings) -> list[Row]:
    """Two budgets over all cases, worst and geometric mean; then every case as a row without one."""
    cases: list[Row] = []
    for name in table.OPERATORS:
        for size in settings.sizes:
            bodies: dict[str, Body] = table.bodies(name, size, settings.peers)
            timing = interleave(bodies, settings.rounds)
            row = Row(
                f"{name}, {size:.0e} elements".replace("e+0", "e"),
                "µs",
                {peer: 1e6 * timing.median(peer) for peer in bodies},
                against="torch",
            )
            if "torch" in bodies:
                row.ratio = timing.ratio("plugrad", "torch")
                row.note = unsteady(timing.ratios("plugrad", "torch"))
            cases.append(row)
    ratios = {row.work: row.ratio for row in cases if row.ratio is not None}
    if not ratios:
        return [Row("operators", "", {}, note="no ratio without torch"), *cases]
    worst = max(ratios, key=ratios.__getitem__)
    over = sum(ratio > 1.1 for ratio in ratios.values())
    note = f"{worst}; {over} of {len(ratios)} cases over"
    return [
        Row("operators, worst case", "", {}, 1.1, "torch", ratios[worst], note),
        Row("operators, geometric mean", "", {}, 0.65, "torch", geometric_mean(ratios.values())),
        *cases,
    ]


def long_chain(settings: Settings) -> list[Row]:
    length = settings.chain_length
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
        rows += _rows(work, "µs/op", 1e6 / length, Timing(phases[phase]), budgets)
    return rows


# ---------------------------------------------------------------------------------------------------------- memory


def chain_memory(settings: Settings) -> list[Row]:
    length = settings.chain_length
    return _memory(
        settings, "chain", length, f"chain of {length:,} nodes: memory", "bytes/op", length, 1 / 3
    )


def step_memory(settings: Settings) -> list[Row]:
    return _memory(settings, "training", 3, "peak memory of the Adam step", "MB", 1e6, 1.0)


def _memory(
    settings: Settings, workload: str, size: int, work: str, unit: str, per: float, budget: float
) -> list[Row]:
    if not can_measure_memory():
        return [Row(work, unit, {}, note="skipped: needs Linux's /proc/self/clear_refs")]
    figures = {
        peer: growth_in_fresh_process(workload, peer, size) / per
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
    "operators": operator_table,
    "large-step": large_step,
    "chain": long_chain,
    "chain-memory": chain_memory,
    "step-memory": step_memory,
    "import": import_time,
    "size": installed_size,
    "battery": battery,
}

#: Budgets of work that plugrad cannot do yet, named so that the table is complete.
NOT_YET = {
    "small ConvNet step (64x1x28x28)": "no convolution",
    "norm layers": "no normalization",
    "checkpointing a deep MLP": "no checkpoint",
}


def budget_text(row: Row) -> str:
    """`≤ 1/8 torch`, `≤ 0.65 torch`, `≤ 0.1 s`."""
    if row.budget is None:
        return ""
    if row.against is None:
        return f"≤ {row.budget:g} {row.unit}"
    return f"≤ {number(row.budget)} {row.against}"


def ratio_text(row: Row) -> str:
    if row.ratio is None:
        return ""
    return f"{row.ratio:.3g}" if row.against is None else number(row.ratio)


def number(ratio: float) -> str:
    """Below a half, a ratio reads better as one over something."""
    return f"1/{1 / ratio:.3g}" if 0 < ratio < 0.5 else f"{ratio:.3g}"
