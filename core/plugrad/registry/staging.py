"""What the hooks of one plugin offer, collected and checked before any of it is registered."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, TypeGuard

from plugrad.registry.errors import DeclarationError, NameConflict
from plugrad.registry.quarantine import KERNELS, Plugin
from plugrad.registry.table import Backend, KernelEntry, Table, split

if TYPE_CHECKING:
    from plugrad.registry.table import AnyOperator

__all__ = ["Registrar", "method_conflict", "replacement_problem"]


class Registrar:
    """The `registry` that a plugin's hooks are given.

    Nothing is registered while hooks run: if one of them raises, or anything that they offered
    is unusable, none of it ever was.
    """

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self.operators: dict[str, AnyOperator] = {}
        self.kernels: dict[tuple[str, str], KernelEntry] = {}
        self.backends: dict[str, Backend] = {}

    # ---- for plugins -------------------------------------------------------------------------

    def add(self, *operators: AnyOperator) -> None:
        """Offer operators.

        Parameters
        ----------
        *operators
            Made by ``plugrad.operator``, ``plugrad.elementwise`` or ``plugrad.composite``.

        Raises
        ------
        TypeError
            One of them is something else.
        DeclarationError
            Two have the same name.
        """
        for operator in operators:
            if not is_operator(operator):
                raise TypeError(
                    "registry.add expects operators made by plugrad.operator, plugrad.elementwise "
                    f"or plugrad.composite, got {operator!r} of type {type(operator).__name__}"
                )
            present = self.operators.setdefault(operator.name, operator)
            if present is not operator:
                raise DeclarationError(
                    f"two operators are named '{operator.name}': one of the module "
                    f"{present.module}, one of {operator.module}"
                )

    def add_module(self, *modules: ModuleType) -> None:
        """Offer every operator that the modules define.

        Operators of other namespaces that a module merely imported are left alone.
        """
        for module in modules:
            if not isinstance(module, ModuleType):
                raise TypeError(f"registry.add_module expects modules, got {module!r}")
            for value in list(vars(module).values()):
                if is_operator(value):
                    ours = split(value.name)[0] in self._plugin.namespaces
                    if ours or value.module == module.__name__:
                        self.add(value)

    def kernel(self, name: str, device: str, function: Callable[..., object]) -> None:
        """Offer a kernel for an operator that exists.

        Parameters
        ----------
        name : str
            Full name of the operator, such as ``"standard::exp"``.
        device : str
            Such as ``"cpu"``.
        function : callable
            Called ``f(*arrays, out=None, **constants)``; used once the operator's whole battery
            has passed with it. On the CPU it may return NotImplemented for what it does not serve (a
            dtype, a shape): the operator's own kernel does then.
        """
        if not isinstance(name, str) or not isinstance(device, str) or not callable(function):
            raise TypeError(
                "registry.kernel expects the name of an operator, a device and a callable, got "
                f"{name!r}, {device!r} and {function!r}"
            )
        entry = KernelEntry("::".join(split(name)), device, function, self._plugin)
        if self.kernels.setdefault((entry.operator, device), entry) is not entry:
            raise DeclarationError(f"two kernels are offered for '{name}' on the device '{device}'")

    def backend(self, device: str, backend: object) -> None:
        """Offer an array backend for a device."""
        if not isinstance(device, str) or not device:
            raise TypeError(f"registry.backend expects the name of a device, got {device!r}")
        if device in self.backends:
            raise DeclarationError(f"two backends are offered for the device '{device}'")
        self.backends[device] = Backend(device, backend, self._plugin.distribution)

    # ---- for the loader ----------------------------------------------------------------------

    def needs(self) -> list[str]:
        """Operators of other plugins that a kernel or a replacement is for."""
        named = {name for name, _ in self.kernels}
        named |= {"::".join(split(op.replaces)) for op in self.operators.values() if op.replaces}
        return sorted(named - self.operators.keys())

    def check(self, table: Table) -> None:
        """Raise what stands against registering all of this."""
        if not (self.operators or self.kernels or self.backends):
            raise DeclarationError(
                "it registers nothing: none of its hooks offered an operator, a kernel or a backend"
            )
        problems: list[str] = []
        methods: dict[str, AnyOperator] = dict(table.methods)
        for name, operator in self.operators.items():
            problems += self._problems(name, operator, table)
            if operator.method:
                problems += method_conflict(operator, methods)
                methods.setdefault(split(name)[1], operator)
        problems += self._kernel_problems(table)
        for device in self.backends:
            taken = table.backends.get(device)
            if taken is not None:
                problems.append(f"{taken.distribution} has a backend for '{device}' already")
        if problems:
            raise DeclarationError("; ".join(problems))

    def _problems(self, name: str, operator: AnyOperator, table: Table) -> list[str]:
        namespaces = self._plugin.namespaces if self._plugin.group != KERNELS else ()
        if split(name)[0] not in namespaces:
            owned = ", ".join(f"'{n}'" for n in namespaces) or "none"
            return [f"'{name}' is outside the plugin's namespaces ({owned})"]
        found = [f"'{name}': {problem}" for problem in operator.problems()]
        taken = table.operators.get(name)
        if taken is not None and taken is not operator:
            found.append(f"the name '{name}' is taken by the module {taken.module}")
        found += replacement_problem(operator, table)
        return found

    def _kernel_problems(self, table: Table) -> list[str]:
        found = []
        for (name, device), entry in self.kernels.items():
            operator = self.operators.get(name) or table.operators.get(name)
            taken = table.kernels.get((name, device))
            if operator is None:
                found.append(f"it offers a kernel for '{name}', which no plugin offers")
            elif not hasattr(operator, "_set_kernel"):
                found.append(f"it offers a kernel for '{name}', a composite, which has none")
            elif taken is not None:
                found.append(
                    f"the kernel of '{name}' on '{device}' is offered by both "
                    f"{taken.plugin.distribution} and {entry.plugin.distribution}; leave one out "
                    f"with PLUGRAD_BLOCK={entry.plugin.distribution}"
                )
        return found


def is_operator(value: object) -> TypeGuard[AnyOperator]:
    """Whether a value is what one of the decorators makes."""
    from plugrad.registry.declared import Declared

    return isinstance(value, Declared)


def method_conflict(operator: AnyOperator, methods: dict[str, AnyOperator]) -> list[str]:
    """Whether `operator` may become a method of Tensor; what stands against it."""
    from plugrad.graph.tensor import Tensor

    name = split(operator.name)[1]
    other = methods.get(name)
    if other is not None and other.name != operator.name:
        return [f"'{operator.name}': the method Tensor.{name} is the operator '{other.name}'"]
    if other is None and name in vars(Tensor):
        return [f"'{operator.name}': Tensor defines '{name}' itself, so it cannot be a method"]
    return []


def replacement_problem(operator: AnyOperator, table: Table) -> list[str]:
    """Whether `operator` can stand in for what it `replaces`; what stands against it."""
    if not operator.replaces:
        return []
    name = "::".join(split(operator.replaces))
    old = table.operators.get(name)
    if old is None:
        return [f"'{operator.name}' replaces '{name}', which no plugin offers"]
    taken = table.replacements.get(name)
    if taken is not None and taken.name != operator.name:
        raise NameConflict(
            f"'{name}' is replaced by both '{taken.name}' ({taken.owner}) and "
            f"'{operator.name}'; leave one out with PLUGRAD_BLOCK"
        )
    mine, theirs = getattr(operator, "schema", None), getattr(old, "schema", None)
    if mine is not None and theirs is not None:
        for part in ("inputs", "constants", "outputs"):
            if getattr(mine, part) != getattr(theirs, part):
                return [
                    f"'{operator.name}' cannot replace '{name}': its {part} are "
                    f"{getattr(mine, part)}, expected {getattr(theirs, part)}"
                ]
    return []
