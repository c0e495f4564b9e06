"""Builds the stand-in for ``libcuda.so.1``."""

import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import _cache
from ._elf import undefined_symbols
from ._toolchain import DEVICE_HEADERS, HOST_SOURCES, compiler, compiler_version, run
from .errors import EmulatorUnavailable

FLAGS = [
    "-std=c++17",
    "-O2",
    "-g1",
    "-fPIC",
    "-fvisibility=hidden",
    "-fcf-protection=none",
    "-fno-stack-protector",
]
# A jump out of a signal handler onto another stack is what glibc's fortified longjmp refuses.
FLAGS += ["-U_FORTIFY_SOURCE"]

# The library is opened for all to see. Its instances of the C++ library's templates must not be among that: another
# library that has its own, such as NVRTC, would call these and crash.
EXPORTS = "{ global: cu*; plugrad_emulator_*; local: *; };\n"


def pycuda_extension() -> Path:
    """PyCUDA's compiled part, found without importing it.

    Raises
    ------
    EmulatorUnavailable
        If PyCUDA is not installed.
    """
    spec = importlib.util.find_spec("pycuda")
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(folder).glob("_driver*.so")):
            return path
    raise EmulatorUnavailable(
        "the emulated CUDA device runs under PyCUDA, which is not installed: `pip install pycuda` where there is a "
        "CUDA driver, `python -m plugrad_emulator.build_pycuda` where there is none"
    )


def driver_symbols() -> list[str]:
    """The driver functions that the installed PyCUDA was built to call."""
    return [
        name
        for name in undefined_symbols(pycuda_extension())
        if name.startswith("cu") and name[2:3].isupper()
    ]


def _placeholders(names: list[str]) -> str:
    """Weak definitions that say what is missing: a function that is implemented takes their place."""
    lines = [
        f'__attribute__((weak)) int {name}() {{ return plugrad_emulator_missing("{name}"); }}'
        for name in names
    ]
    head = '#pragma GCC visibility push(default)\nextern "C" {\nint plugrad_emulator_missing(const char *);\n'
    return head + "\n".join(lines) + "\n}\n"


def _compile(source: Path, target: Path) -> None:
    done = run([compiler(), *FLAGS, "-c", str(source), "-o", str(target)])
    if done.returncode:
        raise EmulatorUnavailable(
            f"{compiler()} could not build the emulator ({source.name}):\n{done.stderr}"
        )


def _build(folder: Path, names: list[str]) -> None:
    placeholders = folder / "placeholders.cpp"
    placeholders.write_text(_placeholders(names))
    sources = [*sorted(HOST_SOURCES.glob("*.cpp")), placeholders]
    objects = [folder / f"{source.stem}.o" for source in sources]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_compile, sources, objects))
    library = folder / "libcuda.so.1"
    exports = folder / "exports.map"
    exports.write_text(EXPORTS)
    link = [
        "-shared",
        f"-Wl,--version-script={exports}",
        "-Wl,-soname,libcuda.so.1",
        "-o",
        str(library),
        *map(str, objects),
        "-ldl",
        "-lpthread",
    ]
    done = run([compiler(), *link])
    if done.returncode:
        raise EmulatorUnavailable(f"{compiler()} could not link the emulator:\n{done.stderr}")
    for path in [placeholders, exports, *objects]:
        path.unlink()


def library() -> Path:
    """Path of the built library; built on first use (some seconds), then kept."""
    names = driver_symbols()
    sources = [*sorted(HOST_SOURCES.iterdir()), DEVICE_HEADERS / "abi.hpp"]
    key = _cache.key_of([compiler_version(), *FLAGS, EXPORTS, *names, *sources])
    return _cache.built("libcuda", key, lambda folder: _build(folder, names)) / "libcuda.so.1"
