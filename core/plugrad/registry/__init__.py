"""The registry: plugins, the operators they offer, and what lets an operator be called.

Importing it reads nothing and loads no plugin; the first use of an operator does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar, cast

from plugrad.graph import roles as _roles
from plugrad.registry import hardware
from plugrad.registry import notebook as _notebook
from plugrad.registry.certificates import Certificate, Certificates
from plugrad.registry.composite import Composite, composite
from plugrad.registry.cuda import on_tensors, via_host
from plugrad.registry.declaration import operator
from plugrad.registry.declared import Declared
from plugrad.registry.elsewhere import METHODS as _METHODS
from plugrad.registry.errors import (
    DeclarationError,
    NameConflict,
    OperatorRefused,
    PluginQuarantined,
    RegistryError,
    UnknownOperator,
)
from plugrad.registry.expression import elementwise
from plugrad.registry.hookspecs import hookimpl
from plugrad.registry.loader import Loader
from plugrad.registry.namespace import Finder, Root
from plugrad.registry.operator import Operator
from plugrad.registry.outcome import Verification
from plugrad.registry.quarantine import PluginInfo
from plugrad.registry.schema import Schema
from plugrad.registry.table import Backend
from plugrad.registry.ufuncs import UFUNCS as _UFUNCS
from plugrad.registry.verify import Verifier

__all__ = [
    "Backend",
    "Certificate",
    "Composite",
    "DeclarationError",
    "NameConflict",
    "Operator",
    "OperatorRefused",
    "PluginInfo",
    "PluginQuarantined",
    "RegistryError",
    "Schema",
    "UnknownOperator",
    "Verification",
    "activate",
    "backends",
    "certificate",
    "composite",
    "cuda_certificates",
    "elementwise",
    "get",
    "group",
    "hookimpl",
    "label",
    "listen",
    "misnamed",
    "on_tensors",
    "operator",
    "operators",
    "ops",
    "plugins",
    "register",
    "standard",
    "uncertifiable",
    "verification",
    "verify",
    "via_host",
]

_loader = Loader(methods=True)
_certificates = Certificates(_loader)
_verifier = Verifier(_loader, _certificates)

ops = Root(_loader)
"""Every operator as an attribute: ``plugrad.ops.exp``, ``plugrad.ops.ste.round``."""

AnyOperator: TypeAlias = Operator | Composite
T = TypeVar("T", Operator, Composite)


def get(name: str) -> AnyOperator:
    """The operator of a name, such as ``"ste::round"``; a bare name is one of ``standard``.

    Raises
    ------
    UnknownOperator
        No plugin offers it.
    PluginQuarantined
        The plugin that owns its namespace failed to load, or is left out by the environment.
    """
    return _loader.get(name)


def standard(name: str) -> AnyOperator | None:
    """The standard operator of that name, or None if there is none; a plugin left out raises."""
    return _loader.find(f"standard::{name}")


def operators(pattern: str | None = None) -> list[AnyOperator]:
    """All operators, sorted by name; loads every plugin that can be loaded.

    Parameters
    ----------
    pattern : str, optional
        A shell pattern for the full name, or without ``::`` for the namespace or the name in it:
        ``"ste::*"``, ``"ste"``, ``"*round*"``. The empty list if nothing matches.
    """
    return _loader.operators(pattern)


def plugins(*, load: bool = False) -> list[PluginInfo]:
    """What is known of each installed plugin, ordered by group, distribution and name.

    Parameters
    ----------
    load : bool, default False
        Whether to load those that were not used yet, so that each is "loaded", "quarantined" or
        "blocked".
    """
    if load:
        _loader.load_all()
    return [plugin.info() for plugin in _loader.plugins]


def misnamed() -> list[str]:
    """A sentence for each plugin that an environment variable names and that is not installed."""
    return _loader.misnamed()


def listen(listener: Callable[[Iterable[str]], None]) -> None:
    """Have `listener` called with the full names that mean another operator than before.

    For whoever keeps operators by name: they are replaced (``replaces=``) or registered again.
    """
    _loader.table.listen(listener)


def backends() -> dict[str, Backend]:
    """The array backends that loaded plugins registered, by device."""
    return dict(_loader.table.backends)


def verify(op: Declared, *, device: str = "cpu", fresh: bool = False) -> None:
    """Make an operator callable on a device: by its certificate or, failing that, by its battery.

    Parameters
    ----------
    op : Operator or Composite
    device : str, default "cpu"
        As in ``tensor.device``; on another one than the CPU it must have passed on the CPU, too.
    fresh : bool, default False
        Run the battery whatever happened before.

    Raises
    ------
    OperatorRefused
        It did not pass, now or before; the message is the report.
    NotImplementedError
        It has no kernel for the device.
    """
    _verifier.verify(cast("AnyOperator", op), device=device, fresh=fresh)


def verification(op: AnyOperator, device: str = "cpu") -> Verification | None:
    """How an operator was verified on a device in this process; None if it was not yet."""
    return _verifier.verification(op, device)


def group() -> AbstractContextManager[None]:
    """A block in which operators that were not verified may be called; they are at its end.

    For code that runs an operator's rule by itself: a rule is called inside a backward, where no
    battery may start.
    """
    return _verifier.group()


def certificate(op: AnyOperator, device: str = "cpu") -> Certificate | None:
    """The certificate that holds for an operator as it is now, or None."""
    return _certificates.find(op, device)


def uncertifiable(op: AnyOperator, device: str = "cpu") -> str:
    """Why no certificate can be kept for an operator by itself; "" if one can."""
    return _certificates.key(op, device).reason


def cuda_certificates(op: AnyOperator, kind: str) -> list[Certificate]:
    """The certificates for CUDA that fit the code of an operator as it is now; no device is needed.

    Parameters
    ----------
    op : Operator or Composite
    kind : {"hardware", "emulated"}
    """
    return _certificates.seen(op, kind)


def activate(device: str) -> str:
    """Make a device available by its name ("cuda", "cuda-emulated"); returns what tensors on it call it."""
    return hardware.activate(device)


def label(device: str) -> str:
    """What reports call a device: "cpu", "cuda", "cuda (emulated)"."""
    return hardware.label(device)


def register(op: T) -> T:
    """Register an operator that belongs to no plugin, for a notebook or a script.

    Its battery runs at once. Registering again from the same module replaces what was there.

    Parameters
    ----------
    op : Operator or Composite

    Returns
    -------
    Operator or Composite
        `op` itself.

    Raises
    ------
    OperatorRefused
        Its battery found something wrong; the message is the report and nothing was registered.
    NameConflict
        An installed plugin owns the namespace, or another module registered the name.
    DeclarationError
        The declaration is not complete.
    """
    return _notebook.register(op, _loader, _verifier)


# ---- what the graph core asks ------------------------------------------------------------------


def _method(name: str) -> Callable[..., Any] | None:
    """A method of Tensor that only an operator not loaded yet can be."""
    if name.startswith("_"):
        return None
    found = standard(name)
    if found is not None and found.method:
        return found
    if name in _METHODS:
        raise UnknownOperator(_METHODS[name].replace("`", ""))
    return None


_roles.set_resolver(get)
_roles.set_method_resolver(_method)
_roles.set_ufunc_table(_UFUNCS)
# A role keeps the operator it was given; a replacement must reach it.
listen(lambda names: _roles.reset())
Finder(ops).install()
