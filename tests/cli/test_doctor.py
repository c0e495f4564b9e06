"""``plugrad doctor``."""

import json
import sys

import pytest

from plugrad.cli import findings, main
from plugrad.cli.findings import Finding


def test_every_part_has_a_line(invoke):
    result = invoke("doctor")
    assert result.exit_code == 0, result.output
    for part in ("Python", "NumPy", "C++ compiler", "PyCUDA", "NVIDIA driver", "NVRTC", "emulator"):
        assert part in result.stdout


def test_what_is_missing_comes_with_a_command(invoke):
    found = json.loads(invoke("doctor", "--json").stdout)
    assert {one["status"] for one in found} <= {"ok", "missing"}
    assert all(one["remedy"] for one in found if one["status"] == "missing")
    assert all(one["found"] for one in found)


def test_a_part_that_breaks_is_told_and_hides_no_other(invoke, monkeypatch):
    def broken(part):
        raise OSError("the library is of another machine")

    monkeypatch.setattr(
        findings, "PARTS", [("NVRTC", broken), ("nvcc", lambda part: Finding(part, "ok", "13.0"))]
    )
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "OSError: the library is of another machine" in result.stdout
    assert "13.0" in result.stdout


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_click_or_rich_it_prints_plainly_what_brings_them(missing, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"click and rich: missing, {missing} not installed\n" in out
    assert 'pip install "plugrad[cli]"' in out
    for part in ("Python", "NumPy", "CUDA device", "NVRTC", "emulator"):
        assert f"\n{part}: " in out
