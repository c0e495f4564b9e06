"""The wheel holds the sources that are compiled on the user's machine."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


def test_wheel(tmp_path):
    pytest.importorskip("setuptools")
    source = tmp_path / "source"
    shutil.copytree(
        PROJECT, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot build a wheel here: {done.stderr.strip().splitlines()[-1]}")
    (wheel,) = tmp_path.glob("*.whl")
    package = PROJECT / "src" / "plugrad_emulator"
    expected = {
        str(path.relative_to(package.parent))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected <= set(zipfile.ZipFile(wheel).namelist())


def test_files_are_short():
    for path in [*PROJECT.rglob("*.py"), *PROJECT.rglob("*.[ch]pp")]:
        if "build" not in path.relative_to(PROJECT).parts:
            assert len(path.read_text().splitlines()) <= 450, path
