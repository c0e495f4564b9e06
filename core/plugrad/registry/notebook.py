"""`plugrad.register`: an operator of no plugin, from a notebook cell or a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from plugrad.registry.errors import DeclarationError, NameConflict
from plugrad.registry.staging import is_operator, method_conflict, replacement_problem
from plugrad.registry.table import split

if TYPE_CHECKING:
    from plugrad.registry.loader import Loader
    from plugrad.registry.table import AnyOperator
    from plugrad.registry.verify import Verifier

__all__ = ["register"]

T = TypeVar("T", bound="AnyOperator")


def register(operator: T, loader: Loader, verifier: Verifier) -> T:
    """Register one operator by hand; see `plugrad.register`."""
    if not is_operator(operator):
        raise TypeError(
            "plugrad.register expects an operator made by plugrad.operator, plugrad.elementwise or "
            f"plugrad.composite, got {operator!r} of type {type(operator).__name__}"
        )
    name, table = operator.name, loader.table
    with loader.lock:
        _check(operator, loader)
        previous = table.operators.get(name)
        table.operators[name] = operator
    table.changed([name])
    try:
        # In the table already, so that the operator's own rule can call it by its name.
        verifier.verify(operator)
        with loader.lock:
            loader.install_methods([operator])
    except BaseException:
        with loader.lock:
            if table.operators.get(name) is operator:
                if previous is None:
                    del table.operators[name]
                else:
                    table.operators[name] = previous
        table.changed([name])
        raise
    if operator.replaces:
        full = "::".join(split(operator.replaces))
        with loader.lock:
            table.replacements[full] = operator
        table.changed([full])
    return operator


def _check(operator: AnyOperator, loader: Loader) -> None:
    name = operator.name
    namespace = split(name)[0]
    plugin = loader.owner(namespace)
    if plugin is not None and plugin.status != "blocked":
        raise NameConflict(
            f"'{name}' cannot be registered by hand: the namespace '{namespace}' is owned by the "
            f"installed distribution {plugin.distribution} {plugin.version} ({plugin.module}). "
            "Choose another namespace, such as 'my'"
        )
    present = loader.table.operators.get(name)
    if present is not None and present is not operator and present.module != operator.module:
        raise NameConflict(
            f"'{name}' is already registered by the module {present.module}, and the module "
            f"{operator.module} registers it again; only the same module may"
        )
    problems = list(operator.problems())
    if operator.method:
        problems += method_conflict(operator, loader.table.methods)
    if operator.replaces:
        loader.get(operator.replaces)
        problems += replacement_problem(operator, loader.table)
    if problems:
        raise DeclarationError(f"'{name}' cannot be registered: {'; '.join(problems)}")
