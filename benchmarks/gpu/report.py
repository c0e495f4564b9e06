"""The table, the JSON beside it and the Markdown for docs/gpu.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LIBRARIES = ("plugrad", "torch", "cupy")

NOT_RUN = "not run"
EMULATED = "emulated: figures mean nothing"


@dataclass(frozen=True)
class Budget:
    """A bound on a ratio: ``at_least`` or at most ``bound``, times what `against` reaches."""

    bound: float
    against: str
    at_least: bool = False

    def held(self, ratio: float) -> bool:
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g} {self.against}"


@dataclass
class Row:
    """One line of the table.

    Attributes
    ----------
    group : str
        One of `GROUPS`.
    work : str
    unit : str
    figures : dict
        By library, in `unit`.
    ratio : float or None
        Of plugrad's figure to that of `against`.
    against : str
        A library, or "copy" for the bandwidth of a copy on the device.
    note : str
    """

    group: str
    work: str
    unit: str
    figures: dict[str, float]
    ratio: float | None = None
    against: str = "torch"
    note: str = ""
    verdict: str = field(init=False)

    def __post_init__(self) -> None:
        budget = self.budget
        if budget is None or self.ratio is None:
            self.verdict = "-"
        else:
            self.verdict = "ok" if budget.held(self.ratio) else "over"

    @property
    def budget(self) -> Budget | None:
        return GROUPS[self.group][1] if self.ratio is not None else None


BANDWIDTH = Budget(0.9, "copy", at_least=True)

#: What the table and the documentation sum up, with the budget of each.
GROUPS: dict[str, tuple[str, Budget | None]] = {
    "elementwise": ("elementwise, slowest case", BANDWIDTH),
    "rows": ("softmax and norms, slowest case", BANDWIDTH),
    "sums": ("sums along axes, slowest case", None),
    "matmul": ("matrix products (float32, TF32, half), slowest case", Budget(1.05, "torch")),
    "launch": ("time of a call from Python, slowest case", Budget(0.5, "torch")),
    "step": ("training step of an MLP", Budget(1.0, "torch")),
    "memory": ("peak memory of that step", Budget(1.0, "torch")),
}


@dataclass
class Report:
    """Everything that was found out."""

    machine: dict[str, str]
    emulated: bool
    suite: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        data = asdict(self)
        for row, own in zip(data["rows"], self.rows, strict=True):
            row["budget"] = str(own.budget or "")
            if self.emulated:
                row["verdict"] = "-"
        if self.emulated:
            data["note"] = EMULATED
        path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# ----------------------------------------------------------------------------------------------------------- the table

HEADINGS = ("work", "unit", *LIBRARIES, "ratio", "to", "budget", "", "")
WIDTHS = (44, 9, 10, 10, 10, 7, 6, 14, 5, 0)
NUMBERS = range(2, 6)


def cells(row: Row, emulated: bool) -> tuple[str, ...]:
    figures = [f"{row.figures[name]:.4g}" if name in row.figures else "" for name in LIBRARIES]
    ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
    verdict = "-" if emulated else row.verdict
    budget = str(row.budget or "")
    return (row.work, row.unit, *figures, ratio, row.against, budget, verdict, row.note)


def line(texts: Sequence[str]) -> str:
    return " ".join(
        text.rjust(width) if column in NUMBERS else text.ljust(width)
        for column, (text, width) in enumerate(zip(texts, WIDTHS, strict=True))
    ).rstrip()


def summary(rows: Iterable[Row]) -> list[tuple[str, str, Row | None]]:
    """(what, budget, the row that is furthest from it or None) of each group."""
    found = []
    rows = list(rows)
    for group, (what, budget) in GROUPS.items():
        own = [row for row in rows if row.group == group and row.ratio is not None]
        bounded = [row for row in own if row.budget is not None] or own
        worst: Callable[..., Row] = min if budget is None or budget.at_least else max
        slowest = worst(bounded, key=lambda row: row.ratio) if bounded else None
        found.append((what, str(budget or "-"), slowest))
    return found


def result_text(row: Row | None, emulated: bool = False) -> str:
    if row is None or row.ratio is None:
        return NOT_RUN
    verdict = "" if emulated else {"-": "", "ok": ", held", "over": ", over"}[row.verdict]
    return f"{row.ratio:.3g} {row.against} ({row.work}){verdict}"


def short_table(report: Report) -> str:
    lines = [
        f"{what:54} {budget:16} {result_text(row, report.emulated)}"
        for what, budget, row in summary(report.rows)
    ]
    if report.suite:
        lines.insert(0, f"{'tests on the device':54} {'all pass':16} {suite_text(report.suite)}")
        lines.insert(
            1, f"{'batteries on the device':54} {'all pass':16} {battery_text(report.suite)}"
        )
    return "\n".join([EMULATED, *lines] if report.emulated else lines)


def suite_text(suite: dict[str, Any]) -> str:
    tests = suite.get("tests")
    if not tests:
        return NOT_RUN
    return f"{tests['passed']} passed, {tests['failed']} failed, {tests['skipped']} skipped"


def battery_text(suite: dict[str, Any]) -> str:
    operators = suite.get("operators")
    if not operators:
        return NOT_RUN
    passed = sum(one["passed"] for one in operators.values())
    fresh = sum(one["fresh_samples"] > 0 for one in operators.values())
    return f"{passed} of {len(operators)} operators, {fresh} of them with fresh samples too"


# ------------------------------------------------------------------------------------------------------------ Markdown


def markdown(report: Report | None = None) -> str:
    """The table of docs/gpu.md; without a report, or after a dry run, the one that says that nothing was run."""
    if report is not None and report.emulated:
        report = None
    machine = report.machine if report is not None else {}
    where = " | ".join(machine.get(key, NOT_RUN) for key in ("date", "device", "driver"))
    suite = report.suite if report is not None else {}
    rows = [
        ("tests on the device", "all pass", suite_text(suite)),
        ("batteries on the device", "all pass", battery_text(suite)),
    ]
    for what, budget, row in summary(report.rows if report is not None else ()):
        rows.append((what, budget, result_text(row)))
    lines = ["| what | budget | result | date | device | driver |", "|---|---|---|---|---|---|"]
    for what, budget, result in rows:
        place = where if result != NOT_RUN else " | ".join([NOT_RUN] * 3)
        lines.append(f"| {what} | {budget} | {result} | {place} |")
    return "\n".join(lines) + "\n"
