"""Kernel source to an image that the emulated device loads: preprocess, rewrite, compile and link with GCC."""

import functools
import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import _cache
from ._rewrite import rewrite
from ._toolchain import DEVICE_HEADERS, compiler, compiler_version, cuda_headers, run
from .errors import CompileError, EmulatorUnavailable

HEADER = "cuda_emulated.hpp"
FLAGS = [
    "-std=c++17",
    "-Og",
    "-g1",
    "-gdwarf-4",
    "-w",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
]
FLAGS += [
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-threadsafe-statics",
    "-fno-gnu-unique",
    "-fcf-protection=none",
]
FLAGS += [
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fmax-errors=20",
    "-fno-diagnostics-show-caret",
]
# Calls before each access to memory, and for bad indices and addresses; runtime.cpp answers them, no sanitizer does.
CHECKED = ["-fsanitize=thread,bounds,alignment", "--param", "tsan-instrument-func-entry-exit=0"]
# The instrumentation does not see copies that the compiler makes itself: they stay calls, to runtime.cpp.
CHECKED += ["-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset"]
LINK = ["-shared", "-Wl,-z,defs", "-Wl,-z,norelro", "-Wl,--build-id=none"]
# Not C++'s library, which no kernel uses: reading it takes the linker longer than all the rest.
LINK += ["-nodefaultlibs", "-lm", "-lc", "-lgcc"]


def checks_accesses() -> bool:
    """Whether kernels are compiled with a check of each access to memory (``PLUGRAD_EMULATOR_CHECKS=0`` turns it off)."""
    return os.environ.get("PLUGRAD_EMULATOR_CHECKS", "1") != "0"


def _flags() -> list[str]:
    return [*FLAGS, *(CHECKED if checks_accesses() else [])]


def _include_flags() -> list[str]:
    toolkit = cuda_headers()
    return ["-I", str(DEVICE_HEADERS), *(["-isystem", str(toolkit)] if toolkit else [])]


def _abi() -> int:
    match = re.search(r"#define EMU_ABI (\d+)", (DEVICE_HEADERS / "abi.hpp").read_text())
    assert match is not None
    return int(match[1])


def _headers() -> list[Path]:
    return sorted(path for path in DEVICE_HEADERS.rglob("*") if path.is_file())


@functools.cache
def _identity(checked: bool, toolkit: Path | None) -> str:
    ours = [Path(__file__), Path(__file__).with_name("_rewrite.py"), *_headers()]
    theirs = [toolkit / name for name in ("cuda_fp16.h", "cuda_fp16.hpp")] if toolkit else []
    return _cache.key_of(
        [compiler_version(), str(checked), str(toolkit), *ours, *filter(Path.is_file, theirs)]
    )


def version() -> str:
    """Changes whenever the same source could compile to another image: a part of cache keys."""
    return _identity(checks_accesses(), cuda_headers())


def _require(command: list[str], what: str) -> None:
    done = run(command)
    if done.returncode:
        raise EmulatorUnavailable(f"{compiler()} could not build {what}:\n{done.stderr}")


def _build_runtime(folder: Path) -> None:
    source = DEVICE_HEADERS / "runtime.cpp"
    # Its loops must not be turned into calls to themselves.
    _require(
        [
            compiler(),
            *FLAGS,
            "-O2",
            "-g0",
            "-fno-tree-loop-distribute-patterns",
            "-c",
            str(source),
            "-o",
            str(folder / "runtime.o"),
        ],
        "its device runtime",
    )


def _build_header(folder: Path, half: bool) -> None:
    extra = '#include "cuda_fp16.h"\n#include "cuda_bf16.h"\n' if half else ""
    header = folder / HEADER
    header.write_text(f'#include "{DEVICE_HEADERS / HEADER}"\n{extra}')
    command = [
        compiler(),
        *_flags(),
        *_include_flags(),
        "-x",
        "c++-header",
        str(header),
        "-o",
        f"{header}.gch",
    ]
    _require(command, "its precompiled header")


def _runtime() -> Path:
    return _cache.built("runtime", version(), _build_runtime) / "runtime.o"


def _header(source: str) -> Path:
    """The header to put before the source: with half numbers only where they are used, for they take 0.2 s to read."""
    half = cuda_headers() is not None and re.search(r"cuda_(fp|bf)16", source) is not None
    name = "header-half" if half else "header"
    return _cache.built(name, version(), lambda folder: _build_header(folder, half)) / HEADER


def _author_options(options: Sequence[str]) -> list[str]:
    """What of nvcc's options concerns the preprocessor; the others (architecture, optimisation) mean nothing here."""
    kept, rest = [], iter(options)
    for option in rest:
        if option in (
            "-I",
            "-D",
            "-U",
            "--include-path",
            "--define-macro",
            "--undefine-macro",
            "-isystem",
        ):
            value = next(rest, "")
            kept.append({"--i": "-I", "--d": "-D", "--u": "-U"}.get(option[:3], option) + value)
        elif option.startswith(("--include-path=", "--define-macro=", "--undefine-macro=")):
            name, value = option.split("=", 1)
            kept.append(f"-{'I' if name == '--include-path' else name[2].upper()}{value}")
        elif option.startswith(("-I", "-D", "-U")):
            kept.append(option)
    return kept


def preprocess(
    source: str, options: Sequence[str] = (), *, name: str = "kernel.cu", folder: str | None = None
) -> str:
    """The source with its macros expanded and its headers read, but for the emulator's own."""
    with tempfile.TemporaryDirectory(prefix="plugrad-emulator-") as work:
        return _preprocess(source, _author_options(options), Path(work), name, folder)


def _preprocess(source: str, options: list[str], work: Path, name: str, folder: str | None) -> str:
    path, output = work / os.path.basename(name), work / "preprocessed.ii"
    path.write_text(f'#line 1 "{name}"\n{source}')
    include = ["-I", folder] if folder else []
    command = [
        compiler(),
        *_flags(),
        *include,
        *options,
        *_include_flags(),
        "-x",
        "c++",
        "-include",
        str(_header(source)),
    ]
    done = run(
        [
            *command,
            "-E",
            "-fpch-preprocess",
            "-fno-working-directory",
            path.name,
            "-o",
            output.name,
        ],
        cwd=work,
    )
    _refuse(done)
    return output.read_text()


def _refuse(done: subprocess.CompletedProcess[str]) -> None:
    if (
        done.returncode
    ):  # without what only follows from the author's mistakes, in the table behind the source
        lines = [
            line for line in done.stderr.splitlines() if not line.startswith("<plugrad-emulator>")
        ]
        raise CompileError("\n".join(lines).strip() or done.stderr.strip())


def compile(
    source: str, *, options: Sequence[str] = (), name: str = "kernel.cu", folder: str | None = None
) -> bytes:
    """Compiles CUDA C++ for the emulated device.

    Parameters
    ----------
    source
        The text; ``#line`` directives are respected in messages.
    options
        nvcc's options; ``-I``, ``-D`` and ``-U`` are followed, others have no meaning here and are passed over.
    name
        What messages call the text.
    folder
        Where ``#include "..."`` looks first.

    Returns
    -------
    bytes
        An image for ``cuModuleLoadData`` (``pycuda.driver.module_from_buffer``) of the emulated device.

    Raises
    ------
    CompileError
        If the compiler refuses the source.
    EmulatorUnavailable
        If there is no GCC.
    """
    with tempfile.TemporaryDirectory(prefix="plugrad-emulator-") as work_name:
        work = Path(work_name)
        text = _preprocess(source, _author_options(options), work, name, folder)
        (work / "kernel.ii").write_text(rewrite(text, instrumented=checks_accesses()))
        command = [
            compiler(),
            *_flags(),
            f"-fdebug-prefix-map={work}=",
            "-pipe",
            "-x",
            "c++",
            "-fpreprocessed",
            "-fpch-preprocess",
            "-c",
            "kernel.ii",
        ]
        _refuse(run([*command, "-o", "kernel.o"], cwd=work))
        # On its own: with the flags above it would link the sanitizer's library.
        _refuse(run([compiler(), "kernel.o", str(_runtime()), *LINK, "-o", "kernel.so"], cwd=work))
        elf = (work / "kernel.so").read_bytes()
    return b"PLUGEMU" + bytes([_abi()]) + struct.pack("<Q", len(elf)) + elf
