"""``plugrad plugins``: who offers operators, and who failed to."""

from __future__ import annotations

from typing import Any

import click

from plugrad.cli.output import cell, console, json_option, only_json, table, write_json

STYLES = {"loaded": "green", "quarantined": "bold red", "blocked": "yellow"}


@click.command()
@json_option
def plugins(as_json: bool) -> None:
    """List the plugins: distribution, namespaces, state and number of operators.

    Every plugin is loaded; one that fails is listed as quarantined, with its reason.
    """
    from plugrad import registry

    with only_json(as_json):
        found = registry.plugins(load=True)
    misnamed = registry.misnamed()
    if as_json:
        for sentence in misnamed:
            click.echo(sentence, err=True)
        write_json([_as_dict(plugin) for plugin in found])
        return
    out = console()
    if not found:
        out.print("No plugins are installed.")
        return
    rows = table("PLUGIN", "DISTRIBUTION", "VERSION", "MODULE", "STATE", "OPERATORS")
    for plugin in found:
        rows.add_row(
            cell(plugin.name, "bold"),
            cell(plugin.distribution or "-"),
            cell(plugin.version or "-"),
            cell(plugin.module),
            cell(plugin.status, STYLES.get(plugin.status, "")),
            cell(f"{len(plugin.kernels)} kernels" if plugin.kernels else len(plugin.operators)),
        )
    out.print(rows)
    for plugin in found:
        if plugin.reason:
            out.print()
            out.print(cell(f"{plugin.name} is {plugin.status}: {plugin.reason}"))
    for sentence in misnamed:
        out.print()
        out.print(cell(sentence, "yellow"))


def _as_dict(plugin: Any) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "module": plugin.module,
        "namespaces": list(plugin.namespaces),
        "status": plugin.status,
        "reason": plugin.reason,
        "operators": list(plugin.operators),
        "kernels": [{"operator": name, "device": device} for name, device in plugin.kernels],
    }
