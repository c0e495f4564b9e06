"""The training step of a small convolutional network on 64 images of 28x28, in plugrad and PyTorch: the same script.

Two convolutions of 3x3 with ReLU and a pooling each (1 to 16 to 32 channels, 28x28 to 14x14 to 7x7), one linear layer, the
cross-entropy of ten classes, SGD with momentum.
"""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from measure import Body

ROWS, SIDE, CHANNELS, CLASSES = 64, 28, (1, 16, 32), 10


def training_step(peers: tuple[str, ...]) -> dict[str, Body]:
    return {peer: with_library(peer) for peer in peers if peer in ("plugrad", "torch")}


def with_library(name: str, rows: int = ROWS) -> Body:
    """One step, which returns the loss before it."""
    library: Any = import_module(name)
    F: Any = import_module(f"{name}.nn.functional")
    rng = np.random.default_rng(3)

    def parameter(*shape: int) -> Any:
        fan_in = np.prod(shape[1:])
        values = rng.standard_normal(shape, np.float32) * np.float32((2 / fan_in) ** 0.5)
        return library.tensor(values, requires_grad=True)

    def bias(length: int) -> Any:
        return library.tensor(np.zeros(length, np.float32), requires_grad=True)

    images = library.tensor(rng.standard_normal((rows, CHANNELS[0], SIDE, SIDE), np.float32))
    targets = library.tensor(rng.integers(0, CLASSES, rows))
    convolutions = [
        (parameter(channels, before, 3, 3), bias(channels))
        for before, channels in pairwise(CHANNELS)
    ]
    features = CHANNELS[-1] * (SIDE // 4) ** 2
    linear = parameter(CLASSES, features), bias(CLASSES)
    parameters = [one for layer in (*convolutions, linear) for one in layer]
    optimiser = import_module(f"{name}.optim").SGD(parameters, lr=1e-3, momentum=0.9)

    def body() -> float:
        x = images
        for weight, shift in convolutions:
            x = F.max_pool2d(F.relu(F.conv2d(x, weight, shift, padding=1)), 2)
        loss = F.cross_entropy(F.linear(x.flatten(1), *linear), targets)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss.item()

    return body
