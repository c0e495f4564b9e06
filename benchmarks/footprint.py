"""What plugrad costs before it computes anything: import time, installed size, and the battery of an operator."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata, util
from pathlib import Path
from statistics import median

SHIPPED = {".py", ".pyi", ".pxd", ".so", ".cu", ".cuh", ".typed"}


def import_seconds(modules: list[str], rounds: int) -> dict[str, float]:
    """Seconds that importing each module takes in a fresh interpreter that has NumPy loaded already."""
    seconds: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(rounds):
        for module in modules:
            code = (
                "import numpy, time; start = time.perf_counter(); "
                f"import {module}; print(time.perf_counter() - start)"
            )
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
            seconds[module].append(float(done.stdout))
    return {module: median(values) for module, values in seconds.items()}


def installed_bytes() -> tuple[int, str]:
    """Size of plugrad's installed files, and how it was found out."""
    try:
        distribution = metadata.distribution("plugrad")
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return _tree_bytes(), "not installed: the files that a wheel would hold"
    if origin.get("dir_info", {}).get("editable") or not distribution.files:
        return _tree_bytes(), "editable: the files that a wheel would hold"
    paths = [Path(str(distribution.locate_file(file))) for file in distribution.files]
    return sum(path.stat().st_size for path in paths if path.exists()), "installed files"


def _tree_bytes() -> int:
    total = 0
    for package in ("plugrad", "plugrad_ops"):
        spec = util.find_spec(package)
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError(f"no package {package} on sys.path")
        for root in spec.submodule_search_locations:
            total += sum(
                _shipped_bytes(path) for path in Path(root).rglob("*") if path.suffix in SHIPPED
            )
    return total


def _shipped_bytes(path: Path) -> int:
    """Size of a file in the wheel: modules that were built in place keep names that a wheel's do not have."""
    if path.suffix == ".so" and shutil.which("strip"):
        with tempfile.TemporaryDirectory() as folder:
            stripped = Path(folder) / path.name
            subprocess.run(["strip", "--strip-all", "-o", str(stripped), str(path)], check=True)
            return stripped.stat().st_size
    return path.stat().st_size


def battery_seconds(rounds: int) -> dict[str, float]:
    """Seconds of the quick battery of every standard operator, by name: the median over the rounds."""
    from plugrad import contract, registry

    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for operator in registry.operators("standard::*"):
            report = contract.check(operator)
            if not report.passed:
                raise RuntimeError(str(report))
            seconds.setdefault(operator.name, []).append(report.seconds)
    return {name: median(values) for name, values in seconds.items()}
