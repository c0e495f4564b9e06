"""The scripts for hardware: what they count and say, and that every part of them runs on the emulated device."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "gpu"
KERNEL = """\
// my::{name}: float -> float
typedef float T;
enum {{ V = {width} }};
namespace plugrad {{
PLUGRAD_FN void element(const T x, T &out) {{ out = {text}; }}
}}
extern "C" __global__ void __launch_bounds__(128) flat(const T *x, T *out) {{ plugrad::element(x[V], out[0]); }}
"""


def source(name, text="x * 2", width=4):
    text = KERNEL.format(name=name, text=text, width=width)
    return {"name": f"my::{name}", "source": text, "origin": "my.py", "line": 7}


def run(name, *arguments):
    command = [sys.executable, str(FOLDER / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


# -------------------------------------------------------------------------------------------------------------- report


@pytest.mark.parametrize(
    ("group", "against", "ratio", "verdict", "budget"),
    [
        ("elementwise", "copy", 0.95, "ok", "≥ 0.9 copy"),
        ("rows", "copy", 0.5, "over", "≥ 0.9 copy"),
        ("sums", "copy", 0.5, "-", ""),
        ("matmul", "torch", 1.05, "ok", "≤ 1.05 torch"),
        ("launch", "torch", 0.6, "over", "≤ 0.5 torch"),
        ("step", "torch", None, "-", ""),
    ],
)
def test_verdicts(script, group, against, ratio, verdict, budget):
    row = script("report").Row(group, "work", "s", {"plugrad": 1.0}, ratio, against)
    assert (row.verdict, str(row.budget or "")) == (verdict, budget)


def test_the_summary_holds_the_case_furthest_from_its_budget(script):
    report = script("report")
    rows = [
        report.Row("elementwise", "copy", "GB/s", {"plugrad": 1.0}, against="copy"),
        *(
            report.Row("elementwise", name, "GB/s", {"plugrad": 1.0}, ratio, "copy")
            for name, ratio in (("exp", 0.97), ("gelu", 0.91), ("add", 0.99))
        ),
        *(
            report.Row("launch", name, "µs", {"plugrad": 1.0}, ratio)
            for name, ratio in (("exp", 0.2), ("sum", 0.4))
        ),
    ]
    found = {what: report.result_text(row) for what, _, row in report.summary(rows)}
    assert found["elementwise, slowest case"] == "0.91 copy (gelu), held"
    assert found["time of a call from Python, slowest case"] == "0.4 torch (sum), held"
    assert found["training step of an MLP"] == "not run"


def test_a_dry_run_gives_no_verdicts_and_no_results_to_publish(script, tmp_path):
    report = script("report")
    row = report.Row("step", "step", "ms", {"plugrad": 2.0, "torch": 1.0}, 2.0)
    dry = report.Report({"date": "today", "device": "Emulated", "driver": "none"}, True, rows=[row])
    assert report.markdown(dry) == report.markdown()
    assert "over" not in report.short_table(dry)
    dry.write(tmp_path / "dry.json")
    data = json.loads((tmp_path / "dry.json").read_text())
    assert data["note"] == report.EMULATED
    assert [r["verdict"] for r in data["rows"]] == ["-"]
    real = report.Report({"date": "today", "device": "H200", "driver": "580"}, False, rows=[row])
    assert "| 2 torch (step), over | today | H200 | 580 |" in report.markdown(real)


# ------------------------------------------------------------------------------------------------------------- sources


def test_what_a_source_declares_is_found(script):
    assert script("bundle").declared(source("a")["source"]) == ["T", "V", "element", "flat"]


def test_a_bundle_keeps_sources_apart(script):
    text = script("bundle").bundled([source("a")["source"], source("b", width=8)["source"]])
    assert text.count("#define T T_") == text.count("#undef T\n") == 2
    assert '#line 1 "source 1"' in text


class Refusing:
    """A compiler that knows no word 'wrong', and no bundle if `alone`."""

    def __init__(self, error, alone):
        self.error, self.alone, self.texts = error, alone, []

    def build(self, text, arch):
        self.texts.append(text)
        if "wrong" in text or (self.alone and "source 1" in text):
            raise self.error("refused", "my.py(7): error: identifier wrong is undefined")
        return b""


@pytest.mark.parametrize("alone", [False, True])
def test_a_source_that_does_not_compile_is_named(script, monkeypatch, alone):
    module = script("compile_all")
    compiler = Refusing(module.compiler.CompileError, alone)
    monkeypatch.setattr(module, "quick", lambda arch: compiler)
    assert module.built([source("a"), source("b")], "sm_90") == []
    assert len(compiler.texts) == (3 if alone else 1)
    (problem,) = module.built([source("a"), source("bad", "wrong"), source("c")], "sm_90")
    assert (problem.name, problem.signature, problem.arch) == ("my::bad", "float -> float", "sm_90")
    assert "my.py(7)" in problem.log


def test_nothing_to_compile_is_an_error(script):
    with pytest.raises(SystemExit, match="no sources"):
        list(script("compile_all").check([], ["sm_90"], 1, False))


def test_spread_out_every_architecture_has_its_turn(script):
    three = script("compile_all").three
    assert [three(["a", "b", "c", "d"], turn) for turn in range(3)] == [
        ["a", "d", "b"],
        ["a", "d", "c"],
        ["a", "d", "b"],
    ]
    assert three(["a", "b"], 5) == ["a", "b"]
    assert three(["a"], 5) == ["a"]


def test_a_compiler_refuses_what_is_wrong_and_takes_a_bundle(script, tmp_path):
    module = script("compile_all")
    if module.compiler.why_no_compiler() is not None:
        pytest.skip("needs NVRTC or nvcc")
    sources = [source("a"), source("b", "exp(x)", 8)]
    (tmp_path / "sources.json").write_text(json.dumps(sources))
    done = run("compile_all.py", tmp_path, "--arch", "sm_75,sm_90", "--jobs", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 sources x 2 architectures (sm_75, sm_90)" in done.stdout
    (tmp_path / "sources.json").write_text(json.dumps([*sources, source("bad", "wrong(x)")]))
    done = run("compile_all.py", tmp_path, "--arch", "sm_90", "--jobs", 1)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED  my::bad  float -> float  sm_90\nmy.py(11): error" in done.stdout
    assert "1 failures" in done.stdout


def test_without_a_compiler_the_check_is_skipped_by_name(script, monkeypatch, capsys, tmp_path):
    module = script("compile_all")
    monkeypatch.setattr(module.compiler, "why_no_compiler", lambda: "neither NVRTC nor nvcc")
    assert module.main([str(tmp_path)]) == module.NO_COMPILER
    assert capsys.readouterr().out == "skipped: neither NVRTC nor nvcc\n"


def test_the_battery_of_an_operator_leaves_its_sources(cuda, tmp_path):
    done = run("collect.py", tmp_path, "--operators", "standard::floor", "--jobs", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    names = {one["name"] for one in json.loads((tmp_path / "sources.json").read_text())}
    assert {"standard::floor", "Adam"} <= names
    outcomes = {one["name"]: one for one in json.loads((tmp_path / "batteries.json").read_text())}
    assert outcomes["standard::floor"]["passed"]
    assert "optim.SGD" in outcomes


# ------------------------------------------------------------------------------------------------------------- the run


def test_fresh_samples_lie_where_the_operators_own_do(script):
    import plugrad

    fresh = script("fresh")
    maker = plugrad.contract.Maker("unused")
    for name in ("log", "acos", "softmax", "gather"):
        operator = plugrad.registry.get(name)
        first, again, other = (
            list(fresh.samples(operator, seed, 121)(maker)) for seed in (1, 1, 2)
        )
        assert len(first) >= 3
        assert [str(s) for s in first] == [str(s) for s in again] == [str(s) for s in other]
        assert (first[0].args[0] == again[0].args[0]).all()
        assert (first[0].args[0] != other[0].args[0]).any()
    (x,) = next(iter(fresh.samples(plugrad.registry.get("log"), 3, 121)(maker))).args
    assert x.size == 121
    assert (x > 0).all()


def test_an_operator_whose_inputs_cannot_be_guessed_has_no_fresh_samples(script):
    class Unknown:
        name, schema = "my::unknown", None

    assert script("fresh").samples(Unknown(), 0, 121) is None


@pytest.mark.parametrize(("on_cpu", "passed"), [(True, False), (False, True)])
def test_fresh_samples_count_where_the_cpu_takes_them(script, monkeypatch, on_cpu, passed):
    suite, settings = script("suite"), script("settings")

    def checked(operator, samples, device):
        good = samples is None or (device == "cpu" and on_cpu)
        return {"passed": good, "samples": 4, "report": "" if good else f"refused on {device}\n"}

    monkeypatch.setattr(suite, "checked", checked)
    few = dataclasses.replace(settings.DRY, operators="standard::exp")
    ((name, outcome),) = suite.batteries(few, "cuda-emulated", 0)
    assert (name, outcome["passed"]) == ("standard::exp", passed)
    assert outcome["fresh_samples"] == (4 if on_cpu else 0)
    assert ("unsuited: refused on cpu" in outcome["note"]) != on_cpu
    assert ("refused on cuda-emulated" in outcome["report"]) == on_cpu


def test_tests_are_counted(script):
    import xml.etree.ElementTree as ET

    text = (
        "<r><testcase classname='a' name='x'/><testcase classname='a' name='y'><failure message='no'/></testcase>"
        "<testcase classname='a' name='z'><skipped message='needs'/></testcase></r>"
    )
    found = script("suite").counted(ET.ElementTree(ET.fromstring(text)))
    assert (found["passed"], found["failed"], found["skipped"]) == (1, 1, 1)
    assert found["messages"] == {"a::y": "no", "a::z": "skipped: needs"}


def test_the_run_on_the_emulated_device(cuda, tmp_path):
    report = tmp_path / "report.json"
    arguments = ("--only", "launch,step,suite", "--operators", "standard::floor", "--json", report)
    done = run("run.py", "--dry-run", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("emulated: figures mean nothing\n")
    data = json.loads(report.read_text())
    assert data["emulated"]
    assert data["failed"] == {}
    assert data["suite"]["operators"]["standard::floor"]["passed"]
    assert {row["group"] for row in data["rows"]} == {"launch", "step", "memory"}


def test_the_emulated_device_is_refused_where_hardware_was_meant(cuda, script):
    if not cuda.is_emulated():
        pytest.skip("the device is real")
    with pytest.raises(SystemExit, match="use --dry-run"):
        script("machine").prepare(emulated=False)


def test_an_unknown_part_is_named(script):
    with pytest.raises(SystemExit, match="no part nonsense; there is suite"):
        script("run").main(["--only", "nonsense"])
