"""The same work on each device: what a call costs, and what an operator takes.

The device is a parameter; one that is not there is skipped. The emulated device is none: its time means nothing. Bodies wait
for the device once, at their end.
"""

import numpy as np

import plugrad

DEVICES = ["cpu", "cuda"]
CALLS = {100: 1000, 10_000: 200, 1_000_000: 20}  # of an operator, by the number of elements
LENGTH = 1000

OPERATORS = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "exp": lambda x, y: x.exp(),
    "gelu": lambda x, y: plugrad.nn.functional.gelu(x),
    "softmax": lambda x, y: x.softmax(-1),
    "sum": lambda x, y: x.sum(-1),
}


def require(device):
    """Skip, as asv understands it, what this machine does not have."""
    if device != "cuda":
        return
    reason = plugrad.cuda.why_unavailable()
    if reason is None and plugrad.cuda.is_emulated():
        reason = "the device is emulated"
    if reason is not None:
        raise NotImplementedError(f"no device {device!r}: {reason}")


def wait(device):
    if device == "cuda":
        plugrad.cuda.synchronize()


def tensor(device, *shape, requires_grad=False):
    rng = np.random.default_rng(0)
    values = rng.random(shape, np.float32) + np.float32(0.5)
    return plugrad.tensor(values, device=device, requires_grad=requires_grad)


class Operator:
    """An operator called over and over, forward, then forward and backward; rows of 100 float32 numbers."""

    params = (DEVICES, list(OPERATORS), list(CALLS))
    param_names = ("device", "operator", "elements")

    def setup(self, device, operator, elements):
        require(device)
        shape = (elements // 100, 100)
        self.x, self.y = tensor(device, *shape), tensor(device, *shape)
        self.leaf = tensor(device, *shape, requires_grad=True)
        self.function = OPERATORS[operator]
        self.seed = plugrad.ones_like(self.function(self.leaf, self.y).detach())
        self.time_forward_backward(
            device, operator, elements
        )  # compiles what is compiled on first use

    def time_forward(self, device, operator, elements):
        for _ in range(CALLS[elements]):
            self.function(self.x, self.y)
        wait(device)

    def time_forward_backward(self, device, operator, elements):
        for _ in range(CALLS[elements]):
            self.function(self.leaf, self.y).backward(self.seed)
            self.leaf.grad = None
        wait(device)


class Chain:
    """x = x * factor over and over on four numbers: a launch, or a loop of four, and the graph around it."""

    params = DEVICES
    param_names = ("device",)

    def setup(self, device):
        require(device)
        self.x, self.factor = tensor(device, 4, requires_grad=True), tensor(device, 4)
        self.time_build_backward_free(device)

    def time_build_backward_free(self, device):
        y = self.x
        for _ in range(LENGTH):
            y = y * self.factor
        y.backward(self.factor)
        self.x.grad = None
        wait(device)

    def time_no_grad(self, device):
        with plugrad.no_grad():
            y = self.x
            for _ in range(LENGTH):
                y = y * self.factor
        wait(device)
