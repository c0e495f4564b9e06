"""The README's code runs and prints what the README shows.

A block of code says what it is in the comment before it: `cell` runs as a notebook cell, `file: NAME` is
written, `console` runs line by line, `contract cell` as `cell`, `gpu cell` runs where the emulated device is. `.ci/run` runs the
blocks marked `command` as they stand, and what the block marked `benchmarks` shows, on a few benchmarks.
"""

import doctest
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import plugrad

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^(?:<!-- ([^\n]+) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CELLS = ("cell", "gpu cell", "contract cell")
MARKS = (
    *CELLS,
    "file",
    "console",
    "command",
    "benchmarks",
    "output",
    "gpu output",
    "contract output",
)


OURS = ["soft", "ste"] if find_spec("plugrad_ste") else ["soft"]


def blocks(mark):
    """(what stands after the mark, text) of each block that is so marked."""
    for comment, _, text in BLOCK.findall(README):
        kind, _, rest = comment.partition(": ")
        if kind == mark:
            yield rest, text


def assert_prints(expected, got, command):
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if not checker.check_output(expected, got, flags):
        example = doctest.Example(command, expected)
        pytest.fail(f"{command}\n" + checker.output_difference(example, got, flags))


def without_numbers(text):
    """Times, counts and last digits differ between machines and releases; the words must not."""
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "N", text)


def without_others(text):
    """The list of plugins without those that the test leaves out."""
    return re.sub(r"^\S+ .* blocked .*\n|^\n\S+ is blocked: .*\n", "", text, flags=re.MULTILINE)


@pytest.fixture
def environment(tmp_path):
    """Variables under which the README's commands run offline and install into a folder of the test."""
    site = tmp_path / "site"
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).rstrip(
            os.pathsep
        ),
        "PLUGRAD_PLUGINS": ",".join(OURS),  # whatever else is installed here
        "PLUGRAD_CERTIFICATES": str(tmp_path / "certificates"),
        "PIP_TARGET": str(site),
        "PIP_UPGRADE": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "COLUMNS": "110",
        "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
    }


def test_every_block_of_code_is_run_somewhere():
    for comment, language, text in BLOCK.findall(README):
        assert comment.partition(": ")[0] in MARKS, f"unmarked {language} block: {text[:60]!r}"


def test_notebook_cell(tmp_path, environment):
    assert_cell_prints("cell", "output", tmp_path, environment)


def test_notebook_cell_on_the_emulated_device(cuda, tmp_path, environment):
    assert_cell_prints("gpu cell", "gpu output", tmp_path, environment)


def test_contract_cell(tmp_path, environment):
    assert_cell_prints("contract cell", "contract output", tmp_path, environment)


def assert_cell_prints(cell, output, tmp_path, environment):
    ((_, code),) = blocks(cell)
    ((_, expected),) = blocks(output)
    done = subprocess.run(
        [sys.executable, "-"],
        input=code,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert_prints(expected, done.stdout, "the cell")


def test_package_is_installed_listed_checked_used_and_refused(tmp_path, environment):
    for name, text in blocks("file"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    wrong = False
    for part in re.split(r"^\$ ", "".join(t for _, t in blocks("console")), flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        wrong = wrong or command.startswith("sed")
        refused = wrong and not command.startswith(("sed", "pip"))
        assert (done.returncode != 0) == refused, f"{command}: {done.returncode}\n{done.stdout}"
        if "ste" not in OURS:
            expected = re.sub("^ste .*\n", "", expected, flags=re.MULTILINE)
        if not command.startswith("pip"):
            printed = without_others(done.stdout)
            assert_prints(without_numbers(expected), without_numbers(printed), command)
    assert wrong


def test_the_package_is_as_small_as_promised():
    lines = {name: [s for s in text.splitlines() if s] for name, text in blocks("file")}
    assert len(lines["plugrad-soft/plugrad_soft.py"]) <= 15
    assert len(lines["plugrad-soft/pyproject.toml"]) <= 10


def test_the_number_of_operators_is_about_what_it_says():
    told = int(re.search(r"plugrad_ops +loaded +(\d+)", README)[1])
    assert told == pytest.approx(len(plugrad.registry.operators("standard::*")), rel=0.1)


def test_commands_are_one_line_each():
    commands = dict(blocks("command"))
    assert set(commands) == {"train", "tests"}
    for name, text in commands.items():
        assert text.count("\n") == 1, f"{name}: {text}"
        assert text.startswith("python3 -m venv .venv && .venv/bin/pip install ")


def test_variables_are_those_that_are_read():
    files = [p for part in ("core", "ops") for p in (ROOT / part).rglob("*.py*")]
    sources = "".join(p.read_text() for p in files if p.suffix in (".py", ".pyx"))
    read = set(re.findall(r"\"(PLUGRAD_[A-Z_]+)\"", sources))
    assert set(re.findall(r"\bPLUGRAD_[A-Z_]+\b", README)) == read


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
