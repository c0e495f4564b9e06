"""Activation checkpointing of a deep MLP: what is saved in memory, and what it costs in time.

48 layers of 512 on 256 rows, float32, each a product and a GELU, in six runs, all but the last of which are checkpointed.
`plain` keeps everything; `unchecked` and `checked` differ in whether the second run's values are compared with the first's.
Compare within one machine: activations are `peakmem_step` less that of `nothing`, which has the weights and their gradients.
"""

import tracemalloc

import numpy as np

import plugrad
from plugrad.utils.checkpoint import checkpoint_sequential

LAYERS, WIDTH, ROWS, SEGMENTS = 48, 512, 256, 6
WAYS = ["plain", "unchecked", "checked"]


class Network:
    """The layers, and a training step in each way."""

    def __init__(self, layers=LAYERS, width=WIDTH, rows=ROWS):
        rng = np.random.default_rng(0)
        draw = rng.standard_normal
        self.input = plugrad.tensor(draw((rows, width), np.float32))
        self.weights = [
            plugrad.tensor(
                draw((width, width), np.float32) * (1.5 / width**0.5), requires_grad=True
            )
            for _ in range(layers)
        ]
        functional = plugrad.nn.functional
        self.layers = [
            lambda x, w=w: functional.gelu(functional.linear(x, w)) for w in self.weights
        ]

    def forward(self, way, segments=SEGMENTS):
        if way == "plain":
            return checkpoint_sequential(self.layers, 1, self.input).mean()
        check = "default" if way == "checked" else "none"
        return checkpoint_sequential(
            self.layers, segments, self.input, determinism_check=check
        ).mean()

    def step(self, way):
        self.forward(way).backward()
        for weight in self.weights:
            weight.grad = None


class DeepMLP:
    params = WAYS
    param_names = ("way",)

    def setup(self, way):
        self.network = Network()

    def time_step(self, way):
        self.network.step(way)

    def track_held_between_forward_and_backward(self, way):
        """Bytes allocated by the forward pass that wait for backward."""
        self.network.forward(way)
        tracemalloc.start()
        try:
            loss = self.network.forward(way)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        loss.backward()
        return held

    track_held_between_forward_and_backward.unit = "bytes"


class DeepMLPPeak:
    """One step with gradients from an earlier one, which else would take the place of freed activations."""

    params = ("nothing", *WAYS)
    param_names = ("way",)

    def setup(self, way):
        Network(SEGMENTS, 8, 8).step("checked")  # loads the operators
        self.network = Network()
        for weight in self.network.weights:
            weight.grad = plugrad.zeros_like(weight)
            weight.grad.array.fill(1)

    def peakmem_step(self, way):
        if way != "nothing":
            self.network.forward(way).backward()


class ManySmallCheckpoints:
    """10³ checkpoints of one operator on four numbers: what a checkpoint itself costs."""

    params = (True, False)
    param_names = ("preserve_rng_state",)

    def setup(self, preserve_rng_state):
        self.x = plugrad.tensor(np.full(4, 0.5, np.float32), requires_grad=True)

    def time_forward_backward(self, preserve_rng_state):
        from plugrad.utils.checkpoint import checkpoint

        y = self.x
        for _ in range(1000):
            y = checkpoint(plugrad.sin, y, preserve_rng_state=preserve_rng_state)
        y.sum().backward()
        self.x.grad = None
