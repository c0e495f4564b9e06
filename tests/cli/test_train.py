"""``plugrad train digits``: the real run, small where its size does not matter."""

import json
import signal
import time

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

SMALL = ["--hidden", "16", "--epochs", "3", "--batch-size", "128"]


def metrics(folder):
    return json.loads((folder / "metrics.json").read_text())


def is_png(path):
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def without_times(run):
    return [{k: v for k, v in epoch.items() if k != "seconds"} for epoch in run["epochs"]]


def test_the_main_job_reaches_97_percent(invoke, tmp_path):
    result = invoke("train", "digits", "--out", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    run = metrics(tmp_path / "run")
    assert run["status"] == "finished"
    assert len(run["epochs"]) == 40
    assert run["final"]["test_accuracy"] >= 0.97
    assert "Test accuracy" in result.stdout
    assert is_png(tmp_path / "run" / "training.png")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["metrics.json", "training.png"]


def test_quantized_to_4_bits_it_reaches_94_percent(invoke, tmp_path):
    pytest.importorskip("plugrad_ste")
    result = invoke(
        "train", "digits", "--quantize", "4", "--epochs", "15", "--out", str(tmp_path / "run")
    )
    assert result.exit_code == 0, result.output
    assert metrics(tmp_path / "run")["final"]["test_accuracy"] >= 0.94


def test_metrics_tell_what_was_run(invoke, tmp_path):
    result = invoke("train", "digits", *SMALL, "--seed", "7", "--lr", "0.01")
    assert result.exit_code == 0, result.output
    run = metrics(tmp_path / "digits-run")
    assert run["config"] == {
        "epochs": 3,
        "batch_size": 128,
        "lr": 0.01,
        "hidden": [16],
        "quantize": None,
        "seed": 7,
        "device": "cpu",
        "out": "digits-run",
    }
    assert run["versions"]["numpy"] == np.__version__
    assert [epoch["epoch"] for epoch in run["epochs"]] == [1, 2, 3]
    for epoch in run["epochs"]:
        assert 0 < epoch["train_loss"] < 10 and 0 <= epoch["test_accuracy"] <= 1
    assert run["final"] == without_times(run)[-1]
    assert "epoch 3/3" in result.stdout


def test_the_same_seed_gives_the_same_numbers(invoke, tmp_path):
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert invoke("train", "digits", *SMALL, "--seed", seed, "--out", name).exit_code == 0
    a, b, c = (without_times(metrics(tmp_path / name)) for name in "abc")
    assert a == b
    assert a != c


def test_ctrl_c_keeps_what_was_written(workplace):
    process = workplace.start("train", "digits", "--hidden", "16", "--epochs", "100000")
    out = workplace.path / "digits-run"
    for _ in range(1200):
        # The first epoch also draws the picture.
        if (out / "training.png").exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    run = metrics(out)
    done = len(run["epochs"])
    assert run["status"] == "interrupted"
    assert 1 <= done < 100000
    assert f"Stopped after {done} of 100000 epochs; kept what was written to digits-run." in err
    assert "Traceback" not in printed + err
    assert is_png(out / "training.png")
    assert sorted(p.name for p in out.iterdir()) == ["metrics.json", "training.png"]


def test_a_terminal_gets_a_live_bar(workplace):
    workplace.environment |= {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    workplace.environment.pop("NO_COLOR", None)
    code, out, err = workplace.run("train", "digits", *SMALL)
    assert code == 0, err
    assert "\x1b[" in out
    assert "epoch 3/3" in out
    assert "train loss" not in out, "lines are for what is no terminal"


def test_one_epoch_is_drawn_too(invoke, tmp_path):
    assert invoke("train", "digits", "--hidden", "4", "--epochs", "1").exit_code == 0
    assert is_png(tmp_path / "digits-run" / "training.png")


def test_divergence_is_an_error_and_keeps_the_epochs_before(invoke, tmp_path):
    result = invoke("train", "digits", *SMALL, "--lr", "1e38")
    assert result.exit_code == 1
    assert "The loss became" in result.stderr and "--lr" in result.stderr
    assert metrics(tmp_path / "digits-run")["status"] == "diverged"


# --------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epochs", "0"], "0 is not in the range"),
        (["--hidden", "12,x"], "expected widths from 1 to 4096 such as 256,128, got '12,x'"),
        (["--hidden", "0"], "expected widths"),
        (["--quantize", "1"], "1 is not in the range"),
        (["--lr", "0"], "0.0 is not in the range"),
        (["--seed", "-1"], "-1 is not in the range"),
    ],
)
def test_wrong_options_are_wrong_usage(invoke, arguments, words):
    result = invoke("train", "digits", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_out_that_is_a_file(invoke, tmp_path):
    (tmp_path / "taken").write_text("mine")
    result = invoke("train", "digits", "--out", "taken")
    assert result.exit_code == 2
    assert "taken" in result.stderr
    assert (tmp_path / "taken").read_text() == "mine"


def test_out_below_a_file(invoke, tmp_path):
    (tmp_path / "taken").write_text("mine")
    result = invoke("train", "digits", "--out", "taken/run")
    assert result.exit_code == 1
    assert "--out taken/run cannot be written to" in result.stderr


@pytest.mark.parametrize("missing", ["sklearn", "matplotlib"])
def test_a_missing_package_is_named(invoke, monkeypatch, missing):
    import sys

    monkeypatch.setitem(sys.modules, missing, None)
    result = invoke("train", "digits")
    assert result.exit_code == 1
    assert 'pip install "plugrad[demo]"' in result.stderr


def test_quantize_without_the_plugin(workplace):
    workplace.environment["PLUGRAD_BLOCK"] = "ste"
    code, _, err = workplace.run("train", "digits", "--quantize", "4")
    assert code == 1
    assert "Traceback" not in err
    assert "--quantize" in err
    assert not (workplace.path / "digits-run").exists()
