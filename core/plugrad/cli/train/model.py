"""The network: a multilayer perceptron, whole or with quantised weights and activations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

import plugrad
from plugrad import Tensor
from plugrad.nn import functional as F


def parameter(values: object, device: str) -> Tensor:
    """A float32 leaf that wants a gradient."""
    return plugrad.tensor(np.asarray(values, dtype=np.float32), device=device, requires_grad=True)


class MLP:
    """Linear layers with ReLU in between.

    Parameters
    ----------
    widths : sequence of int
        Number of inputs, of units in every hidden layer, and of outputs.
    rng : numpy.random.Generator
        Draws the initial weights, on the host: He et al., arXiv:1502.01852, eq. 10.
    device : str
        Where the network computes.
    """

    def __init__(
        self, widths: Sequence[int], rng: np.random.Generator, device: str = "cpu"
    ) -> None:
        self.device = device
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        for fan_in, fan_out in pairwise(widths):
            deviation = np.sqrt(2.0 / fan_in)
            weight = rng.normal(0.0, deviation, (fan_out, fan_in))
            self.weights.append(parameter(weight, device))
            self.biases.append(parameter(np.zeros(fan_out), device))

    def parameters(self) -> list[Tensor]:
        """What training changes."""
        return self.weights + self.biases

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of shape (n, classes) for inputs of shape (n, inputs)."""
        last = len(self.weights) - 1
        for layer in range(last + 1):
            x = self.linear(layer, x)
            if layer < last:
                x = F.relu(x)
        return x

    def linear(self, layer: int, x: Tensor) -> Tensor:
        """One layer before its ReLU."""
        return F.linear(x, self.weights[layer], self.biases[layer])


class QuantizedMLP(MLP):
    """The same, computed as `bits`-bit integers would compute it.

    Weights are signed, activations unsigned (the images and what ReLU passes are not negative).
    Every layer learns the distance of its levels: Esser et al., arXiv:1902.08153. What is trained is the
    logarithm of that distance, which keeps it positive and lets one learning rate suit them all.
    """

    def __init__(
        self, widths: Sequence[int], rng: np.random.Generator, bits: int, device: str = "cpu"
    ) -> None:
        super().__init__(widths, rng, device)
        self.bits = bits
        self.fake_quantize = plugrad.ops.ste.fake_quantize
        self.weight_steps = [
            parameter(np.log(_first_step(_mean_size(weight), 2 ** (bits - 1) - 1)), device)
            for weight in self.weights
        ]
        input_step = np.log(_first_step(0.5, 2**bits - 1))
        self.input_steps = [parameter(input_step, device) for _ in self.weights]

    def parameters(self) -> list[Tensor]:
        return super().parameters() + self.weight_steps + self.input_steps

    def linear(self, layer: int, x: Tensor) -> Tensor:
        x = self.fake_quantize(x, self.input_steps[layer].exp(), 0, bits=self.bits, signed=False)
        weight = self.fake_quantize(
            self.weights[layer], self.weight_steps[layer].exp(), 0, bits=self.bits
        )
        return F.linear(x, weight, self.biases[layer])


def _mean_size(tensor: Tensor) -> float:
    return float(np.abs(tensor.detach().cpu().numpy()).mean())


def _first_step(typical_size: float, largest_level: int) -> float:
    """The initial distance of two levels, section 2.1 of arXiv:1902.08153."""
    return 2.0 * typical_size / np.sqrt(largest_level)
