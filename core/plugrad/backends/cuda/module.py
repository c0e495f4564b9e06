"""A source text as a module of kernels, compiled and loaded on first use."""

from __future__ import annotations

import ctypes
import threading
import weakref
from pathlib import Path
from typing import Any

from plugrad.backends.cuda import context, cubin, device
from plugrad.backends.cuda.compiler import compile
from plugrad.backends.cuda.errors import CudaError, is_of_earlier, translated
from plugrad.backends.cuda.launch import Function

__all__ = ["Module", "keep_loaded"]

_modules: weakref.WeakSet[Module] = weakref.WeakSet()
_dropped: list[Any] = []  # what the driver loaded for modules that are gone


def keep_loaded() -> None:
    """Let the end of the process take the loaded modules: unloading one needs a context, which is gone by then."""
    for loaded in [*_dropped, *(module._loaded for module in list(_modules))]:
        if loaded is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))


def without_file(path: Path) -> str:
    """What is wrong where the file of a kernel is not there."""
    return (
        f"the kernel's file {path.name} is not beside its module. A package installs files that are no Python if its "
        f'pyproject.toml lists them: [tool.setuptools.package-data] "*" = ["*{path.suffix}"]'
    )


class Module:
    """Kernels that are compiled together.

    Parameters
    ----------
    source : str
        CUDA C++; kernels are declared ``extern "C" __global__``. What `prelude.cuh` offers can be used.
    name : str
        What messages call the module.
    origin : str
        The file that the author wrote the text in, for the compiler's messages.
    line : int
        The line of `origin` at which the text begins.

    Examples
    --------
    >>> module = Module('extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }', name="doubling")
    >>> module.function("twice")(1, 32, array)
    """

    _loaded: Any = None

    def __init__(self, source: str, *, name: str, origin: str = "", line: int = 0) -> None:
        self.source = source
        self.name = name
        self.origin = origin
        self.line = line
        self._lock = threading.RLock()
        self._functions: dict[str, Function] = {}
        self._parameters: dict[str, tuple[cubin.Parameter, ...]] = {}
        _modules.add(self)

    def __del__(self, dropped: list[Any] = _dropped) -> None:
        # A module and its functions hold each other, so that any thread may collect them. PyCUDA unloads on a thread
        # that has the context, and warns from within the collector on others: the next module to be loaded does it.
        if self._loaded is not None:
            dropped.append(self._loaded)

    @classmethod
    def from_file(cls, path: str | Path, *, before: str = "", name: str = "") -> Module:
        """The kernels of a ``.cu`` file.

        Parameters
        ----------
        path : str or Path
        before : str
            Text that stands in front of the file's, such as ``typedef float T;``.
        name : str
            What messages call the module; the file's name unless given.

        Raises
        ------
        FileNotFoundError
            The file is not there.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise FileNotFoundError(error.errno, without_file(path), str(path)) from None
        if before:
            text = f"{before}\n#line 1\n{text}"
        return cls(text, name=name or path.stem, origin=str(path), line=1)

    def function(self, name: str) -> Function:
        """A kernel by name; nothing is compiled before it is called."""
        with self._lock:
            found = self._functions.get(name)
            if found is None:
                found = self._functions[name] = Function(self, name)
            return found

    def compiled(self, arch: str | None = None) -> bytes:
        """The image for an architecture, by default that of the device at hand (see `compiler.compile`)."""
        return compile(self.source, arch, name=self.name, origin=self.origin, line=self.line)

    def load(self, name: str) -> tuple[Any, tuple[cubin.Parameter, ...] | None]:
        """A kernel as PyCUDA's function, and its parameters where the image tells them.

        Raises
        ------
        CompileError
            The text does not compile.
        CudaError
            The driver refuses the image, or has no kernel of that name in it.
        """
        with self._lock:
            context.enter()
            _dropped.clear()
            errors = device.driver().Error
            if self._loaded is None:
                image = self.compiled()
                try:
                    self._loaded = device.driver().module_from_buffer(image)
                except errors as error:
                    if is_of_earlier(error):
                        raise context.failed(error) from error
                    raise translated(error, f"the driver cannot load module {self.name}") from error
                self._parameters = cubin.parameters(image)
            try:
                function = self._loaded.get_function(name)
            except errors as error:
                if is_of_earlier(error):
                    raise context.failed(error) from error
                raise CudaError(
                    f"module {self.name} has no kernel named {name!r} ({error}); kernels are declared "
                    f'extern "C" __global__ void {name}(...)'
                ) from error
            return function, self._parameters.get(name)

    def __repr__(self) -> str:
        return f"<module {self.name!r} of CUDA kernels>"
