"""GradScaler on a CUDA device: gradients are divided and looked at where they are."""

import numpy as np
import pytest

import plugrad
from plugrad.amp import GradScaler
from plugrad.optim import SGD

pytestmark = pytest.mark.usefixtures("cuda")


def leaf(values, device="cuda", dtype=np.float32):
    return plugrad.tensor(values, dtype=dtype, device=device, requires_grad=True)


def host(tensor):
    return tensor.detach().cpu().numpy()


def test_steps_are_those_without_a_scale():
    p, q = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    scaler = GradScaler("cuda", init_scale=2.0**10)
    ours, theirs = SGD([p], lr=0.25), SGD([q], lr=0.25)
    for _ in range(2):
        for x, optimizer in ((p, ours), (q, theirs)):
            optimizer.zero_grad()
            loss = (x * x).sum()
            (scaler.scale(loss) if x is p else loss).backward()
        scaler.step(ours)
        scaler.update()
        theirs.step()
        assert not scaler.step_skipped(ours)
    assert host(p).tolist() == host(q).tolist()


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 1])
def test_an_overflow_anywhere_leaves_the_step_out(bad, place):
    parameters = [leaf([1.0, 2.0]), leaf(np.ones((300, 70)))]
    scaler = GradScaler("cuda", init_scale=8.0)
    optimizer = SGD(parameters, lr=1.0)
    scaler.scale(parameters[0].sum() + parameters[1].sum()).backward()
    grads = [host(p.grad).copy() for p in parameters]
    grads[place].reshape(-1)[-1] = bad
    for p, grad in zip(parameters, grads):
        p.grad = plugrad.tensor(grad, device="cuda")
    scaler.step(optimizer)
    scaler.update()
    assert scaler.step_skipped(optimizer)
    assert scaler.get_scale() == 4
    assert host(parameters[0]).tolist() == [1, 2]


def test_gradients_are_divided_in_place():
    p = leaf([1.0, 2.0])
    scaler = GradScaler("cuda", init_scale=4.0)
    optimizer = SGD([p], lr=0.1)
    scaler.scale((3 * p).sum()).backward()
    array, version = p.grad.array, p.grad._version
    scaler.unscale_(optimizer)
    assert p.grad.array is array
    assert p.grad._version == version + 1
    assert host(p.grad).tolist() == [3, 3]


def test_complex_gradients_are_looked_at_in_both_parts():
    p = leaf([1 + 1j], dtype=np.complex64)
    scaler = GradScaler("cuda", init_scale=4.0)
    optimizer = SGD([p], lr=0.1)
    scaler.scale(plugrad.ones((), device="cuda"))
    p.grad = plugrad.tensor(np.array([1 + np.inf * 1j], "c8"), device="cuda")
    scaler.step(optimizer)
    assert scaler.step_skipped(optimizer)


def test_an_overflow_on_one_of_two_devices():
    p, q = leaf([1.0]), leaf([1.0], "cpu")
    scaler = GradScaler(init_scale=4.0)
    optimizer = SGD([p, q], lr=0.1)
    scaler.scale(p.sum()).backward()
    q.grad = plugrad.tensor([np.inf])
    scaler.step(optimizer)
    assert scaler.step_skipped(optimizer)
    assert host(p.grad).tolist() == [1]


def test_half_precision_gradients_are_refused():
    p = leaf([1.0], dtype=np.float16)
    scaler = GradScaler("cuda")
    scaler.scale(p.sum()).backward()
    with pytest.raises(ValueError, match="float16"):
        scaler.unscale_(SGD([p]))
