"""The command group, and what all commands share: exit codes, Ctrl-C, errors without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from plugrad.cli.check import check
from plugrad.cli.doctor import doctor
from plugrad.cli.ops import ops
from plugrad.cli.output import INTERRUPTED
from plugrad.cli.plugins import plugins
from plugrad.cli.train import train

__all__ = ["cli", "run"]


class Commands(click.Group):
    """A group in which Ctrl-C and errors of the registry end with a line, not with a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        from plugrad.registry import RegistryError

        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except RegistryError as error:
            raise click.ClickException(str(error)) from error


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        try:
            found = version("plugrad")
        except PackageNotFoundError:
            found = "(not installed: run from its source tree)"
        click.echo(f"plugrad {found}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Automatic differentiation where every operator is a plugin that has proved its gradient."""


for command in (plugins, ops, check, train, doctor):
    cli.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (those of the process if absent); return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # What the terminal's encoding lacks is shown as "?", not as a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="plugrad")
    except SystemExit as end:
        code = end.code
    return code if isinstance(code, int) else int(code is not None)
