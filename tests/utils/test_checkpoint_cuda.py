"""Checkpoints on a CUDA device: the gradients without one, less memory, and a second run that differs is found."""

import numpy as np
import pytest

import plugrad
from plugrad.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

pytestmark = pytest.mark.usefixtures("cuda")


def leaf(values, **options):
    return plugrad.tensor(values, device="cuda", requires_grad=True, **options)


def host(tensor):
    return tensor.detach().cpu().numpy()


def block(x):
    return (x.sin() * x.exp()).tanh()


def test_gradients_are_those_without():
    values = np.linspace(-1, 1, 12).reshape(3, 4)
    x, y = leaf(values), leaf(values)
    checkpoint(block, x).sum().backward()
    block(y).sum().backward()
    assert host(x.grad).tolist() == host(y.grad).tolist()


def test_second_order_and_a_checkpoint_within_a_checkpoint():
    values = np.linspace(-1, 1, 5)
    found = []
    for run in (
        lambda x: checkpoint(lambda t: checkpoint(block, t) * t, x),
        lambda x: block(x) * x,
    ):
        x = leaf(values)
        (slope,) = plugrad.autograd.grad(run(x).sum(), x, create_graph=True)
        slope.sum().backward()
        found.append(host(x.grad))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-13)


def test_what_the_function_saves_is_not_kept(cuda):
    held = []
    for run in (lambda x: block(block(x)), lambda x: checkpoint(lambda t: block(block(t)), x)):
        x = plugrad.ones(256, 128, device="cuda", requires_grad=True)
        before = cuda.memory_allocated()
        y = run(x)
        held.append(cuda.memory_allocated() - before)
        y.sum().backward()
        del x, y
    assert held[1] <= held[0] / 4


def test_a_function_that_computes_something_else_is_found():
    calls = []

    def drifts(x):
        calls.append(1)
        return (x * len(calls)).sin()

    with pytest.raises(CheckpointError, match="has other values"):
        checkpoint(drifts, leaf([1.0, 2.0])).sum().backward()


def test_a_function_that_moves_to_another_device_is_found():
    calls = []

    def moves(x):
        calls.append(1)
        return (x if len(calls) == 1 else x.cpu()).sin().cpu()

    with pytest.raises(CheckpointError, match="on cpu, was float32"):
        checkpoint(moves, leaf([1.0, 2.0])).sum().backward()


def test_a_changed_argument_is_found():
    x = leaf([1.0, 2.0]) * 1
    y = checkpoint(block, x)
    with plugrad.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="changed by an in-place operation"):
        y.sum().backward()


def test_sequences_and_arguments_of_two_devices():
    x, y = leaf([1.0, 2.0]), plugrad.tensor([3.0, 4.0], requires_grad=True)

    def mixed(pair):
        return pair["x"] * pair["y"].to("cuda")

    checkpoint(mixed, {"x": x, "y": y}).sum().backward()
    assert (x.grad.device, y.grad.device) == ("cuda", "cpu")
    assert (host(x.grad).tolist(), y.grad.tolist()) == ([3, 4], [1, 2])
    z, w = leaf([0.1, 0.2]), leaf([0.1, 0.2])
    checkpoint_sequential([block] * 3, 2, z).sum().backward()
    block(block(block(w))).sum().backward()
    assert host(z.grad).tolist() == host(w.grad).tolist()
