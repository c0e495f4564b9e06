"""From source text to an image that the driver loads.

(a) Every text is compiled behind `prelude.cuh`, and behind `bfloat16.cuh` where it names that type; ``#line`` gives the
    compiler the author's file and line, so that its messages name them.
(b) NVRTC where it is installed, else nvcc; for the emulated device the emulator's own compiler.
    ``PLUGRAD_CUDA_COMPILER=nvrtc`` or ``=nvcc`` chooses.
(c) `compile` needs no device: the check that all kernels compile for all architectures runs where there is none.
(d) An image is cached under a hash of the full text, the options, the architecture and the compiler's version.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Protocol

from plugrad.backends.cuda import cache as kept
from plugrad.backends.cuda import device, nvrtc
from plugrad.backends.cuda.errors import CompileError
from plugrad.backends.cuda.texts import text_of
from plugrad.backends.cuda.toolkit import find_nvcc, include_folders

__all__ = ["ARCHITECTURES", "compile", "compiler_for", "full_text", "why_no_compiler"]

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
EMULATED = "emulated"
VARIABLE = "PLUGRAD_CUDA_COMPILER"
OPTIONS = ("-std=c++17",)
HERE = Path(__file__).parent


class Compiler(Protocol):
    """What makes an image of a text."""

    @property
    def identity(self) -> str:
        """What distinguishes it from other versions."""

    def build(self, text: str, arch: str) -> bytes:
        """The image; CompileError with a `log` where the text does not compile."""


def compile(
    source: str, arch: str | None = None, *, name: str = "kernel", origin: str = "", line: int = 0
) -> bytes:
    """The image of a source text, from the cache or from a compiler.

    Parameters
    ----------
    source : str
        CUDA C++; kernels are declared ``extern "C" __global__``. `prelude.cuh` stands in front of it.
    arch : str, optional
        ``"sm_90"`` and the like, or ``"emulated"``; by default that of the device at hand.
    name : str
        What messages call it.
    origin : str
        The file of the author's text.
    line : int
        The line there at which `source` begins.

    Raises
    ------
    CompileError
        The text does not compile (the message has the compiler's, with `origin` and line), or there is no compiler.
    """
    if arch is None:
        arch = EMULATED if device.emulated() else device.architecture()
    compiler = compiler_for(arch)
    text = full_text(source, name, origin, line)
    key = kept.key(text, arch, compiler.identity)
    image = kept.read(key)
    if image is None:
        try:
            image = compiler.build(text, arch)
        except CompileError as error:
            if not error.log:
                raise
            raise CompileError(
                f"{name} does not compile for {arch}:\n{error.log}", error.log
            ) from None
        kept.write(key, image)
    return image


def full_text(source: str, name: str, origin: str = "", line: int = 0) -> str:
    """`source` behind the prelude, each with the file and lines that messages should give."""
    narrow = text_of("bfloat16.cuh") if "bfloat16" in source else ""
    return (
        f'#line 1 "prelude.cuh"\n{prelude()}\n{narrow}'
        f"#line {max(line, 1)} {_quoted(origin or f'<{name}>')}\n{source}\n"
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


@cache
def prelude() -> str:
    """What every kernel can use."""
    return (HERE / "prelude.cuh").read_text(encoding="utf-8")


def compiler_for(arch: str) -> Compiler:
    """The compiler that makes images for an architecture.

    Raises
    ------
    CompileError
        There is none; the message says what brings one.
    """
    if arch == EMULATED:
        return _emulator()
    found = _hardware_compiler(os.environ.get(VARIABLE, ""))
    if found is None:
        raise CompileError(f"kernels cannot be compiled: {why_no_compiler()}")
    return found


def why_no_compiler() -> str | None:
    """What is missing to compile for hardware, and the commands that bring it; None where nothing is."""
    if _hardware_compiler(os.environ.get(VARIABLE, "")) is not None:
        return None
    return (
        "neither NVRTC nor nvcc was found. pip install nvidia-cuda-nvrtc brings the first; a CUDA toolkit "
        "(https://developer.nvidia.com/cuda-downloads, or pip install nvidia-cuda-nvcc) brings the second: set CUDA_HOME "
        "to its folder"
    )


@cache
def _hardware_compiler(chosen: str) -> Compiler | None:
    if chosen not in ("", "nvrtc", "nvcc"):
        raise CompileError(f"{VARIABLE} is 'nvrtc' or 'nvcc', got {chosen!r}")
    if chosen != "nvcc":
        library = nvrtc.find()
        if library is not None:
            return _Nvrtc(library)
    if chosen != "nvrtc":
        path = find_nvcc()
        if path is not None:
            return _Nvcc(path)
    return None


# ---- the compilers -------------------------------------------------------------------------------


class _Nvrtc:
    def __init__(self, library: nvrtc.Nvrtc) -> None:
        self.library = library
        self.options = [*OPTIONS, "-default-device"]
        self.options += [f"-I{folder}" for folder in include_folders()]
        self.identity = f"nvrtc {library.version} {self.options}"

    def build(self, text: str, arch: str) -> bytes:
        target, kind = self._target(int(arch.removeprefix("sm_")))
        return self.library.compile(text, "kernel.cu", [f"-arch={target}", *self.options], kind)

    def _target(self, wanted: int) -> tuple[str, str]:
        """The architecture itself; for one newer than the library the closest, as what the driver can use."""
        known = self.library.architectures
        if wanted in known:
            return f"sm_{wanted}", "CUBIN"
        older = [number for number in known if number < wanted]
        if not older:
            raise CompileError(
                f"NVRTC {'.'.join(map(str, self.library.version))} does not compile for sm_{wanted}; it does for "
                f"{', '.join(f'sm_{number}' for number in known)}"
            )
        if older[-1] // 10 == wanted // 10:  # images run on later devices of the same generation
            return f"sm_{older[-1]}", "CUBIN"
        return f"compute_{older[-1]}", "PTX"


class _Nvcc:
    def __init__(self, path: Path) -> None:
        self.path = path
        info = path.stat()
        # Its own --version costs a process.
        self.identity = f"nvcc {path.resolve()} {info.st_size} {info.st_mtime_ns} {OPTIONS}"

    def build(self, text: str, arch: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="plugrad-") as place:
            source, image = Path(place, "kernel.cu"), Path(place, "kernel.cubin")
            source.write_text(text, encoding="utf-8")
            command = [
                str(self.path),
                "-cubin",
                f"-arch={arch}",
                *OPTIONS,
                "-o",
                str(image),
                str(source),
            ]
            try:
                done = subprocess.run(command, capture_output=True, text=True, cwd=place)
            except OSError as error:
                raise CompileError(f"nvcc at {self.path} cannot be run: {error}") from error
            if done.returncode != 0:
                log = (done.stderr or done.stdout).strip()
                raise CompileError(
                    "nvcc failed", log or f"nvcc ended with status {done.returncode}"
                )
            return image.read_bytes()


class _Emulator:
    def __init__(self) -> None:
        import plugrad_emulator

        self.module = plugrad_emulator
        self.identity = f"emulator {plugrad_emulator.version()} {OPTIONS}"

    def build(self, text: str, arch: str) -> bytes:
        try:
            return bytes(self.module.compile(text, options=OPTIONS))
        except self.module.CompileError as error:
            raise CompileError("the emulator's compiler failed", str(error)) from error


@cache
def _emulator() -> Compiler:
    return _Emulator()
