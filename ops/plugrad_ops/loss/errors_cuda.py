"""CUDA launchers of squared and absolute errors, which are reduced as they are computed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from plugrad.backends.cuda.reduction import Reduction
from plugrad_ops.expressions import kernel
from plugrad_ops.loss.huber import check_delta
from plugrad_ops.loss.ops import _joint_shape, check_reduction
from plugrad_ops.reduction.cuda import sum_to

PAIR = ("input", "target")


class Errors:
    """A loss of predictions and targets that broadcast, and its gradient.

    Parameters
    ----------
    name : str
        The operator's.
    error : str
        The loss of one pair, an expression of ``input`` and ``target``.
    slope : str
        Its derivative by ``input``, which is minus that by ``target``; a product of which the gradient is the first factor.
    constants : tuple of str
        What both may use besides; floats.
    check : callable, optional
        Called with the constants by name; raises for what they must not be.
    """

    def __init__(
        self,
        name: str,
        error: str,
        slope: str,
        constants: tuple[str, ...] = (),
        check: Callable[..., None] | None = None,
    ) -> None:
        self.name = name
        self.error = error
        self.slope = slope
        self.constants = constants
        self.check = check
        given = {"inputs": PAIR, "constants": constants, "name": name}
        self.reductions = {
            "sum": Reduction(map=error, **given),
            "mean": Reduction(map=error, finish="a / n", **given),
        }

    def __call__(self, input, target, *, reduction="mean", **constants):
        """The kernel of the operator."""
        constants = {name: float(value) for name, value in constants.items()}
        check_reduction(self.name, reduction)
        if self.check is not None:
            self.check(**constants)
        _joint_shape(self.name, input.shape, target.shape)
        if reduction == "none":
            return kernel(self.error, *PAIR, constants=self.constants)(input, target, **constants)
        dtype = np.result_type(input.dtype, target.dtype)
        return self.reductions[reduction]((input, target), None, False, dtype, **constants)

    def backward(self, grad, input, target, like, needs, reduction, *constants):
        """Both gradients."""
        count = math.prod(_joint_shape(self.name, input.shape, target.shape))
        names = ("n", *self.constants)
        slopes = kernel(f"grad / n * {self.slope}", "grad", *PAIR, constants=names)
        values = (max(count, 1) if reduction == "mean" else 1, *constants)
        found = slopes(grad, input, target, **dict(zip(names, map(float, values))))

        def summed(shape):
            return found if found.shape == shape else sum_to(found, shape=shape)

        grad_input = summed(input.shape) if needs.input else None
        return grad_input, kernel("-x", "x")(summed(target.shape)) if needs.target else None


mse_loss = Errors("mse_loss", "square(input - target)", "(input - target) * 2")
l1_loss = Errors("l1_loss", "abs(input - target)", "sign(input - target)")
huber_loss = Errors(
    "huber_loss",
    "min(abs(input - target), delta) * (abs(input - target) - 0.5 * min(abs(input - target), delta))",
    "min(max(input - target, -delta), delta)",
    ("delta",),
    check_delta,
)
