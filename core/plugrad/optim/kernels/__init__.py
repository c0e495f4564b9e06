"""Passes over the arrays of parameters and gradients, in a module per device that is named for its backend.

They are no operators: they write in place, have no gradient, and what they compute in one pass over memory would be many
operators. Each module offers the functions of `Kernels`; the CPU's is the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast

__all__ = ["Kernels", "kernels_for"]


class Kernels(Protocol):
    """What a module for a device offers. Arrays are those of its backend."""

    def zeros_like(self, array: Any) -> Any:
        """Zeros of the same shape and dtype, laid out alike."""

    def adam(
        self,
        ps: list[Any],
        grads: list[Any],
        means: list[Any],
        squares: list[Any],
        greatest: list[Any] | None,
        *,
        rate: float,
        root: float,
        eps: float,
        betas: tuple[float, float],
        decay: float,
        shrink: float,
        maximize: bool,
    ) -> None:
        """One step of Adam for some parameters, written into all arrays but the gradients.

        Parameters
        ----------
        greatest : list of array or None
            The greatest mean squares so far, to be divided by instead.
        rate, root : float
            The learning rate and the root of the mean square's divisor, corrected for the start at zero.
        decay : float
            Times the parameter, added to the gradient.
        shrink : float
            What the parameter is multiplied by.
        """

    def sgd(
        self,
        ps: list[Any],
        grads: list[Any],
        buffers: list[Any] | None,
        *,
        rate: float,
        momentum: float,
        fresh: float,
        decay: float,
        nesterov: bool,
        maximize: bool,
    ) -> None:
        """One step of SGD for some parameters, written into them and into the buffers: None without momentum.

        Parameters
        ----------
        momentum, fresh : float
            What the buffer and the gradient are multiplied by before they are added.
        """

    def unscale(self, arrays: Sequence[Any], factor: float) -> bool:
        """Multiply every array by `factor` in place; whether all of the results are finite."""

    def norms(self, arrays: Sequence[Any], p: float) -> list[float]:
        """The p-norm of each array; squares on the way neither overflow nor vanish."""

    def multiply(self, array: Any, factor: float) -> None:
        """Multiply in place, also by a factor that the dtype has no number for."""

    def clamp(self, array: Any, bound: float) -> None:
        """Move every element into ``[-bound, bound]`` in place; NaN stays."""


@cache
def kernels_for(device: str) -> Kernels:
    """The module for a device.

    Raises
    ------
    NotImplementedError
        There is none.
    """
    name = f"{__name__}.{device.partition(':')[0]}"
    if find_spec(name) is None:
        raise NotImplementedError(
            f"parameters and gradients on device {device!r} cannot be updated: there is no {name}"
        )
    return cast(Kernels, import_module(name))
