"""Learning rates that change while training, under PyTorch's names."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat

from plugrad.optim.optimizer import Optimizer

__all__ = ["LRScheduler", "LambdaLR", "ReduceLROnPlateau", "StepLR"]


class LRScheduler:
    """Base class: a schedule defines ``get_lr()``, the rate of each group at epoch ``last_epoch``.

    Attributes
    ----------
    base_lrs : list of float
        The rates that the optimizer began with.
    last_epoch : int
        0 after the scheduler was made; every ``step()`` adds 1.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"last_epoch={last_epoch} resumes a schedule, but group {i} of the optimizer has no 'initial_lr'"
                )
        self.optimizer = optimizer
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch + 1
        self._set(self.get_lr())

    def get_lr(self) -> list[float]:
        """The rates at ``last_epoch``, for subclasses; `get_last_lr` tells those in use."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr()")

    def get_last_lr(self) -> list[float]:
        """The rates that were set last, one per group."""
        return self._last_lr

    def step(self) -> None:
        """Go to the next epoch; after the optimizer's step."""
        if self.last_epoch == 0 and not self.optimizer.stepped:
            warnings.warn(
                "scheduler.step() came before optimizer.step(): the first rate of the schedule is skipped",
                UserWarning,
                stacklevel=2,
            )
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)


class StepLR(LRScheduler):
    """Multiplies the rate of each group by `gamma` every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if step_size < 1:
            raise ValueError(f"step_size must be at least 1, got {step_size}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        # Relative to the present rate, so that schedules can be chained.
        now = [group["lr"] for group in self.optimizer.param_groups]
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return now
        return [rate * self.gamma for rate in now]


Factor = Callable[[int], float]


class LambdaLR(LRScheduler):
    """The rate of each group is the one it began with times ``lr_lambda(epoch)``.

    Parameters
    ----------
    lr_lambda : callable or sequence of callable
        One for all groups, or one per group.

    Raises
    ------
    ValueError
        There are not as many functions as groups.
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1
    ) -> None:
        groups = len(optimizer.param_groups)
        functions = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(functions) != groups:
            raise ValueError(f"expected {groups} functions, one per group, got {len(functions)}")
        self.lr_lambdas = functions
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the functions."""
        return {name: value for name, value in super().state_dict().items() if name != "lr_lambdas"}


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rates by `factor` when a metric has not improved for more than `patience` epochs.

    Parameters
    ----------
    mode : {"min", "max"}
        Whether less or more is better.
    threshold, threshold_mode : float, {"rel", "abs"}
        What counts as better: with "rel" a change by more than ``threshold * abs(best)``, with "abs" one by
        more than `threshold`. (PyTorch compares with ``best * (1 - threshold)``, which for a negative best
        takes a worse value for a better one.)
    cooldown : int
        Epochs after a reduction during which nothing is counted.
    min_lr : float or sequence of float
        No rate gets below, for all groups or per group.
    eps : float
        A reduction by less than this is not made.

    Raises
    ------
    ValueError
        `factor` is not below 1, a mode is unknown, or `min_lr` does not fit the groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1:
            raise ValueError(f"factor must be below 1, got {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}")
        groups = len(optimizer.param_groups)
        self.min_lrs = [min_lr] * groups if isinstance(min_lr, int | float) else list(min_lr)
        if len(self.min_lrs) != groups:
            raise ValueError(
                f"expected {groups} values of min_lr, one per group, got {len(self.min_lrs)}"
            )
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]
        self._reset()

    def _reset(self) -> None:
        self.best = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs are not counted at the moment."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether `a` improves on `best` by more than the threshold."""
        gain = best - a if self.mode == "min" else a - best
        if math.isinf(best):
            return gain > 0
        return gain > self.threshold * (abs(best) if self.threshold_mode == "rel" else 1.0)

    def step(self, metrics: SupportsFloat) -> None:  # type: ignore[override]
        """Take note of the metric of an epoch."""
        current = float(metrics)
        self.last_epoch += 1
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs):
            reduced = max(group["lr"] * self.factor, least)
            if group["lr"] - reduced > self.eps:
                group["lr"] = reduced
