"""Adam on the arrays of the parameters."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from plugrad import Tensor


class Adam:
    """Kingma and Ba, arXiv:1412.6980, algorithm 1, in the order of section 2's last paragraph.

    Parameters
    ----------
    parameters : iterable of Tensor
        Leaves; their arrays are changed in place.
    betas : (float, float)
        Decay of the running means of the gradient and of its square.
    eps : float
        Added to the root of the latter.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.parameters = list(parameters)
        self.betas, self.eps, self.steps = betas, eps, 0
        self.mean = [np.zeros_like(p.array) for p in self.parameters]
        self.square = [np.zeros_like(p.array) for p in self.parameters]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    def step(self, lr: float) -> None:
        """Move every parameter against its gradient."""
        self.steps += 1
        first, second = self.betas
        # Both corrections for the start at zero, moved into the step size and eps.
        root = (1.0 - second**self.steps) ** 0.5
        rate = lr * root / (1.0 - first**self.steps)
        for p, mean, square in zip(self.parameters, self.mean, self.square):
            if p.grad is None:
                continue
            g = p.grad.array
            mean += (1.0 - first) * (g - mean)
            square += (1.0 - second) * (g * g - square)
            p.array[...] -= rate * mean / (np.sqrt(square) + self.eps * root)
