"""Tables, JSON and progress: what people read goes through rich, what programs read stays pure."""

from __future__ import annotations

import contextlib
import difflib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

INTERRUPTED = 130  # 128 + SIGINT, what shells report for a command that Ctrl-C ended

json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Write JSON to the standard output, nothing else."
)


pattern_argument: Callable[[Any], Any] = click.argument("pattern", required=False)


def matching(pattern: str | None) -> list[Any]:
    """The operators that `pattern` matches, or all.

    Raises
    ------
    click.ClickException
        There is none.
    """
    from plugrad import registry

    found = registry.operators(pattern)
    if not found:
        raise click.ClickException(
            nothing_matches(pattern, [op.name for op in registry.operators()])
        )
    return found


def nothing_matches(pattern: str | None, names: list[str]) -> str:
    """What to say when no operator matches."""
    if pattern is None or not names:
        return "No plugin offers any operator; 'plugrad plugins' tells which plugins there are and why."
    wanted = pattern.rpartition("::")[2]
    close = difflib.get_close_matches(wanted, [name.partition("::")[2] for name in names], 3)
    hint = (
        f" Similar names: {', '.join(n for n in names if n.partition('::')[2] in close)}."
        if close
        else ""
    )
    return (
        f"No operator matches {pattern!r}. A pattern is a name such as 'exp', a namespace such as 'ste', "
        f"or has wildcards such as '*log*' or 'ste::*'.{hint}"
    )


def console(*, stderr: bool = False) -> Console:
    """A console on the current standard output (or error), which tests and pipes may have replaced."""
    found = Console(stderr=stderr, highlight=False, markup=False)
    if not found.is_terminal:
        # A pipe has no width: wide rows stay on one line, for grep and cut.
        found = Console(stderr=stderr, highlight=False, markup=False, width=10_000)
    return found


@contextlib.contextmanager
def only_json(wanted: bool) -> Iterator[None]:
    """Send what plugins print while they load to the standard error, so that JSON stays pure."""
    with contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext():
        yield


def write_json(data: Any) -> None:
    """Write `data` as JSON, one document, to the standard output."""
    click.echo(json.dumps(data, indent=2, default=str))


def table(*columns: str) -> Table:
    """An empty table with these headings."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def cell(text: object, style: str = "") -> Text:
    """Plain text: brackets in a signature are no markup."""
    return Text(str(text), style=style)
