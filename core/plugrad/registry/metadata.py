"""Which plugins are installed, read from entry-point metadata alone.

No plugin's code runs here. Names that two distributions claim are found here too, so that the
outcome never depends on which of them happens to be imported first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path

from plugrad.registry.quarantine import KERNELS, OPERATORS, Plugin

__all__ = [
    "DISTRIBUTION",
    "STANDARD",
    "canonical",
    "name_of",
    "scan",
    "unknown_names",
    "version_of",
]

STANDARD = "standard"
"""The namespace of the operators that ship with plugrad."""
DISTRIBUTION = "plugrad"

BLOCK = "PLUGRAD_BLOCK"
ALLOW = "PLUGRAD_PLUGINS"
NO_AUTOLOAD = "PLUGRAD_DISABLE_PLUGIN_AUTOLOAD"

_NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def scan(
    found: Iterable[Distribution] | None = None, environ: Mapping[str, str] | None = None
) -> list[Plugin]:
    """All plugins of the distributions, ordered by group, distribution and name.

    Parameters
    ----------
    found : iterable of Distribution, optional
        Where to look; the installed distributions unless given.
    environ : mapping, optional
        Read for ``PLUGRAD_BLOCK``, ``PLUGRAD_PLUGINS`` and ``PLUGRAD_DISABLE_PLUGIN_AUTOLOAD``;
        ``os.environ`` unless given.

    Returns
    -------
    list of Plugin
        None is imported. Those that the environment leaves out are "blocked", those whose
        metadata is unusable or that claim a name twice are "quarantined".
    """
    plugins: list[Plugin] = []
    seen: set[str] = set()
    for dist in distributions() if found is None else found:
        name = name_of(dist)
        # The first on sys.path is the one whose modules an import finds.
        if canonical(name) not in seen:
            seen.add(canonical(name))
            plugins += _of_distribution(dist, name)
    plugins.sort(key=lambda p: (p.group, canonical(p.distribution), p.namespaces, p.module))
    _apply_environment(plugins, os.environ if environ is None else environ)
    _find_conflicts(plugins)
    return plugins


def canonical(name: str) -> str:
    """A distribution's name as the packaging standards compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(dist: Distribution) -> str:
    """A distribution's name, also where its METADATA file is missing or unreadable."""
    try:
        name = dist.metadata["Name"]
    except Exception:
        name = None
    path = getattr(dist, "_path", None)
    return str(name) if name else Path(str(path)).stem.partition("-")[0] if path else "unknown"


def version_of(dist: Distribution) -> str:
    """A distribution's version, "" where its metadata does not tell."""
    try:
        return str(dist.metadata["Version"] or "")
    except Exception:
        return ""


def _of_distribution(dist: Distribution, name: str) -> list[Plugin]:
    try:
        text = dist.read_text("entry_points.txt") or ""
        # Parsing is the slow part, and most distributions have nothing for us.
        entries = list(dist.entry_points) if OPERATORS in text else []
    except Exception as error:
        entry = EntryPoint(name, "", OPERATORS)
        plugin = Plugin(OPERATORS, entry, name, "", dist, (name,))
        plugin.quarantine(f"its entry points cannot be read: {type(error).__name__}: {error}")
        return [plugin]
    grouped: dict[tuple[str, str], list[EntryPoint]] = {}
    for entry in entries:
        if entry.group in (OPERATORS, KERNELS):
            grouped.setdefault((entry.group, entry.value), []).append(entry)
    return [_plugin(dist, name, group, members) for (group, _), members in grouped.items()]


def _plugin(dist: Distribution, name: str, group: str, entries: list[EntryPoint]) -> Plugin:
    # A kernel plugin may be named for one operator, "ns::name": it serves that namespace.
    names = sorted(e.name.partition("::")[0] if group == KERNELS else e.name for e in entries)
    plugin = Plugin(group, entries[0], name, version_of(dist), dist, tuple(dict.fromkeys(names)))
    wrong = [n for n in names if not _NAMESPACE.match(n)]
    if wrong:
        plugin.quarantine(
            f"the entry point '{wrong[0]}' of the group '{group}' is no namespace: expected a "
            "Python identifier such as 'ste'"
        )
    elif group == OPERATORS and len(plugin.namespaces) < len(names):
        plugin.quarantine(f"it claims the namespace '{names[0]}' twice")
    return plugin


def _apply_environment(plugins: list[Plugin], environ: Mapping[str, str]) -> None:
    block, allow = _names(environ, BLOCK), _names(environ, ALLOW)
    no_autoload = environ.get(NO_AUTOLOAD, "") not in ("", "0")
    for plugin in plugins:
        own = {canonical(n) for n in plugin.namespaces} | {canonical(plugin.distribution)}
        standard = STANDARD in plugin.namespaces and canonical(plugin.distribution) == DISTRIBUTION
        reason = ""
        if own & block:
            reason = f"{BLOCK}={environ[BLOCK]} leaves it out"
        elif own & allow or standard:
            continue
        elif allow:
            reason = f"{ALLOW}={environ[ALLOW]} does not name it"
        elif no_autoload:
            reason = f"{NO_AUTOLOAD} is set and {ALLOW} does not name it"
        if reason:
            plugin.status, plugin.reason = "blocked", reason


def _names(environ: Mapping[str, str], variable: str) -> set[str]:
    return {canonical(n.strip()) for n in environ.get(variable, "").split(",") if n.strip()}


def unknown_names(plugins: Iterable[Plugin], environ: Mapping[str, str]) -> dict[str, list[str]]:
    """The names in ``PLUGRAD_PLUGINS`` and ``PLUGRAD_BLOCK`` that no plugin and no distribution of one has, by variable."""
    known = {
        canonical(name) for plugin in plugins for name in (*plugin.namespaces, plugin.distribution)
    }
    return {
        variable: unknown
        for variable in (ALLOW, BLOCK)
        if (unknown := sorted(_names(environ, variable) - known))
    }


def _find_conflicts(plugins: list[Plugin]) -> None:
    """Quarantine all plugins that claim one namespace: none of them can be preferred silently."""
    claims: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        if plugin.group == OPERATORS and plugin.status != "blocked":
            for namespace in plugin.namespaces:
                claims.setdefault(namespace, []).append(plugin)
    for namespace, claimants in claims.items():
        if len(claimants) > 1:
            who = " and ".join(f"{p.distribution} {p.version} ({p.module})" for p in claimants)
            for plugin in claimants:
                plugin.quarantine(
                    f"the namespace '{namespace}' is claimed by {who}. Uninstall one of them, or "
                    f"leave one out with {BLOCK}={claimants[-1].distribution}"
                )
