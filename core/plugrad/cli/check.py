"""``plugrad check``: run the battery of every operator, or fill certificates beforehand."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from plugrad.cli.devices import available
from plugrad.cli.ops import status_of
from plugrad.cli.output import (
    cell,
    console,
    json_option,
    nothing_matches,
    only_json,
    pattern_argument,
    write_json,
)


@click.command()
@pattern_argument
@click.option(
    "--warm",
    is_flag=True,
    help="Verify what has no certificate yet and keep certificates, so that later processes start "
    "without it. Otherwise certificates are ignored and everything runs, more thoroughly.",
)
@click.option(
    "--device",
    default="cpu",
    metavar="NAME",
    help="Where: cpu (the default), cuda, or cuda-emulated, which runs CUDA kernels on the host (it comes with the "
    "distribution plugrad-emulator). On a device, results and gradients are compared with the CPU's. Passing on "
    "the emulated device is no proof for hardware; certificates are kept apart.",
)
@json_option
def check(pattern: str | None, warm: bool, device: str, as_json: bool) -> None:
    """Check the gradients of all operators, or of those that PATTERN matches.

    PATTERN is a shell pattern such as 'ste::*', 'ste' (a whole namespace) or '*log*'. The exit code is
    1 if an operator fails, if a plugin cannot be loaded, or if nothing matches.
    """
    from plugrad import registry

    start = time.perf_counter()
    device = available(device)
    with only_json(as_json):
        found = registry.operators(pattern)
        broken = [
            plugin
            for plugin in registry.plugins()
            if plugin.status == "quarantined" and _concerns(plugin, pattern)
        ]
        if not found and not broken:
            names = [operator.name for operator in registry.operators()]
            raise click.ClickException(nothing_matches(pattern, names))
        one = _warm if warm else _battery
        results = _run(found, lambda operator: one(operator, device), as_json)
    failed = [one for one in results if not one["passed"]]
    passed = not failed and not broken
    seconds = time.perf_counter() - start
    if as_json:
        plugins = [{"name": p.name, "status": p.status, "reason": p.reason} for p in broken]
        write_json(
            {
                "passed": passed,
                "device": registry.label(device),
                "seconds": seconds,
                "operators": results,
                "broken_plugins": plugins,
            }
        )
    else:
        _conclude(results, failed, broken, seconds, registry.label(device))
    if not passed:
        raise click.exceptions.Exit(1)


# ------------------------------------------------------------------------------------ one operator


def _battery(operator: Any, device: str) -> dict[str, Any]:
    """The whole battery, whatever certificates there are."""
    from plugrad import contract, registry

    # The operators that its rule calls are verified with it: inside a backward no battery can start.
    with registry.group():
        if device != "cpu":
            registry.verify(
                operator
            )  # on the CPU, with whose results those of a device are compared
        report = contract.check(operator, quick=False, device=device)
    return {"name": operator.name, **report.to_dict(), "text": str(report)}


def _warm(operator: Any, device: str) -> dict[str, Any]:
    """What the first call would do: find a certificate, or run the battery and keep one."""
    from plugrad import registry

    start = time.perf_counter()
    text, passed = "", True
    try:
        registry.verify(operator, device=device)
    except (registry.OperatorRefused, NotImplementedError) as error:
        text, passed = str(error), False
    status, reason = status_of(operator, device)
    return {
        "name": operator.name,
        "passed": passed,
        "status": status,
        "reason": reason,
        "seconds": time.perf_counter() - start,
        "text": text,
    }


def _run(
    operators: list[Any], one: Callable[[Any], dict[str, Any]], as_json: bool
) -> list[dict[str, Any]]:
    """Check operators one after the other, with a line for each, and a bar on a terminal."""
    from plugrad import registry

    out = console(stderr=as_json)
    results = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=len(operators))
        for operator in operators:
            bar.update(task, description=operator.name)
            try:
                result = one(operator)
            except registry.OperatorRefused as error:
                result = {"name": operator.name, "passed": False, "text": str(error)}
            except Exception as error:
                # A battery that breaks on one operator must not hide what is wrong with the others.
                result = {
                    "name": operator.name,
                    "passed": False,
                    "text": f"{operator.name}: the check itself broke: {type(error).__name__}: {error}\n"
                    + traceback.format_exc(),
                }
            results.append(result)
            bar.advance(task)
            if not as_json:
                out.print(_line(result))
                if not result["passed"]:
                    out.print(cell(f"\n{result['text']}\n"))
    return results


def _line(result: dict[str, Any]) -> Any:
    if not result["passed"]:
        return cell(f"FAILED  {result['name']}", "bold red")
    details = []
    if "samples" in result:
        details.append(f"{result['samples']} samples")
    if result.get("status"):
        details.append(result["status"])
    details.append(f"{1e3 * result['seconds']:.1f} ms")
    return cell(f"passed  {result['name']}  ({', '.join(details)})")


def _conclude(
    results: list[dict[str, Any]],
    failed: list[dict[str, Any]],
    broken: list[Any],
    seconds: float,
    device: str,
) -> None:
    """What could not be loaded, reasons for missing certificates, and a line that sums it up."""
    out = console()
    where = "" if device == "cpu" else f" on {device}"
    for plugin in broken:
        out.print()
        out.print(cell(f"The plugin {plugin.name!r} cannot be loaded: {plugin.reason}", "bold red"))
    reasons: dict[str, list[str]] = {}
    for one in results:
        if one["passed"] and one.get("reason"):
            reasons.setdefault(one["reason"], []).append(one["name"])
    for reason, names in reasons.items():
        out.print()
        out.print(cell(f"No certificate for {', '.join(names)}: {reason}"))
    out.print()
    summary = (
        f"{len(results) - len(failed)} of {len(results)} operators passed{where} in {seconds:.1f} s"
    )
    if failed:
        summary += f", {len(failed)} failed ({', '.join(one['name'] for one in failed)})"
    if broken:
        summary += f", {len(broken)} plugin{'s' * (len(broken) > 1)} could not be loaded"
    out.print(cell(summary + ".", "bold red" if failed or broken else "bold green"))


def _concerns(plugin: Any, pattern: str | None) -> bool:
    """Whether a plugin that cannot be loaded might have offered what `pattern` asks for."""
    if pattern is None:
        return True
    namespace = pattern.partition("::")[0]
    return any(fnmatchcase(name, namespace) for name in plugin.namespaces)
