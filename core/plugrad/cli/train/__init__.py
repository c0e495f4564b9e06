"""``plugrad train``: training runs on real data, small enough to read whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

__all__ = ["train"]


class Widths(click.ParamType):
    """Widths of hidden layers: ``256,128``."""

    name = "widths"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            widths = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            widths = (0,)
        if min(widths) < 1 or max(widths) > 4096:
            self.fail(f"expected widths from 1 to 4096 such as 256,128, got {value!r}", param, ctx)
        return widths


@click.group()
def train() -> None:
    """Train a network on real data."""


@train.command()
@click.option("--epochs", type=click.IntRange(1), default=40, show_default=True)
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True)
@click.option(
    "--lr",
    type=click.FloatRange(0.0, min_open=True),
    default=2e-3,
    show_default=True,
    help="Learning rate at the start; it falls to 0 along half a cosine.",
)
@click.option(
    "--hidden",
    type=Widths(),
    default="256,128",
    show_default=True,
    help="Widths of the hidden layers.",
)
@click.option(
    "--quantize",
    metavar="BITS",
    type=click.IntRange(2, 8),
    help="Quantisation-aware training: weights and activations of 2 to 8 bits, with step sizes "
    "learned through ste::fake_quantize (needs the plugin plugrad-ste).",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Of the split, the initial weights and the batches; the same seed gives the same numbers.",
)
@click.option(
    "--device",
    default="cpu",
    show_default=True,
    metavar="NAME",
    help="Where: cpu, cuda, or cuda-emulated, which runs CUDA kernels on the host, slowly (it comes with the "
    "distribution plugrad-emulator).",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("digits-run"),
    show_default=True,
    help="Folder for metrics.json and training.png.",
)
def digits(**options: Any) -> None:
    """Train a multilayer perceptron on the handwritten digits that scikit-learn ships.

    1797 images of 8 x 8 pixels, a fifth of each digit held out for testing. metrics.json and
    training.png are brought up to date as training goes; Ctrl-C stops and keeps them.
    """
    from plugrad.cli.train.run import run
    from plugrad.cli.train.training import Config

    run(Config(**options))
