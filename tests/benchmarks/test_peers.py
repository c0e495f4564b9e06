"""The scripts that compare with other libraries: they measure what they say, and skip by name what is missing."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


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
    # Who comes first changes from round to round.
    assert order[-6:] == ["a", "b", "b", "a", "a", "b"]


@pytest.mark.parametrize(("calls", "times"), [(1, 1), (5, 6)])
def test_a_sample_of_several_calls_is_warmed_up_by_one(script, calls, times):
    called = []
    script("measure").sample(lambda: called.append(1), calls, rest=0.0)
    assert len(called) == times


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
    rows = script("rows")
    row = rows.Row("work", "s", {"plugrad": 1.0}, budget, against, ratio)
    assert row.verdict == verdict
    assert (rows.ratio_text(row), rows.budget_text(row)) == texts


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
    assert peers.installed_peers() == (
        ("plugrad", "numpy"),
        {"torch": "not installed", "autograd": "not installed"},
    )


def test_without_torch_the_rows_have_no_ratio(script, monkeypatch):
    works, measure = script("works"), script("measure")
    monkeypatch.setattr(measure, "REST_SECONDS", 0.0)
    table = script("operators").Selection(("exp",), ("float32",), ("contiguous",), (100,))
    settings = works.Settings(("plugrad", "numpy"), 1, 100, 1, table)
    for name in ("multiply", "python-operator", "chain", "convnet"):
        for row in works.WORKS[name](settings):
            assert row.verdict == "-"
            assert row.figures["plugrad"] > 0
    case, together = works.WORKS["operators"](settings)
    assert (case.work, case.verdict) == ("exp 1e2 float32 contiguous", "-")
    assert together.note == "no ratio without torch"
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
    assert set(works) == {"multiply chain, 4 elements", "installed size"}
    assert "failed" not in {row["verdict"] for row in report["rows"]}


def test_an_unknown_work_is_named(script):
    with pytest.raises(SystemExit, match="no work nonsense; there is multiply"):
        script("peers").main(["--only", "nonsense"])


def test_a_work_that_fails_is_named_and_the_others_run(script, monkeypatch, capsys):
    peers, works = script("peers"), script("works")

    def broken(settings):
        raise RuntimeError("no such thing")

    monkeypatch.setitem(works.WORKS, "broken", broken)
    monkeypatch.setattr(peers, "pin_threads", lambda threads: None)
    monkeypatch.setattr(peers, "set_threads", lambda peers, threads: None)
    assert peers.main(["--only", "broken,size", "--rounds", "1"]) == 1
    out = capsys.readouterr().out
    assert "RuntimeError: no such thing" in out
    assert "installed size" in out
    assert ", 1 failed" in out


def test_what_is_far_over_its_budget_fails_where_that_was_asked_for(script, capsys):
    peers, rows = script("peers"), script("rows")
    far, near, held = (rows.Row(name, "s", {}, 0.5, "torch", ratio) for name, ratio in RATIOS)
    assert peers.conclude([near, far, held]) == 0
    assert peers.conclude([near, held], 1.5) == 0
    assert peers.conclude([near, far, held], 1.5) == 1
    out = capsys.readouterr().out
    assert out.endswith("above 1.5 times its budget: far\n")
    assert out.index("far") < out.index("near")


RATIOS = (("far", 0.8), ("near", 0.7), ("held", 0.5))


def test_the_convolutional_step_learns(script):
    step = script("convnet").with_library("plugrad", rows=8)
    losses = [step() for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]


def test_the_deep_network_takes_its_steps(script, monkeypatch):
    deep = script("deep")
    monkeypatch.setattr(deep._module().Network.__init__, "__defaults__", (8, 4, 4))
    for step in deep.steps().values():
        step()
    for way in ("nothing", *deep.WAYS):
        deep.step_with_gradients(way)()
