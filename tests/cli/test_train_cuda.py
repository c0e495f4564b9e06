"""``plugrad train digits --device``: the losses of the CPU, and devices that are not there."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")


def losses(device, bits=None, epochs=2):
    """The loss of every batch of a short run, and the numbers of its epochs."""
    from plugrad.cli.train.data import Digits, load_digits
    from plugrad.cli.train.run import make_model
    from plugrad.cli.train.training import Config, fit

    data_rng, weight_rng, batch_rng = np.random.default_rng(0).spawn(3)
    train, test = (
        Digits(images[:n], labels[:n])
        for (images, labels), n in zip(load_digits(data_rng), (40, 8))
    )
    model = make_model((64, 16, 10), weight_rng, bits, device)
    config = Config(
        epochs=epochs, batch_size=8, lr=2e-3, hidden=(16,), quantize=bits, seed=0, device=device, out=None
    )  # fmt: skip
    found = []
    epochs = list(fit(model, train, test, config, batch_rng, found.append))
    assert all(p.device == device for p in model.parameters())
    return found, epochs


def test_the_first_losses_are_those_of_the_cpu(cuda):
    expected, _ = losses("cpu")
    found, epochs = losses("cuda")
    assert len(found) == 10
    assert found[-1] < found[0]
    np.testing.assert_allclose(found, expected, rtol=2e-6)
    assert [epoch["epoch"] for epoch in epochs] == [1, 2]


def test_quantized_losses_are_those_of_the_cpu(cuda):
    pytest.importorskip("plugrad_ste")
    expected, _ = losses("cpu", bits=4, epochs=1)
    found, _ = losses("cuda", bits=4, epochs=1)
    # Later on a value may be rounded to the other level.
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-5)
    np.testing.assert_allclose(found, expected, rtol=0.05)


def test_the_command_on_the_emulated_device(cuda, invoke, tmp_path):
    run = []
    for device in ("cuda-emulated", "cpu"):
        result = invoke(
            "train", "digits", "--device", device, "--hidden", "8", "--epochs", "1",
            "--batch-size", "256", "--out", device,
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert ("MLP 64-8-10 on cuda (emulated)," in result.stdout) == (device == "cuda-emulated")
        run.append(json.loads((tmp_path / device / "metrics.json").read_text()))
    assert [one["config"]["device"] for one in run] == ["cuda-emulated", "cpu"]
    for loss in ("train_loss", "test_loss"):
        assert run[0]["final"][loss] == pytest.approx(run[1]["final"][loss], rel=1e-5)


@pytest.mark.parametrize("device", ["abacus", "cuda:1"])
def test_a_device_that_is_not_there(invoke, tmp_path, device):
    result = invoke("train", "digits", "--device", device)
    assert result.exit_code == 1
    assert f"the device {device!r} cannot be used" in result.stderr
    assert "plugrad doctor" in result.stderr
    assert not (tmp_path / "digits-run").exists()


def test_cuda_without_pycuda(workplace):
    (workplace.site / "sitecustomize.py").write_text(
        "import sys\nsys.modules['pycuda'] = None\nsys.modules['pycuda.driver'] = None\n"
    )
    code, _, err = workplace.run("train", "digits", "--device", "cuda")
    assert code == 1
    assert "Traceback" not in err
    assert "the device 'cuda' cannot be used" in err


def test_importing_the_command_imports_no_device():
    code = "import sys, plugrad.cli.train.training; print('plugrad.optim.kernels.cuda' in sys.modules, 'pycuda' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
