"""Counted instructions: what is counted runs, and a count is held to the baseline only where that was taken alike."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def instructions(script, monkeypatch, tmp_path):
    module = script("instructions")
    monkeypatch.setattr(module, "BASELINE", tmp_path / "baseline.json")
    return module


def baseline(module, **counts):
    content = {name: {"plugrad": count} for name, count in counts.items()}
    module.write(module.BASELINE, {"taken with": module.surroundings(), "counts": content})


def test_every_work_runs(script):
    for work in script("overheads").WORKS.values():
        for peer in set(work.peers) - {"torch"}:
            body = work.make(peer)
            body()
            body()


@pytest.mark.parametrize(
    ("count", "status", "text"),
    [
        (1040, 0, "no count rose by more than 5%\n"),
        (1060, 1, "risen: add: 1,000 to 1,060, +6.0%\n"),
        (900, 0, "fallen: add: 1,000 to 900, -10.0%\n"),
    ],
)
def test_a_count_may_rise_by_five_per_cent(instructions, capsys, count, status, text):
    baseline(instructions, add=1000)
    assert instructions.check({"add": {"plugrad": count}}) == status
    out = capsys.readouterr().out
    assert out.startswith(text)
    assert ("instructions.py --update" in out) == (count != 1040)


def test_a_work_that_the_baseline_does_not_know_is_named(instructions, capsys):
    baseline(instructions)
    assert instructions.check({"add": {"plugrad": 7}}) == 0
    assert capsys.readouterr().out.startswith("not in the baseline: add\n")


def test_the_check_is_skipped_where_the_baseline_was_taken_with_something_else(
    instructions, monkeypatch, capsys
):
    baseline(instructions, add=1000)
    content = json.loads(instructions.BASELINE.read_text())
    content["taken with"]["numpy"] = "1.0"
    instructions.BASELINE.write_text(json.dumps(content))
    monkeypatch.setattr(instructions, "why_not", lambda: "")
    assert instructions.main(["--check"]) == 0
    assert capsys.readouterr().out.startswith(
        "skipped: the baseline was taken with numpy 1.0, here "
    )


def test_the_check_is_skipped_where_the_control_has_moved(instructions, capsys):
    baseline(instructions, add=1000)
    content = json.loads(instructions.BASELINE.read_text())
    content["counts"]["add"]["numpy"] = 500
    instructions.BASELINE.write_text(json.dumps(content))
    assert instructions.check({"add": {"plugrad": 1200, "numpy": 501}}) == 1
    capsys.readouterr()
    assert instructions.check({"add": {"plugrad": 1200, "numpy": 520}}) == 0
    assert capsys.readouterr().out.startswith("skipped: add with NumPy alone takes 520 ")


def test_without_a_baseline_the_check_is_skipped(instructions, monkeypatch, capsys):
    monkeypatch.setattr(instructions, "why_not", lambda: "")
    assert instructions.main(["--check"]) == 0
    assert capsys.readouterr().out.startswith("skipped: no baseline baseline.json; ")


def test_the_baseline_is_written_from_what_was_counted(instructions, monkeypatch, capsys):
    monkeypatch.setattr(instructions, "why_not", lambda: "")
    monkeypatch.setattr(instructions, "counted", lambda peer, names, profile: {"add": 1000.0})
    assert instructions.main(["--update"]) == 0
    assert instructions.main(["--check"]) == 0
    assert capsys.readouterr().out.endswith("no count rose by more than 5%\n")


def test_counting_is_skipped_without_valgrind(instructions, monkeypatch, capsys):
    monkeypatch.setattr(instructions.shutil, "which", lambda name: None)
    assert instructions.main([]) == 0
    assert capsys.readouterr().out == "skipped: valgrind, not installed\n"


def test_an_unknown_work_is_named(instructions):
    with pytest.raises(SystemExit, match="no work nonsense; there is multiply"):
        instructions.counted("plugrad", ["nonsense"], None)
