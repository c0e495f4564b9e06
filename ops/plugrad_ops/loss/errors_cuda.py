"""CUDA launchers of squared and absolute errors, which are reduced as they are computed."""

from __future__ import annotations

import math

import numpy as np

from plugrad.backends.cuda.reduction import Reduction
from plugrad_ops.expressions import kernel
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
        Its derivative by ``input``, which is minus that by ``target``.
    """

    def __init__(self, name: str, error: str, slope: str) -> None:
        self.name = name
        self.error = error
        self.slope = slope
        self.reductions = {
            "sum": Reduction(map=error, inputs=PAIR, name=name),
            "mean": Reduction(map=error, finish="a / n", inputs=PAIR, name=name),
        }

    def __call__(self, input, target, *, reduction="mean"):
        """The kernel of the operator."""
        check_reduction(self.name, reduction)
        _joint_shape(self.name, input.shape, target.shape)
        if reduction == "none":
            return kernel(self.error, *PAIR)(input, target)
        dtype = np.result_type(input.dtype, target.dtype)
        return self.reductions[reduction]((input, target), None, False, dtype)

    def backward(self, grad, input, target, like, needs, reduction):
        """Both gradients."""
        count = math.prod(_joint_shape(self.name, input.shape, target.shape))
        slopes = kernel(f"grad / n * ({self.slope})", "grad", *PAIR, constants=("n",))
        found = slopes(grad, input, target, n=float(max(count, 1) if reduction == "mean" else 1))

        def summed(shape):
            return found if found.shape == shape else sum_to(found, shape=shape)

        grad_input = summed(input.shape) if needs.input else None
        return grad_input, kernel("-x", "x")(summed(target.shape)) if needs.target else None


mse_loss = Errors("mse_loss", "square(input - target)", "2 * (input - target)")
l1_loss = Errors("l1_loss", "abs(input - target)", "sign(input - target)")
