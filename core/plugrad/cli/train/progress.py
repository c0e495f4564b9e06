"""How far a run is: a live bar on a terminal, a line per epoch elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich import progress as rich_progress

from plugrad.cli.output import console


class Progress:
    """Progress of a training run, used as a context manager.

    Parameters
    ----------
    epochs, batches : int
        How many epochs there are, and how many batches in each.
    """

    def __init__(self, epochs: int, batches: int) -> None:
        self.epochs = epochs
        self._console = console()
        self._bar = rich_progress.Progress(
            rich_progress.TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            rich_progress.BarColumn(bar_width=None),
            rich_progress.TextColumn("loss {task.fields[loss]}"),
            rich_progress.TextColumn("test {task.fields[accuracy]}"),
            rich_progress.TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(
            "train", total=epochs * batches, epoch=1, epochs=epochs, loss="-", accuracy="-"
        )

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def advance(self, loss: float) -> None:
        """One batch is done."""
        self._bar.update(self._task, advance=1, loss=f"{loss:.4f}")

    def report(self, numbers: dict[str, Any]) -> None:
        """One epoch is done."""
        accuracy = f"{100 * numbers['test_accuracy']:.2f} %"
        if self._console.is_terminal:
            self._bar.update(
                self._task, epoch=min(numbers["epoch"] + 1, self.epochs), accuracy=accuracy
            )
        else:
            self._console.print(
                f"epoch {numbers['epoch']}/{self.epochs}  train loss {numbers['train_loss']:.4f}  "
                f"test loss {numbers['test_loss']:.4f}  test accuracy {accuracy}"
            )
