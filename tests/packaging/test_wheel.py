"""The wheel holds the files of the tree, no more and no fewer, and so does the sdist.

`PLUGRAD_WHEEL` and `PLUGRAD_SDIST` name finished ones; without them both are built here, without
optimisation, the wheel from the sdist.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOTS = ("core", "ops")
DATA = (".cu", ".cuh", ".pyi", ".pxd")


def sources(root):
    """Files of a root that are under version control or could be, relative to it."""
    for path in sorted((ROOT / root).rglob("*")):
        if (
            path.is_file()
            and path.suffix not in (".so", ".pyc", ".pyd")
            and "egg-info" not in str(path)
        ):
            yield path.relative_to(ROOT / root)


def build(kind, source, out):
    """What `pip wheel` or `build --sdist` do, through the build backend itself and offline."""
    call = f"import setuptools.build_meta as b; print(b.build_{kind}({str(out)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", call],
        cwd=source,
        env={**os.environ, "CFLAGS": "-Os"},  # quick, and no larger than what is shipped
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return out / done.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    if "PLUGRAD_SDIST" in os.environ:
        return Path(os.environ["PLUGRAD_SDIST"])
    pytest.importorskip("Cython", reason="building needs Cython")
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(request, tmp_path_factory):
    if "PLUGRAD_WHEEL" in os.environ:
        return Path(os.environ["PLUGRAD_WHEEL"])
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(request.getfixturevalue("sdist")) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return build("wheel", source, folder)


def test_wheel_holds_the_files_of_the_tree(wheel):
    expected = {"plugrad/_cyutility.so"}  # written by Cython, for all modules
    for root in ROOTS:
        for path in sources(root):
            if path.suffix == ".py" or path.suffix in DATA or path.name == "py.typed":
                expected.add(path.as_posix())
            elif path.suffix == ".pyx":
                expected.add(path.with_suffix(".so").as_posix())
    found = set()
    for name in zipfile.ZipFile(wheel).namelist():
        if not name.split("/")[0].endswith(".dist-info"):
            stem, _, ending = name.rpartition(".")
            found.add(stem.split(".cpython-")[0] + ".so" if ending == "so" else name)
    assert found == expected


def test_wheel_is_small(wheel):
    total = sum(i.file_size for i in zipfile.ZipFile(wheel).infolist())
    assert total <= 10e6, f"{total / 1e6:.1f} MB installed; the budget is 10 MB"


def test_wheel_has_its_entry_points(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("entry_points.txt"))
        text = archive.read(name).decode()
    assert "plugrad = plugrad.cli:main" in text
    assert "standard = plugrad_ops" in text
    assert "plugrad = pytest_plugrad" in text


def test_sdist_holds_what_a_build_and_a_check_need(sdist):
    with tarfile.open(sdist) as archive:
        found = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    expected = {"setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", ".ci/run"}
    expected |= {f"{root}/{p.as_posix()}" for root in ROOTS for p in sources(root)}
    assert expected <= found
    made = {f for f in found if f.endswith((".c", ".so", ".pyc")) or f.startswith("build/cython")}
    made |= {f for f in found if f.startswith((".ci/work", ".venv", "asv_benchmarks/.asv"))}
    assert not made, f"the sdist carries what a build or a check made: {sorted(made)[:20]}"
