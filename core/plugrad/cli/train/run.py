"""The run behind ``plugrad train digits``: what it needs, what it says, how it ends."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from importlib import import_module
from typing import Any

import click
import numpy as np

from plugrad.cli.devices import available
from plugrad.cli.output import INTERRUPTED
from plugrad.cli.train.data import CLASSES, SIDE, load_digits
from plugrad.cli.train.folder import RunFolder
from plugrad.cli.train.model import MLP, QuantizedMLP
from plugrad.cli.train.progress import Progress
from plugrad.cli.train.training import Config, Diverged, evaluate, fit


def run(config: Config) -> None:
    """Train, showing progress, and leave metrics.json and training.png in ``config.out``.

    Raises
    ------
    click.ClickException
        A package or plugin is missing, the folder cannot be written, or training diverged.
    click.exceptions.Exit
        Ctrl-C was pressed; what was reached by then is in the folder.
    """
    check_packages()
    device = available(config.device)
    start = time.perf_counter()
    try:
        # For matrices this small, the threads of a BLAS cost more than they save, and on a busy
        # machine twenty times as much. scikit-learn brings threadpoolctl.
        with import_module("threadpoolctl").threadpool_limits(1, "blas"):
            folder, tested = train_into_folder(config, device)
    except BrokenPipeError:  # whoever read the output is gone; click ends quietly
        raise
    except OSError as error:
        raise click.ClickException(f"--out {config.out} cannot be written to: {error}") from error
    done = len(folder.metrics["epochs"])
    if folder.metrics["status"] == "interrupted":
        click.echo(
            f"Stopped after {done} of {config.epochs} epochs; "
            f"kept what was written to {config.out}.",
            err=True,
        )
        raise click.exceptions.Exit(INTERRUPTED)
    accuracy = folder.metrics["final"]["test_accuracy"]
    click.echo(
        f"Test accuracy {100 * accuracy:.2f} % ({round(accuracy * tested)} of {tested} images) "
        f"after {done} epochs in {time.perf_counter() - start:.1f} s."
    )
    click.echo(f"Wrote {config.out / 'metrics.json'} and {config.out / 'training.png'}.")


def train_into_folder(config: Config, device: str) -> tuple[RunFolder, int]:
    """Train on a device until the end or Ctrl-C; return the folder and the number of test images."""
    # Independent streams, so that for example another width leaves the split as it is.
    data_rng, weight_rng, batch_rng = np.random.default_rng(config.seed).spawn(3)
    train, test = load_digits(data_rng)
    widths = (SIDE * SIDE, *config.hidden, CLASSES)
    model = make_model(widths, weight_rng, config.quantize, device)
    name = name_of(widths, config.quantize)
    folder = RunFolder(config.out, as_data(config), f"Handwritten digits, {name}")
    status = "failed"
    try:
        # Before the bar: operators are verified when they are first called, which shows its own line.
        _, untrained = evaluate(model, test)
        click.echo(
            f"{name}{on_device(device)}, {len(train.labels)} images to train on, {len(test.labels)} to test on; "
            f"test accuracy before training {100 * untrained:.2f} %"
        )
        batches = math.ceil(len(train.labels) / config.batch_size)
        with Progress(config.epochs, batches) as progress:
            for epoch in fit(model, train, test, config, batch_rng, progress.advance):
                folder.add(epoch)
                progress.report(epoch)
        status = "finished"
    except KeyboardInterrupt:
        status = "interrupted"
    except Diverged as error:
        status = "diverged"
        raise click.ClickException(
            f"{error}; the epochs before it are in {config.out}. "
            f"A smaller --lr than {config.lr} may help."
        ) from None
    finally:
        folder.close(status)
    return folder, len(test.labels)


def as_data(config: Config) -> dict[str, Any]:
    """The options as metrics.json holds them."""
    return {**asdict(config), "hidden": list(config.hidden), "out": str(config.out)}


def name_of(widths: tuple[int, ...], bits: int | None) -> str:
    """What the network is called."""
    what = "MLP" if bits is None else f"{bits}-bit MLP"
    return f"{what} {'-'.join(map(str, widths))}"


def on_device(device: str) -> str:
    """Where it runs, if that needs to be said."""
    from plugrad import registry

    return "" if device == "cpu" else f" on {registry.label(device)}"


# ---------------------------------------------------------------------------------- what it needs


def check_packages() -> None:
    """Raise ClickException, with what to install, if a package is missing."""
    for module, name in (("sklearn", "scikit-learn"), ("matplotlib", "Matplotlib")):
        try:
            import_module(module)
        except ImportError as error:
            raise click.ClickException(
                f"plugrad train needs {name}, which cannot be imported ({error}). "
                'Install what it needs with: pip install "plugrad[demo]"'
            ) from error


def make_model(
    widths: tuple[int, ...], rng: np.random.Generator, bits: int | None, device: str
) -> MLP:
    """The network; with `bits`, the quantised one."""
    if bits is None:
        return MLP(widths, rng, device)
    from plugrad.registry import PluginQuarantined, UnknownOperator

    try:
        return QuantizedMLP(widths, rng, bits, device)
    except PluginQuarantined as error:
        raise click.ClickException(f"--quantize cannot be used: {error}") from error
    except UnknownOperator as error:
        raise click.ClickException(
            "--quantize needs the operators of the plugin plugrad-ste, which is not installed. "
            "Install it with: pip install plugrad-ste "
            "(in a checkout of plugrad: pip install ./plugins/plugrad-ste)"
        ) from error
