"""What is installed, what is missing, and the command that brings it; this needs no package itself."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, entry_points, version

__all__ = ["Finding", "broken", "findings", "lines"]


@dataclass(frozen=True)
class Finding:
    """One line: what was looked for, what was found, and what to do where it is not there.

    Attributes
    ----------
    part : str
    status : {"ok", "missing", "broken"}
    found : str
        A version, a place, or why it does not work.
    remedy : str
        A command or a sentence; "" where nothing is to be done.
    needed_for : str
    """

    part: str
    status: str
    found: str
    remedy: str = ""
    needed_for: str = ""


def findings() -> list[Finding]:
    """Everything that is looked for, in order."""
    return [_looked(part, look) for part, look in PARTS]


def _looked(part: str, look: Callable[[str], Finding]) -> Finding:
    try:
        return look(part)
    except Exception as error:
        return Finding(part, "broken", f"{type(error).__name__}: {error}")


def broken(found: list[Finding]) -> bool:
    """Whether something that is there does not work."""
    return any(one.status == "broken" for one in found)


def lines(found: list[Finding]) -> Iterator[str]:
    """The findings as plain text."""
    for one in found:
        yield f"{one.part}: {one.status}, {one.found}"
        if one.remedy:
            yield f"    {one.remedy}"


# ---------------------------------------------------------------------------------------- each part


def _plugrad(part: str) -> Finding:
    import plugrad

    return Finding(part, "ok", f"{plugrad.__version__}, in {plugrad.__path__[0]}")


def _python(part: str) -> Finding:
    return Finding(part, "ok", f"{platform.python_version()} ({sys.executable})")


def _numpy(part: str) -> Finding:
    import numpy as np

    return Finding(part, "ok", np.__version__)


def _command(part: str) -> Finding:
    needed = "the other commands"
    lacking = [name for name in ("click", "rich") if importlib.util.find_spec(name) is None]
    if lacking:
        return Finding(
            part,
            "missing",
            f"{' and '.join(lacking)} not installed",
            'pip install "plugrad[cli]"',
            needed,
        )
    return Finding(part, "ok", f"{_version_of('click')}, {_version_of('rich')}", "", needed)


def _host_compiler(part: str) -> Finding:
    needed = "building from source, nvcc, the emulated device"
    for name in ("c++", "g++", "clang++", "cl"):
        path = shutil.which(name)
        if path:
            return Finding(part, "ok", f"{path}{_first_line(path)}", needed_for=needed)
    return Finding(
        part,
        "missing",
        "no c++, g++ or clang++ on PATH",
        "apt install g++ (or dnf install gcc-c++, xcode-select --install)",
        needed,
    )


def _first_line(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = done.stdout.splitlines()
    return f" ({lines[0]})" if lines else ""


def _pycuda(part: str) -> Finding:
    needed = "the device cuda"
    if importlib.util.find_spec("pycuda") is None:
        return Finding(
            part,
            "missing",
            "not installed",
            "CUDA_ROOT=/usr/local/cuda pip install 'plugrad[cuda]' (PyCUDA is compiled on installation: a toolkit must be "
            "in CUDA_ROOT; on a machine without a driver, add $CUDA_ROOT/lib64/stubs to LIBRARY_PATH)",
            needed,
        )
    return Finding(part, "ok", version("pycuda"), needed_for=needed)


def _driver(part: str) -> Finding:
    import ctypes

    needed = "the device cuda on hardware"
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return Finding(
            part,
            "missing",
            "libcuda.so.1 is not there",
            "install NVIDIA's driver (https://www.nvidia.com/drivers); in a container, start it with --gpus all",
            needed,
        )
    number = ctypes.c_int(0)
    library.cuDriverGetVersion(ctypes.byref(number))
    return Finding(
        part, "ok", f"CUDA {number.value // 1000}.{number.value % 1000 // 10}", "", needed
    )


def _device(part: str) -> Finding:
    from plugrad.backends.cuda import device

    needed = "the device cuda"
    reason = device.why_unavailable()
    if reason is not None:
        return Finding(part, "missing", "none can be used", reason, needed)
    kind = " (emulated)" if device.emulated() else ""
    return Finding(part, "ok", f"{device.name()}, {device.architecture()}{kind}", needed_for=needed)


def _nvrtc(part: str) -> Finding:
    from plugrad.backends.cuda import nvrtc

    needed = "compiling kernels, about ten times as fast as nvcc"
    if nvrtc.find() is None:
        return Finding(part, "missing", "not found", "pip install nvidia-cuda-nvrtc", needed)
    return Finding(
        part, "ok", _version_of("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"), "", needed
    )


def _nvcc(part: str) -> Finding:
    from plugrad.backends.cuda.toolkit import find_nvcc

    needed = "compiling kernels where NVRTC is not there"
    path = find_nvcc()
    if path is None:
        return Finding(
            part,
            "missing",
            "not found",
            "install a CUDA toolkit (https://developer.nvidia.com/cuda-downloads) and set CUDA_HOME to its folder",
            needed,
        )
    done = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False)
    release = next((line for line in done.stdout.splitlines() if "release" in line), "")
    if done.returncode:
        return Finding(part, "broken", f"{path} does not run: {done.stderr.strip()}", "", needed)
    return Finding(part, "ok", f"{path} ({release.strip()})", "", needed)


def _cublas(part: str) -> Finding:
    from plugrad.backends.cuda.toolkit import library_candidates

    needed = "matrix products at full speed"
    path = next(iter(library_candidates("cublas")), None)
    if path is None:
        return Finding(
            part,
            "missing",
            "not found: an own kernel stands in",
            "pip install 'plugrad[cublas]'",
            needed,
        )
    return Finding(part, "ok", str(path), "", needed)


def _emulator(part: str) -> Finding:
    needed = "the device cuda-emulated, which needs no GPU"
    from plugrad.backends.cuda.device import EMULATOR

    points = [p for p in entry_points(group="plugrad.devices") if p.name == "cuda-emulated"]
    if not points:
        return Finding(part, "missing", "not installed", EMULATOR, needed)
    return Finding(part, "ok", _version_of("plugrad-emulator"), "", needed)


def _version_of(*distributions: str) -> str:
    for name in distributions:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return "found"


PARTS: list[tuple[str, Callable[[str], Finding]]] = [
    ("plugrad", _plugrad),
    ("Python", _python),
    ("NumPy", _numpy),
    ("click and rich", _command),
    ("C++ compiler", _host_compiler),
    ("PyCUDA", _pycuda),
    ("NVIDIA driver", _driver),
    ("CUDA device", _device),
    ("NVRTC", _nvrtc),
    ("nvcc", _nvcc),
    ("cuBLAS", _cublas),
    ("emulator", _emulator),
]
