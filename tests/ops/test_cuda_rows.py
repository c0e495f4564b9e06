"""Rows of every length that teams of threads share differently: several in a warp, one in a block, more than it holds."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor

LENGTHS = (5, 33, 200, 300, 500, 700, 9000)
TARGET = np.array([0, 4, 2])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.softmax(x, 1),
        lambda x: F.log_softmax(x, 1),
        lambda x: F.cross_entropy(x, Tensor(TARGET).to(x.device), reduction="none"),
        lambda x: F.layer_norm(x, x.shape[1:]),
    ],
    ids=["softmax", "log_softmax", "cross_entropy", "layer_norm"],
)
def test_the_device_gives_what_the_cpu_gives(cuda, function, length):
    rng = np.random.default_rng(length)
    x = rng.standard_normal((3, length)).astype(np.float32)
    found = []
    for device in ("cpu", "cuda"):
        leaf = Tensor(x).to(device).requires_grad_()
        out = function(leaf)
        seed = np.random.default_rng(1).standard_normal(out.shape).astype(np.float32)
        (grad,) = plugrad.autograd.grad(out, [leaf], Tensor(seed).to(device))
        found.append([t.detach().to("cpu").array for t in (out, grad)])
    for host, device in zip(*found):
        np.testing.assert_allclose(device, host, rtol=2e-5, atol=2e-6)
