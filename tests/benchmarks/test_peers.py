"""The scripts that compare with other libraries: they measure what they say, and skip by name what is missing."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """Imports a module of benchmarks/, whose modules find each other as they do for the script."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def test_bodies_that_do_different_work_are_refused(script):
    measure = script("measure")
    measure.agree({"a": np.ones(3), "b": np.ones(3) + 1e-6, "c": None})
    with pytest.raises(ValueError, match="a and b do not do the same work: they give shapes"):
        measure.agree({"a": np.ones(3), "b": np.ones(4)})
    with pytest.raises(ValueError, match="differ by up to 1"):
        measure.agree({"a": np.ones(3), "b": np.zeros(3)})
    with pytest.raises(ValueError, match="differ by up to nan"):
        measure.agree({"a": np.ones(3), "b": np.full(3, np.nan)})


def test_a_ratio_is_the_median_of_the_ratios_within_a_round(script):
    timing = script("measure").Timing({"a": [1.0, 10.0, 3.0], "b": [2.0, 20.0, 3.0]})
    assert timing.ratio("a", "b") == 0.5
    assert timing.median("a") == 3.0


def test_rounds_are_interleaved(script, monkeypatch):
    measure = script("measure")
    monkeypatch.setattr(measure, "REST_SECONDS", 0.0)
    order = []

    def body(name):
        return lambda: order.append(name)

    timing = measure.interleave({"a": body("a"), "b": body("b")}, rounds=3, seconds=0.0)
    assert [len(values) for values in timing.seconds.values()] == [3, 3]
    # One call warms up and one is timed; who comes first changes from round to round.
    assert order[-12:] == ["a", "a", "b", "b", "b", "b", "a", "a", "a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("ratio", "budget", "against", "verdict", "texts"),
    [
        (0.1, 0.125, "torch", "ok", ("1/10", "≤ 1/8 torch")),
        (0.2, 0.125, "torch", "over", ("1/5", "≤ 1/8 torch")),
        (0.9, 1.0, "torch", "ok", ("0.9", "≤ 1 torch")),
        (0.08, 0.1, None, "ok", ("0.08", "≤ 0.1 s")),
        (None, None, None, "-", ("", "")),
    ],
)
def test_verdicts(script, ratio, budget, against, verdict, texts):
    works = script("works")
    row = works.Row("work", "s", {"plugrad": 1.0}, budget, against, ratio)
    assert row.verdict == verdict
    assert (works.ratio_text(row), works.budget_text(row)) == texts


@pytest.mark.parametrize("peer", ["plugrad", "numpy"])
def test_the_training_step_learns(script, peer):
    training = script("training")
    step = training.training_step((peer,), training.Problem((8, 16, 3), 32, "Adam", 1e-2))[peer]
    losses = [step() for _ in range(50)]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("problem", ["SMALL", "LARGE"])
def test_the_step_by_hand_is_the_step(script, problem):
    training = script("training")
    bodies = training.training_step(("plugrad", "numpy"), getattr(training, problem))
    for _ in range(3):
        script("measure").agree({name: body() for name, body in bodies.items()})


def test_chains_agree(script):
    chains = script("chains")
    for make in (chains.multiply_chain, chains.python_operator):
        bodies = make(("plugrad", "numpy"), length=10)
        results = {name: body() for name, body in bodies.items()}
        results["expected"] = np.full(chains.ELEMENTS, 1.0001**10, np.float32)
        script("measure").agree(results)


def test_a_missing_peer_is_skipped_by_name(script, monkeypatch):
    peers = script("peers")
    monkeypatch.setattr(peers.util, "find_spec", lambda name: None)
    assert peers.installed_peers(2) == (
        ("plugrad", "numpy"),
        {"torch": "not installed", "autograd": "not installed"},
    )


def test_without_torch_the_rows_have_no_ratio(script, monkeypatch):
    works, measure = script("works"), script("measure")
    monkeypatch.setattr(measure, "REST_SECONDS", 0.0)
    settings = works.Settings(("plugrad", "numpy"), 1, 100, 1, (100,))
    for name in ("multiply", "python-operator", "chain"):
        for row in works.WORKS[name](settings):
            assert row.verdict == "-"
            assert row.figures["plugrad"] > 0
    small = works.WORKS["small-step"](settings)
    assert [row.against for row in small] == ["numpy"]


def test_the_script_prints_a_table_and_writes_json(tmp_path):
    output = tmp_path / "figures.json"
    command = [sys.executable, str(FOLDER / "peers.py"), "--only", "multiply,size", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--json", str(output)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "multiply chain, 4 elements" in done.stdout
    report = json.loads(output.read_text())
    assert report["machine"]["threads"] == "2"
    works = [row["work"] for row in report["rows"]]
    assert works == ["multiply chain, 4 elements", "installed size"]
    assert report["failed"] == {}


def test_an_unknown_work_is_named(script):
    with pytest.raises(SystemExit, match="no work nonsense; there is multiply"):
        script("peers").main(["--only", "nonsense"])


def test_instructions_are_skipped_without_valgrind(script, monkeypatch, capsys):
    instructions = script("instructions")
    monkeypatch.setattr(instructions.shutil, "which", lambda name: None)
    assert instructions.main([]) == 0
    assert capsys.readouterr().out == "skipped: valgrind, not installed\n"
