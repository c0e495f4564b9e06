"""Finds the host's compiler and CUDA's headers."""

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from .errors import EmulatorUnavailable

DEVICE_HEADERS = Path(__file__).parent / "device"
HOST_SOURCES = Path(__file__).parent / "host"


@functools.cache
def compiler() -> str:
    """Path of the C++ compiler: ``PLUGRAD_EMULATOR_CXX``, else ``g++``.

    Raises
    ------
    EmulatorUnavailable
        If the system is not Linux or there is no GCC.
    """
    if sys.platform != "linux":
        raise EmulatorUnavailable(f"the emulated CUDA device needs Linux, this is {sys.platform}")
    wanted = os.environ.get("PLUGRAD_EMULATOR_CXX", "g++")
    found = shutil.which(wanted)
    if found is None:
        raise EmulatorUnavailable(
            f"the emulated CUDA device needs GCC's C++ compiler and there is no `{wanted}` on PATH: "
            "install it (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++)"
        )
    return found


@functools.cache
def compiler_version() -> str:
    """Version, target and path of the compiler, as part of the keys of caches."""
    found = compiler()
    shown = run([found, "-dumpfullversion", "-dumpmachine"])
    if shown.returncode:
        raise EmulatorUnavailable(f"{found} is not GCC: {shown.stderr.strip()}")
    return f"{os.path.realpath(found)} {' '.join(shown.stdout.split())}"


def run(command: list[str], cwd: str | Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command in the C locale (messages stay in English) and captures what it says."""
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    )


def _wheel_folders() -> list[Path]:
    """Include folders of the ``nvidia-cuda-*`` wheels."""
    roots = [sysconfig.get_path("purelib")]
    spec = importlib.util.find_spec("nvidia")
    if spec is not None:
        roots += [os.path.dirname(p) for p in spec.submodule_search_locations or ()]
    return [
        folder
        for root in dict.fromkeys(roots)
        for pattern in ("nvidia/cu[0-9]*/include", "nvidia/cuda_runtime/include")
        for folder in sorted(Path(root).glob(pattern), reverse=True)
    ]


def _beside_nvcc() -> list[Path]:
    nvcc = shutil.which("nvcc")
    return [] if nvcc is None else [Path(os.path.realpath(nvcc)).parent.parent / "include"]


@functools.cache
def cuda_headers(needed: str = "cuda_fp16.h") -> Path | None:
    """The folder that holds CUDA's header ``needed``, or None.

    Looked for under ``CUDA_HOME``, ``CUDA_ROOT`` and ``CUDA_PATH``, in the ``nvidia-cuda-runtime`` wheel, beside
    ``nvcc`` and under ``/usr/local/cuda``, in this order.
    """
    named = [
        Path(os.environ[v]) / "include"
        for v in ("CUDA_HOME", "CUDA_ROOT", "CUDA_PATH")
        if os.environ.get(v)
    ]
    for folder in [
        *named,
        *_wheel_folders(),
        *_beside_nvcc(),
        Path("/usr/local/cuda/include"),
        Path("/usr/include"),
    ]:
        if (folder / needed).is_file():
            return folder
    return None
