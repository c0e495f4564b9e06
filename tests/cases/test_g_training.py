"""Gradient scaling, clipping, optimizers, schedules and checkpoints: known inputs with their right results."""

import math

import numpy as np
import pytest

import plugrad

INF, NAN = math.inf, math.nan


def leaf(values, dtype=np.float64):
    return plugrad.tensor(values, dtype=dtype, requires_grad=True)


def with_grad(values, grad, dtype=np.float64):
    p = leaf(values, dtype)
    p.grad = plugrad.tensor(grad, dtype=dtype)
    return p


# ---- gradient scaling --------------------------------------------------------------------------------------


def test_g1_the_scale_follows_overflows_and_quiet_times():
    p = leaf([1.0, 2.0])
    optimizer = plugrad.optim.SGD([p], lr=0.1)
    scaler = plugrad.amp.GradScaler(init_scale=8, growth_interval=2)
    seen = []
    for factor in (1.0, INF, 1.0, 1.0, NAN, 1.0):
        optimizer.zero_grad()
        scaler.scale((p * factor).sum()).backward()
        scaler.step(optimizer)
        assert p.grad.tolist() == pytest.approx([factor, factor], nan_ok=True)
        scaler.update()
        seen.append((p.tolist(), scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
    expected = [
        ([0.9, 1.9], 8, 1),
        ([0.9, 1.9], 4, 0),
        ([0.8, 1.8], 4, 1),
        ([0.7, 1.7], 8, 0),
        ([0.7, 1.7], 4, 0),
        ([0.6, 1.6], 4, 1),
    ]
    for (values, scale, tracker), (right, right_scale, right_tracker) in zip(seen, expected):
        assert values == pytest.approx(right, rel=1e-15)
        assert (scale, tracker) == (right_scale, right_tracker)


def scaled_step(dtype=np.float64):
    p = leaf([1.0], dtype)
    optimizer = plugrad.optim.SGD([p], lr=0.1)
    scaler = plugrad.amp.GradScaler()
    scaler.scale(p.sum()).backward()
    return p, optimizer, scaler


def test_g3_unscaling_twice():
    _, optimizer, scaler = scaled_step()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) was already called"):
        scaler.unscale_(optimizer)


def test_g3_stepping_twice():
    _, optimizer, scaler = scaled_step()
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) was already called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) comes before step"):
        scaler.unscale_(optimizer)


def test_g3_no_gradients():
    p, optimizer, scaler = scaled_step()
    p.grad = None
    with pytest.raises(RuntimeError, match="no parameter of this optimizer has a gradient"):
        scaler.step(optimizer)


def test_g3_float16_gradients():
    _, optimizer, scaler = scaled_step(np.float16)
    with pytest.raises(ValueError, match="float16"):
        scaler.unscale_(optimizer)


def test_g3_an_update_without_a_scaled_loss():
    with pytest.raises(RuntimeError, match="no loss was scaled"):
        plugrad.amp.GradScaler().update()
    _, _, scaler = scaled_step()
    with pytest.raises(RuntimeError, match="no gradient was looked at"):
        scaler.update()


def test_g4_a_skipped_step_says_so():
    p, optimizer, scaler = scaled_step()
    assert scaler.step(optimizer) is None
    assert not scaler.step_skipped(optimizer)
    scaler.update()
    assert not scaler.step_skipped(optimizer)
    scaler.scale((p * INF).sum()).backward()
    assert scaler.step(optimizer) is None
    assert scaler.step_skipped(optimizer)
    assert p.tolist() == [0.9]


# ---- clipping ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grad", "norm", "clipped"),
    [([INF, 1.0], INF, [NAN, 0]), ([NAN, 1.0], NAN, [NAN, NAN])],
)
def test_g6_clipping_gradients_that_are_not_finite(grad, norm, clipped):
    p = with_grad([0.0, 0.0], grad)
    assert plugrad.nn.utils.clip_grad_norm_([p], 1.0).item() == pytest.approx(norm, nan_ok=True)
    assert p.grad.tolist() == pytest.approx(clipped, nan_ok=True)


def test_g6_squares_do_not_overflow():
    p = with_grad([0.0, 0.0], [1e20, 1e20], np.float32)
    norm = plugrad.nn.utils.clip_grad_norm_([p], 1.0)
    assert norm.dtype == np.float32
    assert norm.item() == pytest.approx(1.4142e20, rel=1e-4)
    assert p.grad.tolist() == pytest.approx([0.7071, 0.7071], rel=1e-4)


@pytest.mark.parametrize("grad", [[INF, 1.0], [NAN, 1.0]])
def test_g6_an_error_leaves_the_gradients_untouched(grad):
    p = with_grad([0.0, 0.0], grad)
    with pytest.raises(RuntimeError, match=str(grad[0])):
        plugrad.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    assert p.grad.tolist() == pytest.approx(grad, nan_ok=True)


# ---- optimizers --------------------------------------------------------------------------------------------


def trajectory(make, grads):
    """The values of a parameter that begins at 1 after a step along each gradient, and the optimizer."""
    p = leaf([1.0])
    optimizer = make([p])
    values = []
    for grad in grads:
        p.grad = None if grad is None else plugrad.tensor([grad], dtype=np.float64)
        optimizer.step()
        values.append(p.item())
    return values, optimizer, p


def test_g7_adam():
    values, _, _ = trajectory(lambda ps: plugrad.optim.Adam(ps, lr=0.1), [1.0, 0.0, 0.0])
    assert values == pytest.approx([0.900000001, 0.8329941765341887, 0.7811984801832372], rel=1e-15)


def test_g7_a_missing_gradient_skips_the_state():
    values, optimizer, p = trajectory(lambda ps: plugrad.optim.Adam(ps, lr=0.1), [None, 1.0])
    assert values == pytest.approx([1, 0.900000001], rel=1e-15)
    assert optimizer.state[p]["step"] == 1


def test_g7_weight_decay_without_a_gradient_to_speak_of():
    values, _, _ = trajectory(lambda ps: plugrad.optim.Adam(ps, lr=0.1, weight_decay=0.1), [0.0])
    assert values == pytest.approx([0.900000009999999], rel=1e-15)
    values, _, _ = trajectory(lambda ps: plugrad.optim.AdamW(ps, lr=0.1, weight_decay=0.1), [0.0])
    assert values == [0.99]


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_g7_weight_decay_needs_a_gradient(kind):
    values, optimizer, p = trajectory(
        lambda ps: getattr(plugrad.optim, kind)(ps, lr=0.1, weight_decay=0.1), [None]
    )
    assert values == [1.0]
    assert p not in optimizer.state


# ---- schedules ---------------------------------------------------------------------------------------------


def plateau(metrics, **options):
    optimizer = plugrad.optim.SGD([leaf([1.0])], lr=0.1)
    scheduler = plugrad.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, **options)
    rates = []
    for metric in metrics:
        scheduler.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def test_g9_a_plateau_reduces_the_rate():
    assert plateau([0.0] * 10, patience=2) == pytest.approx(
        [0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001, 0.0001]
    )
    assert plateau([0.0] * 10, patience=2, cooldown=1) == pytest.approx(
        [0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001]
    )


def test_g10_a_worse_value_below_zero_is_no_improvement():
    assert plateau([-1.0, -0.95], mode="min", threshold=0.1, patience=0) == pytest.approx(
        [0.1, 0.01]
    )
    assert plateau([-1.0, -1.0], mode="min", threshold=0.1, patience=0) == pytest.approx(
        [0.1, 0.01]
    )
    assert plateau([-1.0, -1.2], mode="min", threshold=0.1, patience=0) == pytest.approx([0.1, 0.1])


# ---- checkpoints -------------------------------------------------------------------------------------------


def checkpoint(function, *args, **options):
    return plugrad.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)


def test_g12_a_random_function_draws_the_same_again():
    x = leaf(np.ones(8))
    plugrad.manual_seed(0)
    y = checkpoint(lambda x: plugrad.nn.functional.dropout(2 * x, 0.5) * 3, x)
    before = plugrad.get_rng_state().tolist()
    y.sum().backward()
    assert y.tolist() == x.grad.tolist()
    assert 0 < np.count_nonzero(y.array) < 8
    assert plugrad.get_rng_state().tolist() == before


def test_g14_a_function_that_gives_other_values_again_is_found():
    calls = []

    def f(z):
        calls.append(None)
        return (z * len(calls)).exp()

    z = leaf(1.0)
    out = checkpoint(f, z)
    with pytest.raises(RuntimeError, match="checkpoint.*other values"):
        out.backward()
    assert z.grad is None


def test_g15_a_checkpoint_is_differentiable_twice():
    z = leaf([1.0, 2.0])
    out = checkpoint(lambda z: z**3, z)
    (first,) = plugrad.autograd.grad(out.sum(), z, create_graph=True)
    (second,) = plugrad.autograd.grad(first.sum(), z)
    assert second.tolist() == [6, 12]


def test_g15_the_reentrant_form_is_not_offered():
    with pytest.raises(ValueError, match="reentrant"):
        plugrad.utils.checkpoint.checkpoint(lambda z: z**3, leaf([1.0]), use_reentrant=True)
