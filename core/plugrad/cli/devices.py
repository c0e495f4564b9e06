"""The devices that commands run on."""

from __future__ import annotations

import click


def available(name: str) -> str:
    """Make a device available; what tensors on it call it.

    Raises
    ------
    click.ClickException
        It cannot be used.
    """
    from plugrad import registry

    try:
        return registry.activate(name)
    except (ValueError, RuntimeError) as error:
        raise click.ClickException(
            f"the device {name!r} cannot be used: {error}\n'plugrad doctor' tells what is missing"
        ) from error
