"""``plugrad check``."""

import json
import signal
import time

import pytest


def test_one_operator_passes(invoke):
    result = invoke("check", "standard::exp")
    assert result.exit_code == 0, result.stdout
    assert "passed  standard::exp" in result.stdout
    assert "1 of 1 operators passed" in result.stdout


def test_json_holds_the_report(invoke):
    result = invoke("check", "standard::exp", "--json")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert data["passed"] is True
    (one,) = data["operators"]
    assert one["name"] == "standard::exp"
    assert {check["status"] for check in one["checks"]} <= {"passed", "skipped"}


@pytest.mark.parametrize("options", [[], ["--warm"]])
def test_a_wrong_gradient_fails_with_a_report_that_shows_where(workplace, options):
    workplace.plugin("my", workplace.GOOD, workplace.WRONG, workplace.HOOK)
    code, out, err = workplace.run("check", "my", *options)
    assert code == 1, err
    assert "FAILED  my::triple" in out
    assert "passed  my::double" in out
    assert "1 of 2 operators passed" in out
    assert "[gradient]" in out and "expected" in out and "got" in out


def test_a_wrong_gradient_in_json(workplace):
    workplace.plugin("my", workplace.WRONG, workplace.HOOK)
    code, out, _ = workplace.run("check", "my", "--json")
    assert code == 1
    data = json.loads(out)
    assert data["passed"] is False
    worst = next(f for f in data["operators"][0]["failures"] if f["check"] == "gradient")
    assert worst["got"] == pytest.approx(1.5 * worst["expected"], rel=1e-6)


def test_a_plugin_that_cannot_be_loaded_fails(workplace):
    workplace.plugin("bad", "raise OSError('no such file')")
    code, out, _ = workplace.run("check", "bad")
    assert code == 1
    assert "no such file" in out
    assert "1 plugin could not be loaded" in out


def test_a_broken_plugin_does_not_concern_other_patterns(workplace):
    workplace.plugin("bad", "raise OSError('no such file')")
    workplace.plugin("my", workplace.GOOD, workplace.HOOK)
    code, _, _ = workplace.run("check", "my")
    assert code == 0


def test_nothing_matches(invoke):
    result = invoke("check", "nosuch::*")
    assert result.exit_code == 1
    assert "No operator matches 'nosuch::*'" in result.stderr


def test_warm_keeps_certificates_and_check_ignores_them(workplace):
    workplace.plugin("my", workplace.GOOD, workplace.HOOK)
    code, out, _ = workplace.run("check", "my", "--warm", "--json")
    assert code == 0
    assert json.loads(out)["operators"][0]["status"] == "certified"
    kept = sorted((workplace.path / "certificates").rglob("*.json"))
    assert kept
    code, out, _ = workplace.run("check", "my", "--json")
    assert code == 0
    assert json.loads(out)["operators"][0]["checks"], "the battery ran"


def test_ctrl_c_ends_it_with_130(workplace):
    workplace.plugin(
        "slow",
        """
        import pathlib, time
        """,
        workplace.GOOD.replace(
            "return 2 * x", "pathlib.Path('started').touch(); time.sleep(0.2); return 2 * x"
        ),
        workplace.HOOK,
    )
    process = workplace.start("check", "slow")
    for _ in range(600):
        if (workplace.path / "started").exists():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Interrupted." in err
    assert "Traceback" not in out + err


def test_a_device_that_is_not_there(workplace):
    code, out, err = workplace.run("check", "exp", "--device", "tpu")
    assert code == 1
    assert "the device 'tpu' cannot be used: no backend is named 'tpu'" in err
    assert "plugrad doctor" in err
    assert out == ""


def test_a_device_nobody_offers(workplace):
    code, _, err = workplace.run("check", "exp", "--device", "cuda-imagined")
    assert code == 1
    assert "no backend is named 'cuda-imagined'" in err
