"""A family's `.cu` file as kernels, compiled for the types and sizes that a call needs.

(a) What a kernel's text leaves open (the type of an element, the size of a tile) are macros. Each combination that occurs
    is a module of its own, so that a program compiles what it uses and no more.
(b) Nothing of the backend is imported, and no file read, before the first launch.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Source", "cover", "zeros"]

MOST_BLOCKS = 1 << 16


class Source:
    """The kernels of a `.cu` file.

    Parameters
    ----------
    path : Path
    name : str
        What error messages call it.
    headers : str
        Files beside this one that stand in front of its text.

    Examples
    --------
    >>> source = Source(Path(__file__).with_name("softmax.cu"), "softmax")
    >>> source.kernel("softmax_rows", T="float", ITEMS=4)(rows, 128, out, input)
    """

    def __init__(self, path: Path, name: str, *headers: str) -> None:
        self.path = path
        self.name = name
        self.headers = [Path(__file__).with_name(header) for header in headers]
        self._kernels: dict[Any, Any] = {}
        self._modules: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def kernel(self, function: str, **macros: str | int) -> Any:
        """The function of this name, with these macros in front of the text."""
        key = (function, *macros.items())
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = self._module(macros).function(function)
        return found

    def text(self, macros: dict[str, str | int]) -> str:
        """What is compiled; the lines of the file keep their numbers in the compiler's messages."""
        from plugrad.backends.cuda.texts import text_of

        complex_numbers = any("Complex" in str(value) for value in macros.values())
        before = text_of("complex.cuh") if complex_numbers else ""
        defined = "".join(f"#define {name} {value}\n" for name, value in sorted(macros.items()))
        return before + defined + "".join(map(_with_lines, (*self.headers, self.path)))

    def _module(self, macros: dict[str, str | int]) -> Any:
        from plugrad.backends.cuda.module import Module

        key = tuple(sorted(macros.items()))
        with self._lock:
            if key not in self._modules:
                self._modules[key] = Module(
                    self.text(macros), name=self.name, origin=str(self.path), line=1
                )
            return self._modules[key]


def _with_lines(path: Path) -> str:
    """A file's text, which compilers speak of by its name and lines."""
    return f'#line 1 "{path.as_posix()}"\n{path.read_text(encoding="utf-8")}'


def cover(count: int, threads: int) -> int:
    """How many blocks of `threads` a kernel needs that strides through `count` elements, at most `MOST_BLOCKS`."""
    return max(min(-(-count // threads), MOST_BLOCKS), 1)


def zeros(shape: Any, dtype: Any) -> Any:
    """An array of zeros on the device."""
    from plugrad.backends.cuda.array import empty, fill

    out = empty(tuple(shape), np.dtype(dtype))
    fill(out, 0)
    return out
