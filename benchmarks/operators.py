"""The operator table: which of its cases are measured, for how long, and what is said of them together.

A case that comes out over its budget, though not in every round, is measured again with twice the rounds, and all its
rounds count: among a thousand cases a few would else be over for what the machine did besides.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import geometric_mean, median

import table
from measure import Timing, interleave
from rows import Row, timed_rows

WORST, MEAN = 1.1, 0.65


@dataclass(frozen=True)
class Selection:
    """Which cases; `operators` are names, names without what follows the colon, groups, or patterns of these."""

    operators: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = table.DTYPES
    layouts: tuple[str, ...] = table.LAYOUTS
    sizes: tuple[int, ...] = table.SIZES
    row: int | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        self.names()
        for given, known in (
            (self.dtypes, table.DTYPES),
            (self.layouts, table.LAYOUTS),
            (self.sizes, table.ALL_SIZES),
        ):
            unknown = [str(one) for one in given if one not in known]
            if unknown:
                raise LookupError(
                    f"no {', '.join(unknown)} in the table; there is {', '.join(map(str, known))}"
                )

    def cases(self) -> list[table.Case]:
        return [
            table.Case(name, size, dtype, layout, self.row)
            for name in self.names()
            for size in self.sizes
            for dtype in self.dtypes
            for layout in self.layouts
        ]

    def names(self) -> list[str]:
        if not self.operators:
            return list(table.OPERATORS)
        found = {
            pattern: [
                name
                for name, operator in table.OPERATORS.items()
                if any(
                    fnmatchcase(text, pattern)
                    for text in (name, name.partition(":")[0], operator.group)
                )
            ]
            for pattern in self.operators
        }
        unknown = [pattern for pattern, names in found.items() if not names]
        if unknown:
            raise LookupError(
                f"no operator {', '.join(unknown)} in the table; there is {', '.join(table.OPERATORS)}"
            )
        wanted = {name for names in found.values() for name in names}
        return [name for name in table.OPERATORS if name in wanted]


def rows(selection: Selection, peers: tuple[str, ...]) -> Iterator[Row]:
    """A row for every case, then the summary of each group and of all."""
    measured: list[tuple[str, Row]] = []
    for case in selection.cases():
        row = _row(case, peers, selection.rounds)
        measured.append((table.OPERATORS[case.operator].group, row))
        yield row
    yield from summary(measured)


def summary(measured: list[tuple[str, Row]]) -> Iterator[Row]:
    groups = {group: [row for other, row in measured if other == group] for group, _ in measured}
    if len(groups) > 1:
        for group, members in groups.items():
            yield from _together(group, members)
    yield from _together("operators", [row for _, row in measured])


def _together(name: str, members: Iterable[Row]) -> Iterator[Row]:
    ratios = {row.work: row.ratio for row in members if row.ratio is not None}
    if not ratios:
        yield Row(name, "", {}, note="no ratio without torch")
        return
    worst = max(ratios, key=ratios.__getitem__)
    over = sum(ratio > WORST for ratio in ratios.values())
    note = f"{worst}; {over} of {len(ratios)} cases over"
    yield Row(f"{name}, worst case", "", {}, WORST, "torch", ratios[worst], note)
    yield Row(f"{name}, geometric mean", "", {}, MEAN, "torch", geometric_mean(ratios.values()))


def _row(case: table.Case, peers: tuple[str, ...], rounds: int | None) -> Row:
    try:
        timing = _timing(case, peers, rounds)
    except Exception as error:  # the others are of interest all the same
        return Row(str(case), "µs", {}, failure=f"{type(error).__name__}: {error}")
    finally:
        gc.collect()
    (row,) = timed_rows(str(case), "µs", 1e6, timing, {"torch": WORST})
    return row


def _timing(case: table.Case, peers: tuple[str, ...], rounds: int | None) -> Timing:
    rounds, seconds, rest = effort(case.size, rounds)
    bodies = table.bodies(case, peers)
    timing = interleave(bodies, rounds, seconds, rest)
    if "torch" in bodies and _doubtful(timing.ratios("plugrad", "torch")):
        again = interleave(bodies, 2 * rounds, seconds, rest)
        for name, values in again.seconds.items():
            timing.seconds[name] += values
    return timing


def _doubtful(ratios: list[float]) -> bool:
    return median(ratios) > WORST >= min(ratios)


def effort(size: int, rounds: int | None = None) -> tuple[int, float, float]:
    """Rounds, seconds of a sample and of the rest before it.

    Small cases meet no second thread and are steady; of the largest ones a single call fills a sample. Nothing here calls
    BLAS, whose threads are what a long rest waits for: PyTorch's own spin for a few milliseconds.
    """
    if size <= 10**5:
        return rounds or 7, 0.005, 0.0 if size <= 10**4 else 0.01
    return (rounds or 7 if size <= 10**6 else min(rounds or 3, 3)), 0.02, 0.01
