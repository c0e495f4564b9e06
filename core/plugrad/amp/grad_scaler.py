"""GradScaler: a loss is multiplied, its gradients are divided again, and steps with an overflow are left out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from plugrad.graph.inplace import increment_version
from plugrad.graph.tensor import Tensor
from plugrad.optim.kernels import kernels_for
from plugrad.optim.optimizer import Optimizer


class Stage(Enum):
    """How far an optimizer has come since the last update()."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales a loss dynamically: the scale halves when a gradient overflowed, and doubles after a quiet time.

    Parameters
    ----------
    device : str
        Accepted for PyTorch's sake: gradients are looked at where they are.
    init_scale : float
        The first scale.
    growth_factor, backoff_factor : float
        What the scale is multiplied by after `growth_interval` updates in a row without inf and NaN, and
        after one with.
    enabled : bool
        If False, `scale` and `unscale_` do nothing and `step` only calls the optimizer.

    Raises
    ------
    ValueError
        `growth_factor` does not exceed 1, or `backoff_factor` is not below 1.

    Examples
    --------
    >>> scaler = plugrad.amp.GradScaler()
    >>> for input, target in data:
    ...     optimizer.zero_grad()
    ...     scaler.scale(loss(model(input), target)).backward()
    ...     scaler.step(optimizer)
    ...     if not scaler.step_skipped(optimizer):
    ...         scheduler.step()
    ...     scaler.update()
    """

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if growth_factor <= 1:
            raise ValueError(f"growth_factor must exceed 1, got {growth_factor}")
        if backoff_factor >= 1:
            raise ValueError(f"backoff_factor must be below 1, got {backoff_factor}")
        self._device, self._enabled = device, enabled
        self._scale, self._growth_tracker = float(init_scale), 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._used = False
        self._stages: WeakKeyDictionary[Optimizer, Stage] = WeakKeyDictionary()
        self._overflowed: WeakKeyDictionary[Optimizer, bool] = WeakKeyDictionary()
        self._skipped: WeakKeyDictionary[Optimizer, bool] = WeakKeyDictionary()

    # ---- an iteration ----

    def scale(self, outputs: Any) -> Any:
        """`outputs`, a Tensor or a nesting of lists and tuples of them, times the scale.

        Raises
        ------
        TypeError
            Something else is in it.
        """
        if not self._enabled:
            return outputs
        self._used = True
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, Iterable) and not isinstance(outputs, str | Mapping):
            scaled = [self.scale(item) for item in outputs]
            return tuple(scaled) if isinstance(outputs, tuple) else scaled
        raise TypeError(
            f"scale() takes Tensors and sequences of them, got {type(outputs).__name__}"
        )

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients by the scale in place, for instance to clip them before `step`.

        Raises
        ------
        RuntimeError
            No loss was scaled, or the gradients were unscaled or stepped with already since `update`.
        ValueError
            There are float16 gradients: the division would lose what the scale was for.
        """
        if not self._enabled:
            return
        self._check_used("unscale_")
        stage = self._stages.get(optimizer, Stage.READY)
        if stage is Stage.UNSCALED:
            raise RuntimeError(
                "unscale_() was already called on this optimizer since the last update()"
            )
        if stage is Stage.STEPPED:
            raise RuntimeError("unscale_() comes before step(); step() was called already")
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.grad is not None]
        for grad in grads:
            if grad.dtype == np.float16:
                raise ValueError(
                    f"unscale_(): a gradient of shape {grad.shape} is float16; keep parameters in float32 and compute "
                    "in float16"
                )
        if grads:
            # Noted only where something was looked at: step() without any gradient is an error.
            self._overflowed[optimizer] = not _unscale(grads, self._scale)
        self._stages[optimizer] = Stage.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients, unless that was done, and call ``optimizer.step`` if all of them are finite.

        `step_skipped` tells whether it was called.

        Returns
        -------
        What ``optimizer.step(*args, **kwargs)`` returns; None if it was not called.

        Raises
        ------
        RuntimeError
            As `unscale_`; no parameter has a gradient; a closure was given.
        """
        if not self._enabled:
            self._skipped[optimizer] = False
            return optimizer.step(*args, **kwargs)
        if (args and callable(args[0])) or kwargs.get("closure") is not None:
            raise RuntimeError("step() takes no closure: it would compute gradients again, scaled")
        self._check_used("step")
        stage = self._stages.get(optimizer, Stage.READY)
        if stage is Stage.STEPPED:
            raise RuntimeError(
                "step() was already called on this optimizer since the last update()"
            )
        if stage is Stage.READY:
            self.unscale_(optimizer)
        if optimizer not in self._overflowed:
            raise RuntimeError("step(): no parameter of this optimizer has a gradient")
        self._stages[optimizer] = Stage.STEPPED
        self._skipped[optimizer] = skip = self._overflowed[optimizer]
        if skip:
            optimizer.stepped = True  # so that a scheduler does not warn about the order
            return None
        return optimizer.step(*args, **kwargs)

    def step_skipped(self, optimizer: Optimizer) -> bool:
        """Whether the last `step` of this optimizer was left out, because a gradient was inf or NaN.

        Raises
        ------
        RuntimeError
            `step` was never called with it.
        """
        if optimizer not in self._skipped:
            raise RuntimeError("step_skipped(): step() was never called on this optimizer")
        return self._skipped[optimizer]

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale to what `step` found, at the end of an iteration, or set it.

        Raises
        ------
        RuntimeError
            No loss was scaled, or no gradient was looked at, since the last time.
        """
        if not self._enabled:
            return
        self._check_used("update")
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._overflowed:
            raise RuntimeError(
                "update() comes after step() or unscale_(); no gradient was looked at"
            )
        elif any(self._overflowed.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale = grown if math.isfinite(grown) else self._scale
                self._growth_tracker = 0
        self._stages.clear()
        self._overflowed.clear()

    def _check_used(self, name: str) -> None:
        if not self._used:
            raise RuntimeError(f"{name}() before scale(): no loss was scaled")

    # ---- what it is set to ----

    def is_enabled(self) -> bool:
        """Whether anything is scaled."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1 if not enabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by when it grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after an overflow."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many updates without an overflow the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many updates without an overflow the scale grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale, its factors and the count of updates without an overflow; empty if not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises
        ------
        RuntimeError
            It is empty: it comes from a scaler that was not enabled.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "the saved state is empty: it comes from a GradScaler(enabled=False)"
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]


def _unscale(grads: Iterable[Tensor], scale: float) -> bool:
    """Divide gradients by the scale in place; whether they are finite."""
    arrays = defaultdict(list)
    for grad in grads:
        arrays[grad.device].append(grad.array)
        increment_version(grad)
    finite = [kernels_for(device).unscale(own, 1.0 / scale) for device, own in arrays.items()]
    return all(finite)
