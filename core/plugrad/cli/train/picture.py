"""The picture of a run: loss and accuracy over the epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TRAIN, TEST = "#7a8ca3", "#c2410c"


class Picture:
    """Draws with Matplotlib's Agg renderer; no display, no global state."""

    def __init__(self, title: str) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.title = title
        self._figure = Figure(figsize=(9.6, 4.2), dpi=150, layout="constrained")
        FigureCanvasAgg(self._figure)

    def save(self, path: Path, epochs: list[dict[str, Any]]) -> None:
        """Draw all epochs so far into a PNG file."""
        from matplotlib.ticker import MaxNLocator

        figure = self._figure
        figure.clear()
        figure.suptitle(self.title, fontsize=12, fontweight="bold")
        loss, accuracy = figure.subplots(1, 2)
        at = [epoch["epoch"] for epoch in epochs]
        for axes, what, scale, corner in (
            (loss, "loss", 1.0, "upper right"),
            (accuracy, "accuracy", 100.0, "lower right"),
        ):
            for part, color in (("train", TRAIN), ("test", TEST)):
                values = [scale * epoch[f"{part}_{what}"] for epoch in epochs]
                marker = "o" if len(at) == 1 else None
                axes.plot(at, values, color=color, linewidth=1.8, marker=marker, label=part)
            axes.set_xlabel("epoch")
            axes.grid(color="#e5e7eb", linewidth=0.8)
            axes.spines[["top", "right"]].set_visible(False)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            axes.legend(frameon=False, loc=corner)
        loss.set_title("Cross-entropy loss", fontsize=11)
        loss.set_ylabel("loss (nats, log scale)")
        loss.set_yscale("log")
        last = 100.0 * epochs[-1]["test_accuracy"]
        accuracy.set_title(f"Accuracy (test: {last:.2f} %)", fontsize=11)
        accuracy.set_ylabel("correct images (%)")
        figure.savefig(path, format="png")
