"""The functions of oneDNN's C interface that are needed here, through ctypes.

Numbers are those of dnnl_types.h, the same in all releases with the major version 3.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from importlib import metadata
from typing import Any

__all__ = [
    "LibraryNotFound",
    "OneDNNError",
    "Unsupported",
    "call",
    "engine",
    "handle",
    "is_equal",
    "numbers",
    "query_description",
    "stream",
]

DISTRIBUTIONS = ("onednn-cpu-gomp", "onednn-cpu-tbb", "onednn-cpu-iomp", "onednn")
NAME = "libdnnl.so.3"
VARIABLE = "PLUGRAD_ONEDNN_LIBRARY"

THINGS = ("memory_desc", "primitive_desc", "memory", "primitive", "engine", "stream")
CPU = 1
IN_ORDER = 1
UNIMPLEMENTED = 3
STATUS = (
    "success",
    "out of memory",
    "invalid arguments",
    "unimplemented",
    "last implementation reached",
    "runtime error",
    "not required",
)


class LibraryNotFound(ImportError):
    """oneDNN is not installed, or cannot be loaded."""


class OneDNNError(RuntimeError):
    """A function of oneDNN did not succeed."""


class Unsupported(OneDNNError):
    """oneDNN has no implementation of what was asked for."""


def _candidates() -> list[str]:
    """Where the library may be: what the environment names, what was installed with pip, what the system has."""
    given = os.environ.get(VARIABLE)
    if given:
        return [given]
    found = []
    for name in DISTRIBUTIONS:
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            continue
        found += [str(file.locate()) for file in files if file.name == NAME]
    system = ctypes.util.find_library("dnnl")
    return found + ([system] if system else [])


def _load() -> ctypes.CDLL:
    problems = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as problem:
            problems.append(f"{path}: {problem}")
            continue
        library.dnnl_version.restype = ctypes.POINTER(ctypes.c_int)
        version = library.dnnl_version()
        if version[0] == 3:
            return library
        problems.append(f"{path}: is version {version[0]}, version 3 is needed")
    raise LibraryNotFound(
        "plugrad-onednn needs oneDNN 3: pip install onednn-cpu-gomp, or name the library in the environment "
        f"variable {VARIABLE}" + "".join(f"\n  {each}" for each in problems)
    )


_library = _load()


def call(name: str, *arguments: Any) -> None:
    """Call a function that returns a status.

    Raises
    ------
    Unsupported, OneDNNError
        The status is not "success".
    """
    status = getattr(_library, name)(*arguments)
    if status:
        word = STATUS[status] if status < len(STATUS) else f"status {status}"
        kind = Unsupported if status == UNIMPLEMENTED else OneDNNError
        raise kind(f"{name}: {word}")


def numbers(values: Any) -> Any:
    """Integers as the library takes them."""
    values = list(values)
    return (ctypes.c_int64 * len(values))(*values)


class Handle(ctypes.c_void_p):
    """A thing of the library's, destroyed with the object."""

    destroy: str

    def __del__(self) -> None:
        if self and _library is not None:  # not at the end of the interpreter
            getattr(_library, self.destroy)(self)


def handle(name: str, *arguments: Any) -> Handle:
    """What a function creates through its first argument."""
    made = Handle()
    call(name, ctypes.byref(made), *arguments)
    thing = next(t for t in THINGS if t in name)
    made.destroy = f"dnnl_{thing}_destroy"
    return made


engine = handle("dnnl_engine_create", CPU, ctypes.c_size_t(0))
stream = handle("dnnl_stream_create", engine, IN_ORDER)


def query_description(primitive: ctypes.c_void_p, what: int) -> ctypes.c_void_p:
    """The layout that a primitive has chosen for one of its arrays."""
    function = _library.dnnl_primitive_desc_query_md
    function.restype = ctypes.c_void_p
    return ctypes.c_void_p(function(primitive, what, 0))


def is_equal(one: ctypes.c_void_p, other: ctypes.c_void_p) -> bool:
    """Whether two layouts are the same."""
    return bool(_library.dnnl_memory_desc_equal(one, other))
