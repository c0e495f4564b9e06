"""The asv suite's benchmarks by device: parameters are fixed, what is missing is skipped, bodies run."""

import importlib.util
from pathlib import Path

import pytest

import plugrad

FILE = Path(__file__).parents[2] / "asv_benchmarks" / "benchmarks" / "devices.py"
spec = importlib.util.spec_from_file_location("plugrad_asv_devices", FILE)
devices = importlib.util.module_from_spec(spec)
spec.loader.exec_module(devices)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(devices, "CALLS", {100: 2})
    monkeypatch.setattr(devices, "LENGTH", 3)


def run(benchmark, *parameters):
    benchmark.setup(*parameters)
    for name in dir(benchmark):
        if name.startswith("time_"):
            getattr(benchmark, name)(*parameters)


def test_devices_do_not_depend_on_what_is_installed():
    assert devices.DEVICES == ["cpu", "cuda"]
    assert devices.Operator.params[0] == devices.Chain.params == devices.DEVICES


@pytest.mark.parametrize("operator", devices.OPERATORS)
def test_operators_on_the_cpu(short, operator):
    run(devices.Operator(), "cpu", operator, 100)


def test_chain_on_the_cpu(short):
    run(devices.Chain(), "cpu")


@pytest.mark.parametrize(
    ("benchmark", "parameters"),
    [(devices.Operator, ("cuda", "exp", 100)), (devices.Chain, ("cuda",))],
    ids=["Operator", "Chain"],
)
def test_a_device_that_is_not_there_is_skipped(monkeypatch, benchmark, parameters):
    monkeypatch.setattr(plugrad.cuda, "why_unavailable", lambda: "no driver")
    with pytest.raises(NotImplementedError, match="no device 'cuda': no driver"):
        benchmark().setup(*parameters)


def test_the_emulated_device_is_not_measured(cuda):
    if not cuda.is_emulated():
        pytest.skip("the device is real")
    with pytest.raises(NotImplementedError, match="emulated"):
        devices.Chain().setup("cuda")


def test_bodies_on_a_device(cuda, short, monkeypatch):
    monkeypatch.setattr(devices, "require", lambda device: None)
    run(devices.Chain(), "cuda")
    run(devices.Operator(), "cuda", "mul", 100)
