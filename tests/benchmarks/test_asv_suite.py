"""The asv suite: a benchmark for every operator, and every body runs."""

import importlib.util
import inspect
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from plugrad import registry
from plugrad.contract import benchmarks
from plugrad.contract.benchmarks import operator_benchmarks
from plugrad.contract.samples import Maker

SUITE = Path(__file__).parents[2] / "asv_benchmarks" / "benchmarks"


def load(name):
    """A module of the suite, imported as asv does: inside its package, found by its folder alone."""
    package = "plugrad_asv_suite"
    if package not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            package, SUITE / "__init__.py", submodule_search_locations=[str(SUITE)]
        )
        sys.modules[package] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[package])
    return importlib.import_module(f"{package}.{name}")


OPERATORS = registry.operators("standard::*")
CLASSES = {
    name: value
    for name, value in vars(load("operators")).items()
    if isinstance(value, type) and issubclass(value, benchmarks.OperatorBenchmark)
}


# ------------------------------------------------------------------------------------------------------- completeness


def test_every_standard_operator_has_a_benchmark():
    measured = {cls.operator.name for cls in CLASSES.values()}
    assert measured == {operator.name for operator in OPERATORS}
    assert len(measured) >= 60


@pytest.mark.parametrize("name", CLASSES)
def test_no_standard_operator_is_measured_at_the_size_of_a_sample(name):
    # One that is not elementwise needs a line in asv_benchmarks/benchmarks/cases.py.
    assert benchmarks.AS_SAMPLED not in CLASSES[name].params[0]


def test_nothing_loaded_is_an_error():
    with pytest.raises(LookupError, match="no operator matches 'nobody::\\*'"):
        operator_benchmarks("nobody::*")


def test_a_blocked_plugin_is_an_error_that_gives_the_reason(monkeypatch):
    monkeypatch.setattr(registry, "operators", lambda pattern: [])
    broken = [type("Plugin", (), {"name": "standard", "reason": "ImportError: no kernels"})()]
    monkeypatch.setattr(registry, "plugins", lambda: broken)
    with pytest.raises(LookupError, match="plugin standard: ImportError: no kernels"):
        operator_benchmarks("standard::*")


def test_a_case_for_an_unknown_operator_is_an_error():
    with pytest.raises(LookupError, match="standard::no_such"):
        operator_benchmarks(
            "standard::*", {"standard::no_such": lambda make, n: make.call(make.normal(n))}
        )


# --------------------------------------------------------------------------------------------------------- parameters


def test_parameters_do_not_depend_on_what_is_installed():
    cases = load("cases")
    again = operator_benchmarks("standard::*", cases.CASES, cases.FORWARD_ONLY)
    assert {name: (cls.params, cls.version) for name, cls in again.items()} == {
        name: (cls.params, cls.version) for name, cls in CLASSES.items()
    }
    for cls in CLASSES.values():
        assert cls.params[0] == tuple(benchmarks.LOOPS)
        assert cls.params[1] in (benchmarks.FLOATS, ("int64",), ("bool",))


def test_other_shapes_give_another_version():
    def version(side):
        cases = {
            "standard::matmul": lambda make, n: make.call(
                make.normal(side, side), make.normal(side, side)
            )
        }
        return operator_benchmarks("standard::matmul", cases)["standard__matmul"].version

    assert version(4) == version(4) != version(5)


def test_an_elementwise_sample_is_repeated_to_the_size():
    log = CLASSES["standard__log"]
    (x,) = log.build(10_000).args
    assert x.shape == (10_000,)
    assert (x > 0).all()


def test_an_operator_that_is_not_elementwise_falls_back_to_its_sample():
    cls = operator_benchmarks("standard::matmul")["standard__matmul"]
    assert cls.params[0] == (benchmarks.AS_SAMPLED,)
    instance = cls()
    instance.setup(benchmarks.AS_SAMPLED, "float32")
    instance.time_forward_backward(benchmarks.AS_SAMPLED, "float32")


def test_cases_have_about_as_many_elements_as_asked_for():
    for name, case in load("cases").CASES.items():
        arrays = benchmarks._arrays(case(Maker(name), 10_000).args)
        total = sum(array.size for array in arrays)
        assert max(array.size for array in arrays) <= 10_000, name
        # What is spread out (an expanded row, say) reads less and writes more.
        assert total >= 100, name


# ------------------------------------------------------------------------------------------------------------- bodies


@pytest.mark.parametrize("name", CLASSES)
def test_bodies_run(name, monkeypatch):
    monkeypatch.setattr(benchmarks, "LOOPS", dict.fromkeys(benchmarks.LOOPS, 2))
    cls = CLASSES[name]
    bodies = [body for body in dir(cls) if body.startswith(("time_", "track_"))]
    assert {"time_forward", "track_peak_memory"} <= set(bodies)
    forward_only = cls.operator.name in load("cases").FORWARD_ONLY
    if not forward_only and not benchmarks._nondifferentiable(cls.operator):
        assert "time_forward_backward" in bodies
    for dtype, body in product(cls.params[1], bodies):
        instance = cls()
        instance.setup(100, dtype)
        result = getattr(instance, body)(100, dtype)
        if body == "track_peak_memory":
            assert isinstance(result, int)
            assert result >= 0


def test_setup_builds_its_inputs_once():
    instance = CLASSES["standard__exp"]()
    instance.setup(100, "float32")
    before = instance._forward
    instance.setup(100, "float32")
    assert instance._forward is before
    instance.setup(100, "float64")
    assert instance._forward.args[0].dtype == np.float64


def test_peak_memory_counts_the_buffers_of_forward_and_backward():
    instance = CLASSES["standard__exp"]()
    elements, size = 1_000_000, 4_000_000
    instance.setup(elements, "float32")
    # The result, which is saved, and the gradient; inputs and seed were there before.
    peak = instance.track_peak_memory(elements, "float32")
    assert 2 * size <= peak <= 2.1 * size


def test_a_timed_body_loops_as_often_as_its_size_says(monkeypatch):
    called = []
    cls = CLASSES["standard__exp"]
    instance = cls()
    instance.setup(10_000, "float32")
    monkeypatch.setattr(cls, "operator", staticmethod(called.append))
    instance.time_forward(10_000, "float32")
    assert len(called) == benchmarks.LOOPS[10_000]


# ----------------------------------------------------------------------------------------------------------- the core

core = load("core")
CORE = [
    value
    for value in vars(core).values()
    if inspect.isclass(value) and value.__module__ == core.__name__
]


@pytest.mark.parametrize("cls", CORE, ids=lambda cls: cls.__name__)
def test_core_bodies_run(cls, monkeypatch):
    monkeypatch.setattr(core, "WIDTH", 10)
    monkeypatch.setattr(core, "LENGTHS", [5, 10])
    for name, value in vars(cls).items():
        if name in ("CALLS", "STEPS"):
            monkeypatch.setattr(cls, name, min(value, 2))
    bodies = [
        name for name in dir(cls) if name.startswith(("time_", "peakmem_", "track_", "timeraw_"))
    ]
    assert bodies
    parameters = [[5, 10]] if hasattr(cls, "params") else []
    for body, values in product(bodies, product(*parameters)):
        instance = cls()
        if hasattr(instance, "setup"):
            instance.setup(*values)
        getattr(instance, body)(*values)


@pytest.mark.parametrize("network", load("steps").Step.params)
def test_training_steps_run(network, monkeypatch, scripts):
    scripts(SUITE.parents[1] / "benchmarks")  # from which the steps come
    step = load("steps").Step()
    monkeypatch.setattr(step, "STEPS", 2)
    step.setup(network)
    step.time_steps(network)
    step.peakmem_steps(network)


@pytest.mark.parametrize("name", ["core", "operators", "steps"])
def test_no_name_of_a_module_is_taken_for_a_setting(name):
    # asv looks a benchmark's settings up in its module, too: `from itertools import repeat` there is one.
    settings = "setup teardown setup_cache timeout version params param_names repeat number rounds processes timer"
    settings += (
        " sample_time warmup_time min_run_count type unit skip_params benchmark_name pretty_name"
    )
    assert not set(settings.split()) & vars(load(name)).keys()


def test_raw_bodies_are_statements():
    timed, before = core.Import().timeraw_plugrad()
    exec(before)
    exec(timed)
