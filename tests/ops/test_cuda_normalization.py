"""CUDA kernels of normalisation and of CTC against the CPU: rows longer than a block holds, channels, half precision."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor

RNG = np.random.default_rng(0)


def both(function, *arrays):
    """Result and gradients on the CPU and on the device."""
    found = []
    seed = None
    for device in ("cpu", "cuda"):
        leaves = [Tensor(x).to(device).requires_grad_() for x in arrays]
        out = function(*leaves)
        seed = RNG.standard_normal(out.shape).astype(out.dtype) if seed is None else seed
        grads = plugrad.autograd.grad(out, leaves, Tensor(seed).to(device))
        found.append([t.detach().to("cpu").array for t in (out, *grads)])
    return found


CASES = {
    "layer, several chunks": (lambda x, w, b: F.layer_norm(x, (20_000,), w, b), (2, 20_000), 20_000),
    "layer, one chunk": (lambda x, w, b: F.layer_norm(x, (100,), w, b), (33, 100), 100),
    "rms": (lambda x, w, b: F.rms_norm(x, (100,), w) + b, (3, 100), 100),
    "group": (lambda x, w, b: F.group_norm(x, 2, w, b), (3, 6, 50), 6),
    "batch": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (5, 6, 50), 6),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_device_gives_what_the_cpu_gives(cuda, name):
    function, shape, channels = CASES[name]
    arrays = [RNG.standard_normal(s).astype(np.float32) for s in (shape, channels, channels)]
    arrays[0] += 3.0
    for host, device in zip(*both(function, *arrays)):
        np.testing.assert_allclose(device, host, rtol=1e-4, atol=2e-5)


def test_a_large_mean_costs_no_digits_on_the_device(cuda):
    x = (RNG.standard_normal((2, 500)) + 1e4).astype(np.float32)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    on_device = Tensor(x).to("cuda")
    for out in (
        F.layer_norm(on_device, (500,)),
        F.batch_norm(on_device.reshape(1, 2, 500), None, None, training=True),
    ):
        np.testing.assert_allclose(out.to("cpu").array.reshape(x.shape), wanted, atol=1e-3)


def test_running_statistics_live_on_the_device(cuda):
    x = RNG.standard_normal((4, 3, 2)).astype(np.float32)
    mean, var = (Tensor(v).to("cuda") for v in (np.zeros(3, np.float32), np.ones(3, np.float32)))
    F.batch_norm(Tensor(x).to("cuda"), mean, var, training=True)
    np.testing.assert_allclose(mean.to("cpu").array, 0.1 * x.mean((0, 2)), rtol=1e-5)
    wanted = 0.9 + 0.1 * x.var((0, 2), ddof=1)
    np.testing.assert_allclose(var.to("cpu").array, wanted, rtol=1e-5)


def test_ctc_on_the_device(cuda):
    x = RNG.standard_normal((30, 3, 5)).astype(np.float32)
    targets = np.array([[1, 2, 2, 1, 4, 1], [3, 3, 3, 0, 0, 0], [0, 0, 0, 0, 0, 0]])

    def loss(leaf):
        labels = Tensor(targets).to(leaf.device)
        return F.ctc_loss(F.log_softmax(leaf, -1), labels, (30, 12, 7), (6, 3, 0), reduction="sum")

    for host, device in zip(*both(loss, x)):
        np.testing.assert_allclose(device, host, rtol=1e-4, atol=1e-5)
