"""The floors hold for Cython files too: import-linter reads Python, this reads `.pyx` and `.pxd`."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\s+(.+)|c?import\s+(.+))$")


def floors():
    """Folder of `plugrad` -> number of its floor, the lowest 0, as pyproject.toml orders them."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = (c for c in config["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return {
        name.strip(" ()").removeprefix("plugrad."): height
        for height, layer in enumerate(reversed(contract["layers"]))
        for name in layer.split(":")
    }


def cython_files():
    for root in ("core", "ops"):
        for ending in ("*.pyx", "*.pxd"):
            yield from sorted((ROOT / root).rglob(ending))


def imported(text, package):
    """Dotted names that Cython source of `package` imports or cimports, relative ones made absolute."""
    for line in text.splitlines():
        found = IMPORT.match(line.split("#")[0].rstrip())
        if not found:
            continue
        module, names, plain = found.groups()
        if plain:
            yield from (name.split(" as ")[0].strip() for name in plain.split(","))
            continue
        dots = len(module) - len(module.lstrip("."))
        if dots:
            above = package.split(".")[: 1 - dots or None]
            module = ".".join([*above, module.lstrip(".")]).rstrip(".")
        yield module
        yield from (f"{module}.{n.split(' as ')[0].strip()}" for n in names.strip(" ()").split(","))


@pytest.mark.parametrize("path", list(cython_files()), ids=lambda p: str(p.relative_to(ROOT)))
def test_cython_file_imports_nothing_above_it(path):
    height = floors()
    root, package, folder = path.relative_to(ROOT).parts[:3]
    for name in imported(path.read_text(), ".".join(path.relative_to(ROOT / root).parent.parts)):
        parts = name.split(".")
        if root == "core":
            assert parts[0] != "plugrad_ops", f"{path.name} imports {name}, a plugin"
            if parts[0] == package and len(parts) > 1 and parts[1] in height:
                assert height[parts[1]] <= height[folder], (
                    f"{path.relative_to(ROOT)} (floor {height[folder]}) imports {name}"
                    f" (floor {height[parts[1]]})"
                )
        elif parts[0] == "plugrad" and len(parts) > 1:
            public = parts[1] not in height or parts[1] in ("graph", "backends", "nn")
            assert public, f"{path.relative_to(ROOT)} imports {name}, which is not public"


def test_every_folder_of_plugrad_has_a_floor():
    known = set(floors())
    folders = {p.parent.name for p in (ROOT / "core" / "plugrad").glob("*/__init__.py")}
    assert folders <= known, f"no floor in pyproject.toml for {sorted(folders - known)}"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (
            "from plugrad.graph.op cimport Kernel, Op",
            {"plugrad.graph.op.Kernel", "plugrad.graph.op.Op"},
        ),
        ("cimport plugrad.graph.node as n", {"plugrad.graph.node"}),
        ("    from plugrad.cli import main  # late", {"plugrad.cli.main"}),
        ("from . cimport node", {"plugrad.graph.node"}),
        ("from ..cli import main", {"plugrad.cli.main"}),
    ],
)
def test_imports_are_read_in_every_spelling(line, names):
    assert names <= set(imported(line, "plugrad.graph"))
