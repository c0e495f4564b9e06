"""``plugrad doctor``: what is installed, what is missing, and the command that brings it."""

from __future__ import annotations

from dataclasses import asdict

import click

from plugrad.cli.findings import Finding, broken, findings
from plugrad.cli.output import cell, console, json_option, table, write_json

__all__ = ["doctor"]

STYLES = {"ok": "green", "missing": "yellow", "broken": "bold red"}


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Tell what plugrad finds on this machine, above all for CUDA, and what brings what is missing.

    A machine without a GPU needs none of it. The exit code is 1 only if something that is there does not work.
    """
    found = findings()
    if as_json:
        write_json([asdict(one) for one in found])
    else:
        _show(found)
    if broken(found):
        raise click.exceptions.Exit(1)


def _show(found: list[Finding]) -> None:
    out = console()
    rows = table("PART", "STATUS", "FOUND", "NEEDED FOR")
    for one in found:
        rows.add_row(
            cell(one.part),
            cell(one.status, STYLES[one.status]),
            cell(one.found),
            cell(one.needed_for),
        )
    out.print(rows)
    remedies = [one for one in found if one.remedy]
    if remedies:
        out.print()
        out.print("What brings the rest:")
    for one in remedies:
        out.print(cell(f"  {one.part}: {one.remedy}"))
