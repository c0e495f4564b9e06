"""Training steps of small multilayer perceptrons, in plugrad, PyTorch, autograd and NumPy by hand.

plugrad and PyTorch run the same script; only the update differs where plugrad has no optimiser of that name, and is then
the one written by hand for NumPy. Every body does one step and returns the loss before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from measure import Body


@dataclass(frozen=True)
class Problem:
    """Sizes of the layers, rows in a batch, optimiser and its learning rate."""

    layers: tuple[int, ...]
    rows: int
    optimiser: str
    rate: float

    def inputs(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(1)
        x = rng.standard_normal((self.rows, self.layers[0]), np.float32)
        return x, rng.integers(0, self.layers[-1], self.rows)

    def parameters(self) -> list[np.ndarray]:
        """Weights (out, in) and biases, alternating."""
        rng = np.random.default_rng(2)
        found = []
        for fan_in, fan_out in zip(self.layers, self.layers[1:], strict=False):
            weight = rng.standard_normal((fan_out, fan_in), np.float32)
            found += [weight / np.float32(fan_in**0.5), np.zeros(fan_out, np.float32)]
        return found


SMALL = Problem((64, 64, 10), 32, "SGD", 1e-3)
LARGE = Problem((784, 512, 512, 10), 256, "Adam", 1e-5)


def training_step(peers: tuple[str, ...], problem: Problem) -> dict[str, Body]:
    bodies: dict[str, Body] = {}
    for peer in peers:
        if peer == "numpy":
            bodies[peer] = _by_hand(problem)
        elif peer == "autograd":
            bodies[peer] = _with_autograd(problem)
        else:
            bodies[peer] = with_library(peer, problem)
    return bodies


# ------------------------------------------------------------------------------------------ plugrad and PyTorch


def with_library(name: str, problem: Problem) -> Body:
    library: Any = import_module(name)
    functional: Any = import_module(f"{name}.nn.functional")
    x, labels = problem.inputs()
    inputs, targets = library.tensor(x), library.tensor(labels)
    parameters = [library.tensor(p, requires_grad=True) for p in problem.parameters()]
    update = _updater(library, parameters, problem)

    def body() -> float:
        hidden = inputs
        for i in range(0, len(parameters) - 2, 2):
            hidden = functional.relu(functional.linear(hidden, parameters[i], parameters[i + 1]))
        logits = functional.linear(hidden, parameters[-2], parameters[-1])
        loss = functional.cross_entropy(logits, targets)
        loss.backward()
        update()
        return loss.item()

    return body


def _updater(library: Any, parameters: list[Any], problem: Problem) -> Callable[[], None]:
    """The library's own optimiser if it has one, else the one by hand on the arrays."""
    optim = getattr(library, "optim", None)
    if optim is not None and hasattr(optim, problem.optimiser):
        optimiser = getattr(optim, problem.optimiser)(parameters, lr=problem.rate)

        def update() -> None:
            optimiser.step()
            optimiser.zero_grad()

        return update

    by_hand = HAND_OPTIMISERS[problem.optimiser]([p.array for p in parameters], problem.rate)

    def update_by_hand() -> None:
        by_hand([p.grad.array for p in parameters])
        for parameter in parameters:
            parameter.grad = None

    return update_by_hand


# ---------------------------------------------------------------------------------------------------- by hand


def _by_hand(problem: Problem) -> Body:
    x, labels = problem.inputs()
    parameters = problem.parameters()
    update = HAND_OPTIMISERS[problem.optimiser](parameters, problem.rate)
    rows = np.arange(problem.rows)

    def body() -> float:
        activations = [x]
        for i in range(0, len(parameters) - 2, 2):
            activations.append(np.maximum(activations[-1] @ parameters[i].T + parameters[i + 1], 0))
        logits = activations[-1] @ parameters[-2].T + parameters[-1]
        logits -= logits.max(axis=1, keepdims=True)
        exponentials = np.exp(logits)
        sums = exponentials.sum(axis=1, keepdims=True)
        loss = float((np.log(sums[:, 0]) - logits[rows, labels]).mean())

        gradient = exponentials / sums
        gradient[rows, labels] -= 1
        gradient /= problem.rows
        gradients: list[np.ndarray] = []
        for i in range(len(parameters) - 2, -1, -2):
            hidden = activations.pop()
            gradients += [gradient.sum(axis=0), gradient.T @ hidden]
            if i:
                gradient = (gradient @ parameters[i]) * (hidden > 0)
        update(gradients[::-1])
        return loss

    return body


class HandSGD:
    """p -= rate * g, in place."""

    def __init__(self, parameters: list[np.ndarray], rate: float) -> None:
        self.parameters = parameters
        self.rate = np.float32(rate)

    def __call__(self, gradients: list[np.ndarray]) -> None:
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter -= self.rate * gradient


class HandAdam:
    """Adam (Kingma and Ba, 2015) with PyTorch's defaults, in place, with scratch memory for the largest parameter."""

    def __init__(self, parameters: list[np.ndarray], rate: float) -> None:
        self.parameters, self.rate = parameters, rate
        self.beta1, self.beta2, self.epsilon = 0.9, 0.999, 1e-8
        self.means = [np.zeros_like(p) for p in parameters]
        self.squares = [np.zeros_like(p) for p in parameters]
        self.scratch = np.empty((2, max(p.size for p in parameters)), np.float32)
        self.steps = 0

    def __call__(self, gradients: list[np.ndarray]) -> None:
        self.steps += 1
        size = self.rate / (1 - self.beta1**self.steps)
        correction = (1 - self.beta2**self.steps) ** 0.5
        for p, g, m, v in zip(self.parameters, gradients, self.means, self.squares, strict=True):
            s, t = (scratch[: p.size].reshape(p.shape) for scratch in self.scratch)
            m += np.multiply(np.subtract(g, m, out=s), np.float32(1 - self.beta1), out=s)
            np.multiply(g, g, out=s)
            v *= np.float32(self.beta2)
            v += np.multiply(s, np.float32(1 - self.beta2), out=s)
            np.sqrt(v, out=s)
            s /= np.float32(correction)
            s += np.float32(self.epsilon)
            np.divide(m, s, out=t)
            p -= np.multiply(t, np.float32(size), out=t)


HAND_OPTIMISERS: dict[str, Callable[[list[np.ndarray], float], Any]] = {
    "SGD": HandSGD,
    "Adam": HandAdam,
}


# --------------------------------------------------------------------------------------------------- autograd


def _with_autograd(problem: Problem) -> Body:
    import autograd.numpy as anp
    from autograd import value_and_grad

    x, labels = problem.inputs()
    parameters = problem.parameters()
    update = HAND_OPTIMISERS[problem.optimiser](parameters, problem.rate)
    rows = np.arange(problem.rows)

    def loss(values: list[Any]) -> Any:
        hidden: Any = x
        for i in range(0, len(values) - 2, 2):
            hidden = anp.maximum(anp.dot(hidden, values[i].T) + values[i + 1], 0)
        logits = anp.dot(hidden, values[-2].T) + values[-1]
        # Without this the exponentials may overflow; a constant shift has no gradient.
        shifted = logits - np.max(getattr(logits, "_value", logits), axis=1, keepdims=True)
        return anp.mean(anp.log(anp.sum(anp.exp(shifted), axis=1)) - shifted[rows, labels])

    differentiated = value_and_grad(loss)

    def body() -> float:
        value, gradients = differentiated(parameters)
        update(gradients)
        return float(value)

    return body
