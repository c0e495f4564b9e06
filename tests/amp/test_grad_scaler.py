"""GradScaler: what it scales, its state, and what it leaves alone when it is not enabled."""

import math

import numpy as np
import pytest

import plugrad
from plugrad.amp import GradScaler
from plugrad.optim import SGD


def leaf(values=(1.0, 2.0)):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def test_nested_outputs_are_scaled():
    scaler = GradScaler(init_scale=4.0)
    one, (two, three) = scaler.scale([plugrad.ones(1), (plugrad.ones(1), plugrad.ones(1))])
    assert [t.item() for t in (one, two, three)] == [4, 4, 4]
    with pytest.raises(TypeError, match="float"):
        scaler.scale(1.0)
    with pytest.raises(TypeError, match="str"):
        scaler.scale("loss")


def test_gradients_may_be_clipped_between():
    p = leaf()
    optimizer = SGD([p], lr=1.0)
    scaler = GradScaler(init_scale=1024.0)
    scaler.scale((p * 10).sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [10, 10]
    plugrad.nn.utils.clip_grad_value_([p], 0.5)
    scaler.step(optimizer)
    assert p.tolist() == [0.5, 1.5]


def test_one_of_two_optimizers_overflows():
    a, b = leaf(), leaf()
    first, second = SGD([a], lr=1.0), SGD([b], lr=1.0)
    scaler = GradScaler(init_scale=2.0)
    scaler.scale((a * math.inf).sum() + b.sum()).backward()
    scaler.step(first)
    scaler.step(second)
    assert (scaler.step_skipped(first), scaler.step_skipped(second)) == (True, False)
    assert (a.tolist(), b.tolist()) == ([1, 2], [0, 1])
    scaler.update()
    assert scaler.get_scale() == 1.0


def test_a_result_of_the_optimizer_is_returned():
    class Telling(SGD):
        def step(self, closure=None):
            super().step(closure)
            return "done"

    p = leaf()
    optimizer, scaler = Telling([p]), GradScaler()
    scaler.scale(p.sum()).backward()
    assert scaler.step(optimizer) == "done"


def test_a_scale_that_would_be_infinite_does_not_grow():
    p = leaf()
    optimizer, scaler = SGD([p]), GradScaler(init_scale=1.5e308, growth_interval=1)
    scaler.scale((p * 0).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1.5e308


def test_a_new_scale():
    scaler = GradScaler()
    scaler.scale(plugrad.ones(1))
    scaler.update(new_scale=3.0)
    assert scaler.get_scale() == 3.0


def test_not_enabled_it_only_steps():
    p = leaf()
    optimizer, scaler = SGD([p], lr=1.0), GradScaler(enabled=False)
    loss = (p * math.inf).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert not scaler.step_skipped(optimizer)
    assert p.tolist() == [-math.inf, -math.inf]
    assert (scaler.get_scale(), scaler.is_enabled(), scaler.state_dict()) == (1.0, False, {})


def test_state_is_saved_and_loaded():
    scaler = GradScaler(init_scale=8.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=7)
    other = GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert other.get_growth_factor() == 3.0
    assert other.get_backoff_factor() == 0.25
    assert other.get_growth_interval() == 7
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})


def test_state_as_pytorch_has_it():
    torch = pytest.importorskip("torch")
    theirs = torch.amp.GradScaler("cpu", init_scale=8.0)
    ours = GradScaler(init_scale=8.0)
    assert set(ours.state_dict()) == set(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    assert ours.get_scale() == 8.0


def test_what_makes_no_sense():
    with pytest.raises(ValueError, match="growth_factor"):
        GradScaler(growth_factor=1.0)
    with pytest.raises(ValueError, match="backoff_factor"):
        GradScaler(backoff_factor=1.0)
    p = leaf()
    scaler, optimizer = GradScaler(), SGD([p])
    with pytest.raises(RuntimeError, match="no loss was scaled"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="never called"):
        scaler.step_skipped(optimizer)
    scaler.scale(p.sum()).backward()
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, lambda: None)
