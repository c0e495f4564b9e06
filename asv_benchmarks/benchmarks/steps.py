"""Training steps, the ones that `../../benchmarks/peers.py` compares with other libraries."""

import sys
from pathlib import Path


def _body(name):
    """One step of plugrad's, from the scripts for the comparison, which import each other by their bare names."""
    folder = str(Path(__file__).parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import convnet
        import training
    finally:
        sys.path.remove(folder)
    if name == "convnet":
        return convnet.with_library("plugrad")
    return training.with_library("plugrad", getattr(training, name))


class Step:
    """64 → 64 → 10 with SGD, 784 → 512 → 512 → 10 with Adam, and a small ConvNet; ten steps."""

    params = ("SMALL", "LARGE", "convnet")
    param_names = ("network",)
    STEPS = 10

    def setup(self, network):
        self.step = _body(network)
        self.step()

    def time_steps(self, network):
        for _ in range(self.STEPS):
            self.step()

    def peakmem_steps(self, network):
        for _ in range(self.STEPS):
            self.step()
