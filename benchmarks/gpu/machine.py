"""The device that figures belong to, and the versions of all that had a part in them."""

from __future__ import annotations

import datetime
import platform
import shutil
import subprocess
from dataclasses import replace
from importlib import metadata

from settings import Settings

__all__ = ["cache_bytes", "describe", "fitting", "prepare"]

DISTRIBUTIONS = (
    "plugrad",
    "numpy",
    "pycuda",
    "torch",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "nvidia-cublas",
)


def prepare(emulated: bool) -> None:
    """Bring the device that was asked for into this process.

    Raises
    ------
    SystemExit
        It is not there, or is the other kind; the message says why.
    """
    from plugrad import cuda, registry

    name = "cuda-emulated" if emulated else "cuda"
    try:
        registry.activate(name)
        reason = cuda.why_unavailable()
    except (RuntimeError, ValueError) as error:
        reason = str(error)
    if reason is not None:
        raise SystemExit(f"run.py: no device {name!r}: {reason}")
    if cuda.is_emulated() != emulated:
        raise SystemExit(
            "run.py: this is the emulated device, whose figures mean nothing: use --dry-run"
        )


def describe() -> dict[str, str]:
    from plugrad import cuda
    from plugrad.backends.cuda import compiler, device

    emulated = cuda.is_emulated()
    number = device.driver().get_driver_version()
    found = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": cuda.get_device_name(),
        "architecture": device.architecture(),
        "memory": f"{cuda.mem_get_info()[1] / 2**30:.1f} GiB",
        "driver": "emulated"
        if emulated
        else _driver(f"CUDA {number // 1000}.{number % 1000 // 10}"),
        "compiler": compiler.compiler_for(
            "emulated" if emulated else device.architecture()
        ).identity,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _driver(known: str) -> str:
    """The driver's own version, where nvidia-smi tells it."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return known
    query = [command, "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return f"{done.stdout.split()[0]} ({known})" if done.returncode == 0 and done.stdout else known


def cache_bytes() -> int:
    """The size of the device's second-level cache."""
    from plugrad.backends.cuda import device

    attribute = device.driver().device_attribute.L2_CACHE_SIZE
    return int(device.driver().Device(0).get_attribute(attribute))


def fitting(settings: Settings) -> Settings:
    """Smaller arrays where the device has little memory: some forty of them are held at one time."""
    from plugrad import cuda

    free, _ = cuda.mem_get_info()
    elements = settings.elements
    while elements > 1 << 16 and 40 * 4 * elements > free:
        elements //= 2
    products = tuple((s, n) for s, n in settings.products if 12 * 4 * s * n * n < free)
    return replace(settings, elements=elements, products=products)
