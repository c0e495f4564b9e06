"""The hooks that a plugin may implement; `plugrad.hookimpl` marks the implementations.

Hooks run while a plugin is loaded, never in a call: calling an operator goes through a flat table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from plugrad.registry.staging import Registrar

__all__ = ["HOOKS", "PROJECT", "hookimpl", "manager"]

PROJECT = "plugrad"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class Hooks:
    """Specifications. Everything a plugin gives to `registry` is kept together or not at all."""

    @hookspec
    def plugrad_register_ops(self, registry: Registrar) -> None:
        """Offer operators: ``registry.add(op, …)`` or ``registry.add_module(module)``."""

    @hookspec
    def plugrad_register_kernels(self, registry: Registrar) -> None:
        """Offer kernels of existing operators: ``registry.kernel("ns::name", device, function)``."""

    @hookspec
    def plugrad_register_backends(self, registry: Registrar) -> None:
        """Offer array backends: ``registry.backend(device, backend)``."""


HOOKS = ("plugrad_register_backends", "plugrad_register_ops", "plugrad_register_kernels")
"""The hooks in the order in which they are called."""


def manager() -> pluggy.PluginManager:
    """A plugin manager that knows the hooks and no plugin.

    Each plugin is loaded by a manager of its own: one that fails leaves nothing behind, and a
    mistake in one (an unknown hook, a wrong signature) is never reported against another.
    """
    made = pluggy.PluginManager(PROJECT)
    made.add_hookspecs(Hooks)
    return made
