"""Where a CUDA toolkit, or the wheels that hold parts of one, lie on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["find_nvcc", "include_folders", "library_candidates", "toolkits", "wheel_folders"]

VARIABLES = ("CUDA_HOME", "CUDA_ROOT", "CUDA_PATH")
LIBRARY_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib", "bin", "bin/x64")


def toolkits() -> list[Path]:
    """Folders of toolkits: those that the environment names, that of nvcc on PATH, the usual one."""
    found = [Path(os.environ[name]) for name in VARIABLES if os.environ.get(name)]
    on_path = shutil.which("nvcc")
    if on_path:
        found.append(Path(on_path).resolve().parent.parent)
    found.append(Path("/usr/local/cuda"))
    return [folder for folder in dict.fromkeys(found) if folder.is_dir()]


@cache
def wheel_folders() -> tuple[Path, ...]:
    """Folders of NVIDIA's wheels: ``nvidia/cu13`` and, of older ones, ``nvidia/cuda_nvrtc``, …"""
    spec = importlib.util.find_spec("nvidia")
    roots = [] if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]
    return tuple(folder for root in roots for folder in sorted(root.iterdir()) if folder.is_dir())


def library_candidates(stem: str) -> Iterator[Path]:
    """Files of a library, wheels first: ``library_candidates("nvrtc")`` gives libnvrtc.so.13, …"""
    patterns = (f"lib{stem}.so*", f"{stem}64_*.dll")
    places = [folder / sub for folder in wheel_folders() for sub in ("lib", "bin", "bin/x86_64")]
    places += [folder / sub for folder in toolkits() for sub in LIBRARY_FOLDERS]
    for place in places:
        for pattern in patterns:
            # The longest name is the file itself, the others are links to it.
            yield from sorted(place.glob(pattern), key=lambda path: -len(path.name))


def find_nvcc() -> Path | None:
    """The compiler driver of a toolkit or of a wheel; None where there is none."""
    name = "nvcc.exe" if os.name == "nt" else "nvcc"
    for folder in (*toolkits(), *wheel_folders()):
        path = folder / "bin" / name
        if path.is_file():
            return path
    on_path = shutil.which("nvcc")
    return Path(on_path) if on_path else None


@cache
def include_folders() -> tuple[Path, ...]:
    """Folders with CUDA's headers (``cuda_fp16.h``), for NVRTC, which brings none."""
    folders = [*wheel_folders(), *toolkits()]
    return tuple(
        folder / "include" for folder in folders if (folder / "include/cuda_fp16.h").is_file()
    )
