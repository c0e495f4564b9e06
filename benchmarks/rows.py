"""One line of the table of figures, and how its numbers are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median, quantiles

from measure import Timing


@dataclass
class Row:
    """One line of the table.

    `figures` are in `unit`, by peer. With a budget, `ratio` is plugrad's figure over that of `against`, or over the
    budget's own unit where `against` is None, and is what the budget bounds. A row that could not be measured says in
    `failure` what happened.
    """

    work: str
    unit: str
    figures: dict[str, float]
    budget: float | None = None
    against: str | None = None
    ratio: float | None = None
    note: str = ""
    failure: str = ""
    verdict: str = field(init=False)

    def __post_init__(self) -> None:
        if self.failure:
            self.verdict = "failed"
        elif self.ratio is None or self.budget is None:
            self.verdict = "-"
        else:
            self.verdict = "ok" if self.ratio <= self.budget else "over"


def timed_rows(
    work: str, unit: str, factor: float, timing: Timing, budgets: dict[str, float]
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
