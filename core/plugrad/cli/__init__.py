"""The ``plugrad`` command: list plugins and operators, check gradients, train on real data, look at the machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the ``plugrad`` command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands after ``plugrad``; those of the process if absent.

    Returns
    -------
    int
        0 on success, 1 when something failed or a package is missing, 2 on wrong usage, 130 after
        Ctrl-C.
    """
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError as error:
        if list(sys.argv[1:] if arguments is None else arguments) == ["doctor"]:
            return _plain_doctor()
        print(
            f"The plugrad command needs click and rich, and {error.name!r} is not installed; 'plugrad doctor' alone does "
            'without. Install both with: pip install "plugrad[cli]"',
            file=sys.stderr,
        )
        return 1
    try:
        from plugrad.cli.commands import run

        return run(arguments)
    except KeyboardInterrupt:  # before click is there to take it
        print("Interrupted.", file=sys.stderr)
        return 130


def _plain_doctor() -> int:
    """What ``plugrad doctor`` finds, without what makes a table of it."""
    from plugrad.cli.findings import broken, findings, lines

    found = findings()
    for line in lines(found):
        print(line)
    return int(broken(found))
