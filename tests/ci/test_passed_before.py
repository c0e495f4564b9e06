"""The second run of the tests leaves out what passed in the first, and nothing else."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".ci"

FIRST = """
import os, pytest

def test_passes(): pass
def test_fails(): assert "SECOND" in os.environ
def test_skips(): "SECOND" in os.environ or pytest.skip("not yet")

class TestClass:
    @pytest.mark.parametrize("value", ["a::b", "c[d]", "e/f.py", "\\x00", "é"])
    def test_odd_names(self, value): pass

    @pytest.mark.parametrize("value", [1, 2])
    def test_skips_once(self, value): value == 1 or "SECOND" in os.environ or pytest.skip("not yet")

@pytest.fixture
def broken():
    yield
    assert "SECOND" in os.environ

def test_passes_and_then_fails(broken): pass
"""
MODULE = """
import os, pytest
if "SECOND" not in os.environ:
    pytest.skip("not yet", allow_module_level=True)
def test_of_a_skipped_module(): pass
"""


def run(folder, report, *options, **environment):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        [*command, f"--junitxml={report}", "."],
        cwd=folder,
        env=inherited | environment,
        capture_output=True,
        text=True,
    )
    names = [case.get("name") for case in ET.parse(report).iter("testcase")]
    return done, names


def test_only_what_did_not_pass_runs_again(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "test_first.py").write_text(FIRST)
    (tmp_path / "test_module.py").write_text(MODULE)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    done, names = run(tmp_path, tmp_path / "first.xml")
    assert "1 failed, 8 passed, 3 skipped, 1 error" in done.stdout, done.stdout
    assert "test_passes" in names
    done, names = run(
        tmp_path,
        tmp_path / "second.xml",
        *("-p", "passed_before"),
        SECOND="1",
        PYTHONPATH=str(FOLDER),
        PASSED_BEFORE=str(tmp_path / "first.xml"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # What the report writes differently runs again: that costs time and hides nothing.
    certain = {
        "test_fails",
        "test_skips",
        "test_skips_once[2]",
        "test_passes_and_then_fails",
        "test_of_a_skipped_module",
    }
    assert certain <= set(names)
    assert set(names) - certain <= {"test_odd_names[#x00]", "test_odd_names[\\x00]"}
