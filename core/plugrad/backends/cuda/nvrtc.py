"""NVRTC, NVIDIA's compiler as a library, through ctypes.

It needs no host compiler and takes a tenth of nvcc's time, so it is used where it is found: with cuda-pathfinder
where that is installed, else in NVIDIA's wheels and in toolkits.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import threading
from typing import Any

from plugrad.backends.cuda.errors import CompileError
from plugrad.backends.cuda.toolkit import library_candidates

__all__ = ["Nvrtc", "find"]

_lock = threading.Lock()
_found: list[Nvrtc | None] = []


def find() -> Nvrtc | None:
    """NVRTC, opened on the first call; None where it is not installed."""
    with _lock:
        if not _found:
            library = _open()
            _found.append(None if library is None else Nvrtc(library))
    return _found[0]


def _open() -> Any:
    if importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.pathfinder"):
        from cuda import pathfinder

        with contextlib.suppress(Exception):
            return ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path)
    for path in library_candidates("nvrtc"):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(path))
            if hasattr(library, "nvrtcGetCUBIN"):  # "nvrtc*" also finds its builtins
                return library
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


class Nvrtc:
    """The library.

    Attributes
    ----------
    version : tuple of int
    architectures : tuple of int
        What it compiles for, for example 90 for sm_90.
    """

    def __init__(self, library: Any) -> None:
        self.library = library
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        self.architectures = tuple(numbers)

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self.library, name)(*args)
        if status != 0:
            said = self.library.nvrtcGetErrorString(status)
            raise CompileError(f"{name}: {said.decode() if said else status}")

    def compile(self, source: str, file: str, options: list[str], kind: str) -> bytes:
        """An image of a source text; `kind` is ``"CUBIN"`` or ``"PTX"``.

        Raises
        ------
        CompileError
            Its `log` is what the compiler said.
        """
        program = ctypes.c_void_p()
        self._call(
            "nvrtcCreateProgram",
            *(ctypes.byref(program), source.encode(), file.encode(), 0, None, None),
        )
        try:
            given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            try:
                self._call("nvrtcCompileProgram", program, len(options), given)
            except CompileError as error:
                log = (
                    self._text(program, "nvrtcGetProgramLog").decode(errors="replace").rstrip("\0")
                )
                raise CompileError(str(error), log.strip()) from None
            return self._text(program, f"nvrtcGet{kind}")
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, name: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"{name}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(name, program, buffer)
        return buffer.raw
