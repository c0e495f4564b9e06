"""``plugrad ops``."""

import json

import pytest


def test_all_operators_are_listed_with_their_signature(invoke):
    result = invoke("ops")
    assert result.exit_code == 0
    assert "standard::exp(x)" in result.stdout.replace("input", "x")
    assert "standard::matmul" in result.stdout


@pytest.mark.parametrize("pattern", ["exp", "standard::exp", "*::exp"])
def test_a_pattern_selects(invoke, pattern):
    found = json.loads(invoke("ops", pattern, "--json").stdout)
    assert [one["name"] for one in found] == ["standard::exp"]


def test_json_describes_an_operator(invoke):
    (exp,) = json.loads(invoke("ops", "standard::exp", "--json").stdout)
    assert exp["signature"].startswith("standard::exp(")
    assert exp["distribution"] == "plugrad"
    assert exp["order"] == "any"
    assert exp["devices"][0] == "cpu"
    assert set(exp["dtypes"].values()) == {"complex"}  # or floating
    assert exp["status"] in ("certified", "verified", "not verified")
    assert exp["nondifferentiable"] is False


def test_nothing_matches(invoke):
    result = invoke("ops", "expp")
    assert result.exit_code == 1
    assert "No operator matches 'expp'" in result.stderr
    assert "standard::exp" in result.stderr
    assert result.stdout == ""


def test_remarks_tell_surrogates_and_exemptions(workplace):
    workplace.plugin(
        "my",
        """
        def straight(x):
            return x

        @plugrad.operator("my::rint", elementwise=True, surrogate=straight, exempt=("linearity",))
        def rint(x):
            return 0 * x + (x > 0)

        @rint.backward
        def _(grad):
            return grad

        @rint.samples
        def _(make):
            yield make.call(make.normal(3))
        """,
        workplace.HOOK,
    )
    code, out, _ = workplace.run("ops", "my")
    assert code == 0
    assert "my::rint(x)" in out
    assert "surrogate: straight" in out
    assert "exempt: linearity" in out
    assert "not verified" in out


def test_an_operator_that_cannot_be_certified_says_why(workplace):
    workplace.plugin(
        "my",
        """
        import threading

        def closing_over(lock):
            def double(x):
                with lock:
                    return 2 * x

            return double

        double = plugrad.operator("my::double", elementwise=True)(closing_over(threading.Lock()))

        @double.backward
        def _(grad):
            return 2 * grad

        @double.samples
        def _(make):
            yield make.call(make.normal(3))
        """,
        workplace.HOOK,
    )
    code, out, _ = workplace.run("ops", "my", "--json")
    assert code == 0
    (one,) = json.loads(out)
    assert one["status"] == "not verified"
    assert "lock" in one["reason"]


def test_certified_after_warming(workplace):
    workplace.plugin("my", workplace.GOOD, workplace.HOOK)
    assert json.loads(workplace.run("ops", "my", "--json")[1])[0]["status"] == "not verified"
    assert workplace.run("check", "my", "--warm")[0] == 0
    assert json.loads(workplace.run("ops", "my", "--json")[1])[0]["status"] == "certified"


CUDA = """
@plugrad.operator("my::double", elementwise=True, cuda="2 * x")
def double(x):
    return 2 * x

@double.backward
def _(grad):
    return 2 * grad

@double.samples
def _(make):
    yield make.call(make.normal(3, 4))
"""


def test_kernels_and_status_are_listed_per_device(workplace):
    workplace.plugin(
        "my", CUDA, CUDA.replace("double", "host").replace(', cuda="2 * x"', ""), workplace.HOOK
    )
    code, out, err = workplace.run("ops", "my", "--json")
    assert code == 0, err
    double, host = json.loads(out)
    assert double["kernels"] == {"cpu": "function", "cuda": "expression"}
    assert (double["cuda_emulated"], double["cuda_hardware"]) == ("not verified", "not verified")
    assert host["kernels"] == {"cpu": "function"}
    assert (host["cuda_emulated"], host["cuda_hardware"]) == ("no kernel", "no kernel")
    out = workplace.run("ops", "my")[1]
    assert "CUDA EMULATED" in out and "CUDA HARDWARE" in out
