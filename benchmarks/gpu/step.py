"""A training step of a multilayer perceptron: time and peak memory, next to PyTorch's eager mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import clock
import numpy as np
from libraries import Library
from report import Row
from settings import Settings

RATE = 1e-4


def measure(libraries: list[Library], settings: Settings) -> Iterator[Row]:
    bodies, peaks = {}, {}
    for library in libraries:
        if library.differentiates:
            before = library.allocated()
            body = make_step(library, settings)
            body(0)
            library.reset_peak()
            body(0)
            if library.device == "cuda":
                peaks[library.name] = (library.peak() - before) / 2**20
            bodies[library.name] = body
    timing = clock.on_host(bodies, settings, settings.steps, wait=True)
    figures = {name: 1e3 * timing.median(name) for name in bodies}
    shape = " → ".join(map(str, settings.layers))
    work = f"step {settings.rows}x{shape}, Adam"
    yield Row("step", work, "ms", figures, timing.ratio("plugrad", "torch"))
    ratio = peaks["plugrad"] / peaks["torch"] if peaks.get("torch") else None
    yield Row("memory", "its peak memory", "MiB", peaks, ratio)


def make_step(library: Library, settings: Settings) -> clock.Body:
    """One step: forward, loss, backward, Adam. The loss stays on the device."""
    rng = np.random.default_rng(1)
    functional = library.functional
    inputs = library.array(rng.standard_normal((settings.rows, settings.layers[0]), np.float32))
    labels = library.array(rng.integers(0, settings.layers[-1], settings.rows))
    parameters: list[Any] = []
    for fan_in, fan_out in zip(settings.layers, settings.layers[1:]):
        weight = rng.standard_normal((fan_out, fan_in), np.float32) / np.float32(fan_in**0.5)
        parameters.append(library.array(weight, True))
        parameters.append(library.array(np.zeros(fan_out, np.float32), True))
    optimizer = library.module.optim.Adam(parameters, lr=RATE)

    def body(k: int) -> Any:
        hidden = inputs
        for i in range(0, len(parameters) - 2, 2):
            hidden = functional.relu(functional.linear(hidden, parameters[i], parameters[i + 1]))
        logits = functional.linear(hidden, parameters[-2], parameters[-1])
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return body
