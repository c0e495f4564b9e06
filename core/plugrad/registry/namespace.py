"""`plugrad.ops`: every operator as an attribute, found when it is first asked for.

``plugrad.ops.exp`` is ``standard::exp``, ``plugrad.ops.ste.round`` is ``ste::round``. What was found
is kept in the namespace's ``__dict__``, so the next use is an ordinary attribute; it is dropped there
when the name comes to mean another operator. All ways of importing work: the root is the module
``plugrad.ops``, and a finder offers each namespace as a module below it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from plugrad.registry.errors import PluginQuarantined, UnknownOperator
from plugrad.registry.table import split

if TYPE_CHECKING:
    from plugrad.registry.loader import Loader

__all__ = ["Finder", "Namespace", "Root"]

ROOT = "plugrad.ops"
STANDARD = "standard"


class Namespace(ModuleType):
    """The operators of one namespace.

    Examples
    --------
    >>> plugrad.ops.ste.round
    <operator ste::round(x)>
    """

    def __init__(self, loader: Loader, namespace: str, name: str, doc: str) -> None:
        super().__init__(name, doc)
        self._loader = loader
        self._namespace = namespace
        loader.table.listen(self._forget)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        found = self._find(name)
        self.__dict__[name] = found
        return found

    def _find(self, name: str) -> Any:
        return self._loader.get(f"{self._namespace}::{name}")

    def _names(self) -> list[str]:
        """The operators in it; none where their plugin is left out, for looking around is no use."""
        with contextlib.suppress(PluginQuarantined):
            self._loader.load_namespace(self._namespace)
        return self._loader.table.names(self._namespace)

    def _forget(self, names: Iterable[str]) -> None:
        for full in names:
            namespace, name = split(full)
            if namespace == self._namespace:
                self.__dict__.pop(name, None)

    def __dir__(self) -> list[str]:
        return self._names()

    def __repr__(self) -> str:
        return f"<operators {self._namespace}::*>"


class Root(Namespace):
    """The standard operators, and the namespaces of all plugins."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader, STANDARD, ROOT, "Every operator, found when first used.")
        self._below: dict[str, Namespace] = {}
        # A package without folders: that is what lets `plugrad.ops.ste` be imported.
        self.__path__: list[str] = []
        self.__spec__ = ModuleSpec(ROOT, None, is_package=True)

    def _find(self, name: str) -> Any:
        try:
            return super()._find(name)
        except PluginQuarantined:
            if name not in self._loader.namespaces():
                raise
        except UnknownOperator as error:
            if name not in self._loader.namespaces():
                known = ", ".join(self._loader.namespaces())
                raise UnknownOperator(
                    f"{error}; nor does an installed plugin own the namespace '{name}' (there is {known})"
                ) from None
        return self.namespace(name)

    def namespace(self, name: str) -> Namespace:
        """The object for one namespace; it need not exist yet."""
        if name not in self._below:
            full, doc = f"{ROOT}.{name}", f"The operators of the namespace {name!r}."
            self._below[name] = Namespace(self._loader, name, full, doc)
            self._below[name].__spec__ = ModuleSpec(full, None)
        return self._below[name]

    def __dir__(self) -> list[str]:
        return sorted({*self._names(), *self._loader.namespaces()})

    def __repr__(self) -> str:
        return f"<operators of {', '.join(self._loader.namespaces()) or 'no plugin'}>"


class Finder:
    """Offers ``plugrad.ops.NAMESPACE`` to import statements (a meta path finder and its loader)."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a namespace that some plugin owns."""
        parent, _, name = fullname.rpartition(".")
        if parent != ROOT or name not in self._root._loader.namespaces():
            return None
        return ModuleSpec(fullname, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The namespace object itself."""
        return self._root.namespace(spec.name.rpartition(".")[2])

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""

    def install(self) -> None:
        """Put the root where ``import plugrad.ops`` finds it, once."""
        sys.modules[ROOT] = self._root
        if not any(isinstance(finder, Finder) for finder in sys.meta_path):
            sys.meta_path.append(self)
