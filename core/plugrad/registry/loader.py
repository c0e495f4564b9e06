"""Our own loader of plugins: lazy, in a fixed order, each plugin on its own, all or nothing.

(a) Metadata says which plugin owns a namespace. Its module is imported, and its hooks run, when
    the namespace is first used or listed.
(b) Modules are imported and hooks run without our lock: an import takes Python's own locks, and
    holding ours meanwhile could deadlock with a module that uses an operator while it is
    imported. What the hooks offered is checked and registered under the lock, by whichever thread
    is first.
(c) A plugin that fails is quarantined (see `quarantine.py`) and every other one still works.
"""

from __future__ import annotations

import difflib
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from plugrad.graph import roles
from plugrad.registry.errors import DeclarationError, UnknownOperator
from plugrad.registry.hookspecs import HOOKS, manager
from plugrad.registry.quarantine import KERNELS, OPERATORS, Plugin, raising, reason_of
from plugrad.registry.staging import Registrar
from plugrad.registry.table import Table, matches, split

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from plugrad.registry.table import AnyOperator

__all__ = ["STRICT", "Loader"]

STRICT = "PLUGRAD_STRICT_PLUGINS"

START = time.time()
"""When plugrad was imported; a module that was there before counts as imported then."""


class Loader:
    """The plugins of a set of distributions and the table of what they registered.

    Parameters
    ----------
    found : iterable of Distribution, optional
        Where to look for plugins; what is installed unless given.
    environ : mapping, optional
        The environment variables to obey; ``os.environ`` unless given.
    methods : bool, optional
        Whether operators declared ``method=True`` become methods of Tensor.

    Notes
    -----
    Safe to use from several threads. Nothing is read before the first use.
    """

    def __init__(
        self,
        found: Iterable[Distribution] | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        methods: bool = False,
    ) -> None:
        self.table = Table()
        self.lock = threading.RLock()
        self.environ = os.environ if environ is None else environ
        self._found = found
        self._methods = methods
        self._plugins: list[Plugin] | None = None
        self._local = threading.local()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        # Another thread of the parent may have held the lock; it does not exist here.
        self.lock = threading.RLock()

    # ---- what is there -----------------------------------------------------------------------

    @property
    def strict(self) -> bool:
        """Whether a plugin that fails raises at once (``PLUGRAD_STRICT_PLUGINS=1``)."""
        return self.environ.get(STRICT, "") not in ("", "0")

    @property
    def plugins(self) -> list[Plugin]:
        """Every plugin, loaded or not; the first use reads the metadata."""
        if self._plugins is None:
            with self.lock:
                if self._plugins is None:
                    from plugrad.registry.metadata import scan

                    self._plugins = scan(self._found, self.environ)
        if self.strict:
            for plugin in self._plugins:
                if plugin.status == "quarantined":
                    raise raising(plugin)
        return self._plugins

    def misnamed(self) -> list[str]:
        """A sentence for each name in ``PLUGRAD_PLUGINS`` and ``PLUGRAD_BLOCK`` that no plugin has."""
        from plugrad.registry.metadata import unknown_names

        names = sorted({name for plugin in self.plugins for name in plugin.namespaces})
        said = []
        for variable, unknown in unknown_names(self.plugins, self.environ).items():
            for name in unknown:
                close = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean '{close[0]}'?" if close else ""
                said.append(
                    f"{variable} names '{name}', but no installed plugin is called that{hint}"
                )
        return said

    def owner(self, namespace: str) -> Plugin | None:
        """The plugin that owns a namespace; among blocked ones the first."""
        owners = [p for p in self.plugins if p.group == OPERATORS and namespace in p.namespaces]
        return next((p for p in owners if p.status != "blocked"), owners[0] if owners else None)

    def namespaces(self) -> list[str]:
        """All namespaces that a plugin owns or that have operators registered by hand."""
        owned = {n for p in self.plugins if p.group == OPERATORS for n in p.namespaces}
        return sorted(owned | {split(name)[0] for name in list(self.table.operators)})

    def package_of(self, operator: AnyOperator) -> Path | None:
        """The folder of the package whose plugin registered an operator, if it is a package."""
        from plugrad.registry.digest import root_of

        for plugin in self.plugins:
            if operator.name in plugin.operators:
                root = root_of(plugin.module.partition(":")[0].strip())
                return Path(root) if root is not None and os.path.isdir(root) else None
        return None

    # ---- getting operators -------------------------------------------------------------------

    def get(self, name: str) -> AnyOperator:
        """The operator of a name; loads the plugin that owns its namespace.

        Raises
        ------
        PluginQuarantined
            That plugin failed to load or is left out by the environment.
        UnknownOperator
            No plugin offers the name.
        """
        operator = self.find(name)
        if operator is None:
            namespace, short = split(name)
            raise UnknownOperator(self._unknown(f"{namespace}::{short}", namespace))
        return operator

    def find(self, name: str) -> AnyOperator | None:
        """As `get`, but None where no plugin offers the name: no message is worked out."""
        namespace, short = split(name)
        full = f"{namespace}::{short}"
        operator = self.table.get(full)
        if operator is None:
            self.load_namespace(namespace, full)
            operator = self.table.get(full)
        return operator

    def operators(self, pattern: str | None = None) -> list[AnyOperator]:
        """All operators whose name matches, sorted by name; loads every plugin."""
        self.load_all()
        return [op for name, op in sorted(self.table.operators.items()) if matches(name, pattern)]

    def load_all(self) -> None:
        """Load every plugin that is neither blocked nor quarantined."""
        for plugin in self.plugins:
            self.load(plugin)

    def load_namespace(self, namespace: str, wanted: str = "") -> None:
        """Load the plugin that owns a namespace and those that offer kernels for it.

        Raises
        ------
        PluginQuarantined
            The plugin is quarantined or blocked; `wanted` is named in the message.
        """
        plugin = self.owner(namespace)
        if plugin is None:
            return
        self.load(plugin)
        if plugin.status in ("quarantined", "blocked"):
            raise raising(plugin, wanted)
        if plugin.status == "loaded":
            for other in self.plugins:
                if other.group == KERNELS and namespace in other.namespaces:
                    self.load(other)

    def _unknown(self, full: str, namespace: str) -> str:
        plugin = self.owner(namespace)
        names = self.table.names(namespace)
        if plugin is None and not names:
            if namespace == "standard":
                return (
                    f"no plugin offers the operator '{full}': the distribution 'plugrad' should "
                    "offer the namespace 'standard' by an entry point of the group 'plugrad', but "
                    "no installed distribution does. Install plugrad again"
                )
            close = difflib.get_close_matches(namespace, self.namespaces(), 1)
            hint = f"; did you mean the namespace '{close[0]}'?" if close else ""
            return (
                f"no plugin offers the operator '{full}': no installed distribution has an entry "
                f"point '{namespace}' in the group '{OPERATORS}', and none was registered by hand"
                f" (namespaces: {', '.join(self.namespaces()) or 'none'}){hint}"
            )
        if plugin is not None and plugin.status == "not loaded":
            return (
                f"the operator '{full}' is not there yet: the plugin {plugin.label} is being "
                f"loaded by this thread. Use it inside functions, not while '{plugin.module}' is "
                "imported"
            )
        close = difflib.get_close_matches(split(full)[1], names, 1)
        hint = f"; did you mean '{namespace}::{close[0]}'?" if close else ""
        who = f"the plugin {plugin.label}" if plugin is not None else "what was registered by hand"
        return f"no operator '{full}': {who} has none of that name{hint}"

    # ---- loading one plugin ------------------------------------------------------------------

    def load(self, plugin: Plugin) -> None:
        """Import a plugin's module, run its hooks, and register all that they offer, or nothing.

        Raises
        ------
        PluginQuarantined
            It failed, and ``PLUGRAD_STRICT_PLUGINS=1`` is set.
        """
        if plugin.status != "not loaded" or plugin in self._loading:
            return
        self._loading.append(plugin)
        try:
            self._load(plugin)
        finally:
            self._loading.remove(plugin)

    @property
    def _loading(self) -> list[Plugin]:
        """The plugins that this thread is loading right now; imports may nest."""
        if not hasattr(self._local, "loading"):
            self._local.loading = []
        loading: list[Plugin] = self._local.loading
        return loading

    def _load(self, plugin: Plugin) -> None:
        doing = f"importing its module '{plugin.module}'"
        try:
            top = plugin.module.partition(":")[0].partition(".")[0].strip()
            plugin.imported = START if top in sys.modules else time.time()
            module = plugin.entry.load()
            doing = "running its hooks"
            offered = self._run_hooks(plugin, module)
            doing = "registering what it offers"
            for name in offered.needs():
                self.get(name)
            with self.lock:
                if plugin.status == "not loaded":
                    offered.check(self.table)
                    self._commit(plugin, offered)
        # A module that calls sys.exit() while it is imported is as broken as one that raises.
        except (Exception, SystemExit) as error:
            with self.lock:
                if plugin.status == "not loaded":
                    plugin.quarantine(reason_of(error, plugin, doing), error)
            if self.strict:
                raise raising(plugin) from error

    def _run_hooks(self, plugin: Plugin, module: object) -> Registrar:
        plugins = manager()
        plugins.register(module, name=plugin.module)
        # An implementation of a hook that does not exist is most likely a misspelt one.
        plugins.check_pending()
        offered = Registrar(plugin)
        for hook in HOOKS:
            getattr(plugins.hook, hook)(registry=offered)
        unmarked = [
            hook
            for hook in HOOKS
            if callable(getattr(module, hook, None))
            and not getattr(plugins.hook, hook).get_hookimpls()
        ]
        if unmarked:
            raise DeclarationError(
                f"its function {unmarked[0]} is not marked with @plugrad.hookimpl, so it is no hook"
            )
        return offered

    def _commit(self, plugin: Plugin, offered: Registrar) -> None:
        """Register what was checked. Only methods can still fail, so they come first."""
        if self._methods:
            self.install_methods(offered.operators.values())
        table = self.table
        names = set(offered.operators)
        for name, operator in offered.operators.items():
            operator.owner = plugin.distribution
            table.operators[name] = operator
            if operator.replaces:
                replaced = "::".join(split(operator.replaces))
                table.replacements[replaced] = operator
                names.add(replaced)
        for key, entry in offered.kernels.items():
            table.kernels[key] = entry
        table.backends.update(offered.backends)
        plugin.operators = tuple(sorted(offered.operators))
        plugin.kernels = tuple(sorted(offered.kernels))
        plugin.status = "loaded"
        self._reopen(offered)
        table.changed(names)

    def _reopen(self, offered: Registrar) -> None:
        """Have the operators that were offered a kernel verified again, with it."""
        from plugrad.registry.kernels import reopen

        for operator, device in offered.kernels:
            reopen(self.table.operators[operator], device)

    def install_methods(self, operators: Iterable[AnyOperator]) -> None:
        """Make operators declared ``method=True`` methods of Tensor: all of them or none."""
        done: list[str] = []
        try:
            for operator in operators:
                if operator.method:
                    name = split(operator.name)[1]
                    roles.install_method(name, operator)
                    done.append(name)
        except BaseException:
            for name in done:
                roles.remove_method(name)
            raise
        for operator in operators:
            if operator.method:
                self.table.methods[split(operator.name)[1]] = operator
