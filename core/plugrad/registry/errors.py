"""What can go wrong between a plugin and a call of its operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plugrad.contract.report import Report

__all__ = [
    "DeclarationError",
    "NameConflict",
    "OperatorRefused",
    "PluginQuarantined",
    "RegistryError",
    "UnknownOperator",
]


class RegistryError(Exception):
    """Base of every error that the registry raises."""


class DeclarationError(RegistryError, ValueError):
    """An operator is declared in a way that cannot work; nothing was registered."""


class NameConflict(RegistryError, ValueError):
    """A name is already taken by another distribution, plugin or module."""


class UnknownOperator(RegistryError, LookupError, AttributeError):
    """No loaded or loadable plugin offers this name.

    It is a ``LookupError`` for ``plugrad.registry.get`` and an ``AttributeError`` for
    ``plugrad.ops.<name>``, so that ``hasattr`` and ``getattr`` with a default work.
    """


class PluginQuarantined(RegistryError, LookupError):
    """The plugin that owns the name failed to load or is left out; the message tells why.

    It is no ``AttributeError``, so that nothing that probes for attributes hides the reason.

    Attributes
    ----------
    plugin, reason : str
        The plugin's namespace (or the module that holds its hooks) and why it was left out.
    """

    def __init__(self, message: str, plugin: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin
        self.reason = reason


class OperatorRefused(RegistryError, RuntimeError):
    """An operator did not pass its battery, so it cannot be called.

    Parameters
    ----------
    report : plugrad.contract.Report
        What was checked and what failed; ``str(report)`` is the message.
    """

    def __init__(self, report: Report | str) -> None:
        super().__init__(str(report))
        self.report = report
