"""What a run leaves behind: metrics.json and training.png, each replaced as a whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from plugrad.cli.train.picture import Picture

PICTURE_EVERY = 1.0  # seconds
PICTURE_SHARE = 0.1  # of the time at most: drawing takes longer than an epoch of a small network


class RunFolder:
    """The folder of one training run.

    Parameters
    ----------
    path : Path
        Made if it is not there; an earlier run in it is replaced.
    config : dict
        Written down as it is.
    title : str
        Of the picture.

    Raises
    ------
    OSError
        `path` cannot be written to; found out here, before any training.
    """

    def __init__(self, path: Path, config: dict[str, Any], title: str) -> None:
        self.path = path
        self.metrics: dict[str, Any] = {
            "status": "running",
            "config": config,
            "versions": versions(),
            "epochs": [],
            "final": None,
        }
        self._picture = Picture(title)
        self._next_picture = float("-inf")
        path.mkdir(parents=True, exist_ok=True)
        (path / "training.png").unlink(missing_ok=True)
        self._write_metrics()

    def add(self, epoch: dict[str, Any]) -> None:
        """Write down one more epoch."""
        self.metrics["epochs"].append(epoch)
        self.metrics["final"] = _final(self.metrics["epochs"])
        self._write_metrics()
        if time.monotonic() >= self._next_picture:
            self._write_picture()

    def close(self, status: str) -> None:
        """Write down how the run ended, and the picture of all of it."""
        self.metrics["status"] = status
        self._write_metrics()
        if self.metrics["epochs"]:
            self._write_picture()

    def _write_metrics(self) -> None:
        text = json.dumps(self.metrics, indent=2, allow_nan=False)
        with replacing(self.path / "metrics.json") as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")

    def _write_picture(self) -> None:
        start = time.monotonic()
        with replacing(self.path / "training.png") as temporary:
            self._picture.save(temporary, self.metrics["epochs"])
        end = time.monotonic()
        self._next_picture = end + max(PICTURE_EVERY, (end - start) / PICTURE_SHARE)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place once the block is through."""
    # A name of this process's own, fixed before the file exists: an interrupt at any moment leaves nothing.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def versions() -> dict[str, str]:
    """What the numbers depend on."""
    found = {"python": platform.python_version(), "numpy": np.__version__}
    for name in ("plugrad", "plugrad-ste", "scikit-learn"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _final(epochs: list[dict[str, Any]]) -> dict[str, Any]:
    """The last epoch without the time it took, which no seed decides."""
    return {key: value for key, value in epochs[-1].items() if key != "seconds"}
