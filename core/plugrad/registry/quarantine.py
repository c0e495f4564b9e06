"""Plugins that are left out, and why.

A plugin that cannot be loaded costs nobody but its users: importing plugrad works, the other
plugins work, and each use of one of its operators raises the reason written down here.
"""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from plugrad.registry.errors import PluginQuarantined, RegistryError

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

__all__ = ["KERNELS", "OPERATORS", "Plugin", "PluginInfo", "Status", "raising", "reason_of"]

OPERATORS = "plugrad"
"""Entry-point group of plugins that own a namespace of operators."""
KERNELS = "plugrad.kernels"
"""Entry-point group of plugins that offer kernels of operators of others."""

Status = Literal["not loaded", "loaded", "quarantined", "blocked"]


@dataclass(frozen=True)
class PluginInfo:
    """What is known of one plugin: entry points of one distribution that name the same module.

    Attributes
    ----------
    name : str
        The first of its namespaces; of a kernel plugin, what it serves.
    distribution, version : str
        The installed distribution that declares the entry point.
    module : str
        The module that holds the hooks.
    namespaces : tuple of str
        The namespaces of operators it owns; of a kernel plugin, those it serves.
    status : {"not loaded", "loaded", "quarantined", "blocked"}
    reason : str
        Why it is quarantined or blocked, else "".
    operators : tuple of str
        Full names of the operators it registered.
    group : {"plugrad", "plugrad.kernels"}
    kernels : tuple of (str, str)
        Operator and device of each kernel it serves.
    """

    name: str
    distribution: str
    version: str
    module: str
    namespaces: tuple[str, ...]
    status: Status
    reason: str = ""
    operators: tuple[str, ...] = ()
    group: str = OPERATORS
    kernels: tuple[tuple[str, str], ...] = ()


@dataclass(eq=False)
class Plugin:
    """The loader's own record of a plugin; `info` is the view that others get."""

    group: str
    entry: EntryPoint
    distribution: str
    version: str
    dist: Distribution | None
    namespaces: tuple[str, ...]
    status: Status = "not loaded"
    reason: str = ""
    error: BaseException | None = None
    operators: tuple[str, ...] = ()
    kernels: tuple[tuple[str, str], ...] = ()
    imported: float = 0.0
    """When its module was imported, in seconds since the epoch; 0 before that."""

    @property
    def module(self) -> str:
        """The module (``module:attribute`` where an entry point says so) that holds the hooks."""
        return self.entry.value

    @property
    def label(self) -> str:
        """For messages: ``'ste' (plugrad-ste 1.0)``."""
        return f"'{self.namespaces[0]}' ({self.distribution} {self.version})".replace(" )", ")")

    def info(self) -> PluginInfo:
        """What others may know."""
        return PluginInfo(
            self.namespaces[0],
            self.distribution,
            self.version,
            self.module,
            self.namespaces,
            self.status,
            self.reason,
            self.operators,
            self.group,
            self.kernels,
        )

    def quarantine(self, reason: str, error: BaseException | None = None) -> None:
        """Leave the plugin out from now on."""
        self.status, self.reason = "quarantined", reason
        # The traceback would keep every frame of the failed import, and their arrays, alive.
        self.error = error.with_traceback(None) if error is not None else None


def raising(plugin: Plugin, wanted: str = "") -> PluginQuarantined:
    """The error for a use of a plugin that is quarantined or blocked."""
    subject = f"the operator '{wanted}' cannot be used: " if wanted else ""
    message = f"{subject}the plugin {plugin.label} is {plugin.status}: {plugin.reason}"
    error = PluginQuarantined(message, plugin.namespaces[0], plugin.reason)
    error.__cause__ = plugin.error
    return error


def reason_of(error: BaseException, plugin: Plugin, doing: str) -> str:
    """One readable reason from what a plugin raised.

    Parameters
    ----------
    error : BaseException
        What was raised.
    plugin : Plugin
        Whose it is.
    doing : str
        What was going on, such as "importing its module 'plugrad_ste'".
    """
    if isinstance(error, ModuleNotFoundError) and error.name and _is_its_own(error.name, plugin):
        return (
            f"its module '{error.name}' is gone: {plugin.distribution} {plugin.version} is still "
            "listed as installed but its files are missing. Reinstall or uninstall it"
        )
    if isinstance(error, RegistryError):
        return str(error)
    where = _last_line_of(error, plugin)
    return f"{type(error).__name__} while {doing}: {error}{where}"


def _is_its_own(missing: str, plugin: Plugin) -> bool:
    module = plugin.module.partition(":")[0].strip()
    return module == missing or module.startswith(missing + ".")


def _last_line_of(error: BaseException, plugin: Plugin) -> str:
    """Where in the plugin's own code it happened: the deepest frame that is not the loader's."""
    package = plugin.module.partition(":")[0].partition(".")[0]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        parts = frame.filename.split(os.sep)
        if package in parts or f"{package}.py" in parts:
            return f' (in "{frame.filename}", line {frame.lineno})'
    return ""
