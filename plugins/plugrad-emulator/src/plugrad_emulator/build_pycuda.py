"""Builds PyCUDA where there are CUDA headers but no driver: ``python -m plugrad_emulator.build_pycuda --help``.

PyCUDA comes as source only, and its own build takes the place of ``nvcc`` for the toolkit's folder and wants
``libcuda.so`` to link with.  Here the headers' folder is found, and a link stub with that library's name stands in.
The result is an ordinary PyCUDA, without CURAND: it runs on the emulated device and on a real driver alike.
"""

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from ._toolchain import compiler, cuda_headers, run
from .errors import EmulatorUnavailable

# PyCUDA reads one header that NVIDIA ships in a wheel of its own.
PROFILER_HEADER = """\
#pragma once
#include <cuda.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef enum CUoutput_mode_enum { CU_OUT_KEY_VALUE_PAIR = 0x00, CU_OUT_CSV = 0x01 } CUoutput_mode;
CUresult CUDAAPI cuProfilerInitialize(const char *configFile, const char *outputFile, CUoutput_mode outputMode);
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);
#ifdef __cplusplus
}
#endif
"""
OLD_NAMES = [
    "cuFuncSetBlockShape",
    "cuTexRefSetAddress2D_v2",
]  # called, but not in every toolkit's cuda.h


def _headers() -> Path:
    folder = cuda_headers("cuda.h")
    if folder is None:
        raise EmulatorUnavailable(
            "there is no cuda.h: `pip install nvidia-cuda-runtime` brings it, or set CUDA_HOME to a toolkit"
        )
    return folder


def _link_stub(headers: Path, folder: Path) -> None:
    """``libcuda.so`` with every name in cuda.h that a driver function could have."""
    text = (headers / "cuda.h").read_text(errors="replace")
    names = sorted(
        {
            *re.findall(r"\bcu[A-Z]\w+", text),
            *OLD_NAMES,
            *re.findall(r"\bcuProfiler\w+", PROFILER_HEADER),
        }
    )
    source = folder / "stub.cpp"
    source.write_text(
        "\n".join(f'extern "C" void {name}() {{ __builtin_trap(); }}' for name in names)
    )
    target = folder / "libcuda.so"
    done = run(
        [
            compiler(),
            "-w",
            "-shared",
            "-fPIC",
            "-Wl,-soname,libcuda.so.1",
            "-o",
            str(target),
            str(source),
        ]
    )
    if done.returncode:
        raise EmulatorUnavailable(
            f"{compiler()} could not build a link stub for libcuda:\n{done.stderr}"
        )


def _configuration(headers: Path, folder: Path) -> str:
    includes = [str(headers)]
    if not (headers / "cudaProfiler.h").is_file():
        (folder / "cudaProfiler.h").write_text(PROFILER_HEADER)
        includes.append(str(folder))
    return (
        f"CUDA_ROOT = {str(headers.parent)!r}\nCUDA_INC_DIR = {includes!r}\nCUDADRV_LIB_DIR = {[str(folder)]!r}\n"
        "CUDA_ENABLE_CURAND = False\nLDFLAGS = ['-Wl,-s']\n"
    )


def _pip(python: str, *arguments: str) -> None:
    if subprocess.run([python, "-m", "pip", *arguments]).returncode:
        raise EmulatorUnavailable(f"`pip {' '.join(arguments)}` failed; see above")


def build(
    wheel_folder: Path,
    *,
    version: str | None = None,
    python: str = sys.executable,
    isolated: bool = True,
) -> Path:
    """Builds a PyCUDA wheel for ``python`` into ``wheel_folder``; takes one to two minutes.

    Parameters
    ----------
    wheel_folder
        Made if it is not there.
    version
        Of PyCUDA; the newest by default.
    python
        The interpreter to build for.
    isolated
        Whether pip installs PyCUDA's build requirements (setuptools, numpy) for the build, or they are there already.

    Returns
    -------
    pathlib.Path
        The wheel.

    Raises
    ------
    EmulatorUnavailable
        If the headers or the compiler are missing, or pip fails.
    """
    headers = _headers()
    wheel_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="plugrad-emulator-pycuda-") as name:
        work = Path(name)
        isolation = [] if isolated else ["--no-build-isolation"]
        wanted = f"pycuda=={version}" if version else "pycuda"
        _pip(
            python,
            "download",
            "-q",
            "--no-deps",
            *isolation,
            "--no-binary",
            "pycuda",
            "-d",
            str(work),
            wanted,
        )
        with tarfile.open(next(work.glob("pycuda-*.tar.gz"))) as archive:
            archive.extractall(work, filter="data")
        source = next(path for path in work.glob("pycuda-*") if path.is_dir())
        _link_stub(headers, work)
        (source / "siteconf.py").write_text(_configuration(headers, work))
        _pip(python, "wheel", "-q", "--no-deps", *isolation, "-w", str(work / "out"), str(source))
        (made,) = (work / "out").glob("pycuda-*.whl")
        target = wheel_folder / made.name
        target.write_bytes(made.read_bytes())
    return target


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m plugrad_emulator.build_pycuda", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--wheel-dir", type=Path, help="put the wheel there and do not install it")
    parser.add_argument("--version", help="of PyCUDA (the newest)")
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter to build for (this one)"
    )
    parser.add_argument(
        "--no-build-isolation",
        action="store_true",
        help="setuptools and numpy are installed already",
    )
    given = parser.parse_args(arguments)
    how = {
        "version": given.version,
        "python": given.python,
        "isolated": not given.no_build_isolation,
    }
    try:
        if given.wheel_dir is not None:
            print(build(given.wheel_dir, **how))
            return 0
        with tempfile.TemporaryDirectory() as folder:
            wheel = build(Path(folder), **how)
            _pip(given.python, "install", "-q", str(wheel))
            print(f"installed {wheel.name}")
    except EmulatorUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
