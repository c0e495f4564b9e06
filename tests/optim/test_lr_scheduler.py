"""Schedules of learning rates."""

import math

import numpy as np
import pytest

import plugrad
from plugrad.optim import SGD
from plugrad.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau, StepLR


def optimizer(*rates):
    groups = [{"params": [plugrad.ones(1, requires_grad=True)], "lr": rate} for rate in rates]
    made = SGD(groups)
    made.step()
    return made


def rates(scheduler, epochs):
    found = [scheduler.get_last_lr()]
    for _ in range(epochs):
        scheduler.step()
        found.append(scheduler.get_last_lr())
    return found


def test_step_lr():
    found = rates(StepLR(optimizer(1.0, 10.0), step_size=2, gamma=0.1), 4)
    np.testing.assert_allclose(found, [[1, 10], [1, 10], [0.1, 1], [0.1, 1], [0.01, 0.1]])


def test_lambda_lr():
    found = rates(LambdaLR(optimizer(1.0, 10.0), [lambda e: 0.5**e, lambda e: 1 / (1 + e)]), 2)
    np.testing.assert_allclose(found, [[1, 10], [0.5, 5], [0.25, 10 / 3]])
    found = rates(LambdaLR(optimizer(1.0, 10.0), lambda e: 0.5**e), 1)
    np.testing.assert_allclose(found, [[1, 10], [0.5, 5]])


def test_schedules_can_be_chained():
    shared = optimizer(1.0)
    first, second = StepLR(shared, 1, 0.5), StepLR(shared, 2, 0.1)
    for _ in range(2):
        first.step()
        second.step()
    assert shared.param_groups[0]["lr"] == pytest.approx(0.025)


def test_a_saved_schedule_goes_on():
    one = StepLR(optimizer(1.0), 2)
    one.step()
    other = StepLR(optimizer(1.0), 2)
    other.load_state_dict(one.state_dict())
    assert rates(other, 1) == [[1.0], [0.1]]
    assert "optimizer" not in one.state_dict()


def test_resuming_needs_the_first_rate():
    with pytest.raises(KeyError, match="initial_lr"):
        StepLR(optimizer(1.0), 2, last_epoch=3)


def test_a_step_before_the_optimizers_is_warned_about():
    fresh = SGD([plugrad.ones(1, requires_grad=True)])
    with pytest.warns(UserWarning, match=r"before optimizer\.step"):
        StepLR(fresh, 1).step()


def test_a_step_that_a_scaler_skipped_is_none_to_warn_about():
    p = plugrad.ones(1, requires_grad=True)
    fresh = SGD([p])
    scheduler = StepLR(fresh, 1)
    scaler = plugrad.amp.GradScaler()
    scaler.scale(p * math.inf).backward()
    scaler.step(fresh)
    scheduler.step()


class TestPlateau:
    def run(self, metrics, **options):
        made = optimizer(1.0)
        scheduler = ReduceLROnPlateau(made, patience=0, factor=0.5, **options)
        for metric in metrics:
            scheduler.step(metric)
        return made.param_groups[0]["lr"]

    @pytest.mark.parametrize(
        ("mode", "metrics", "expected"),
        [
            ("min", [1.0, 0.95], 0.5),
            ("min", [1.0, 0.85], 1.0),
            ("max", [1.0, 1.05], 0.5),
            ("max", [1.0, 1.15], 1.0),
            ("max", [-1.0, -0.95], 0.5),
            ("max", [-1.0, -0.85], 1.0),
            ("min", [0.0, 1.0], 0.5),
            ("min", [math.nan, math.nan], 0.25),
        ],
    )
    def test_a_relative_threshold(self, mode, metrics, expected):
        assert self.run(metrics, mode=mode, threshold=0.1) == expected

    def test_an_absolute_threshold(self):
        options = {"threshold": 0.1, "threshold_mode": "abs"}
        assert self.run([10.0, 9.95], **options) == 0.5
        assert self.run([10.0, 9.85], **options) == 1.0

    def test_the_least_rate(self):
        assert self.run([0.0] * 4, min_lr=0.3) == 0.3

    def test_a_reduction_too_small_to_make(self):
        assert self.run([0.0] * 4, eps=0.6) == 1.0

    def test_a_tensor_as_the_metric(self):
        assert self.run([plugrad.tensor(1.0), plugrad.tensor(1.0)]) == 0.5

    def test_state(self):
        made = ReduceLROnPlateau(optimizer(1.0), patience=1)
        made.step(1.0)
        made.step(2.0)
        other = ReduceLROnPlateau(optimizer(1.0), patience=1)
        other.load_state_dict(made.state_dict())
        assert (other.best, other.num_bad_epochs, other.last_epoch) == (1.0, 1, 2)
        other.step(2.0)
        assert other.get_last_lr() == [0.1]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"factor": 1.0}, "factor must be below 1"),
            ({"mode": "least"}, "'min' or 'max'"),
            ({"threshold_mode": "per cent"}, "'rel' or 'abs'"),
            ({"min_lr": [0.1, 0.2]}, "one per group"),
        ],
    )
    def test_options_out_of_range(self, options, words):
        with pytest.raises(ValueError, match=words):
            ReduceLROnPlateau(optimizer(1.0), **options)


def test_options_of_other_schedules():
    with pytest.raises(ValueError, match="at least 1"):
        StepLR(optimizer(1.0), 0)
    with pytest.raises(ValueError, match="expected 1 functions"):
        LambdaLR(optimizer(1.0), [])
    with pytest.raises(NotImplementedError, match="get_lr"):
        LRScheduler(optimizer(1.0))
