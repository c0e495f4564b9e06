"""Small pieces of work whose instructions are counted: what is done around the arithmetic, of which there is hardly any.

Operators work on 8 rows of 16 numbers in float32, forward and backward, unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import repeat
from typing import Any

import numpy as np

import chains
import training
from measure import Body

LENGTH = 100
ROWS, COLUMNS = 8, 16


@dataclass(frozen=True)
class Work:
    """`make` gives one peer's body; a count is divided by `calls` of the body times the `operators` in one."""

    make: Callable[[str], Body]
    operators: int = 1
    calls: int = 20
    peers: tuple[str, ...] = ("plugrad", "torch")


def one_operator(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Work:
    """`function(F, *leaves)` and its backward."""

    def make(peer: str) -> Body:
        library: Any = import_module(peer)
        F = import_module(f"{peer}.nn.functional")
        rng = np.random.default_rng(0)
        leaves = [
            library.tensor(rng.standard_normal(shape, np.float32), requires_grad=True)
            for shape in shapes
        ]
        seed = library.ones_like(function(F, *leaves).detach())

        def body() -> None:
            function(F, *leaves).backward(seed)
            for leaf in leaves:
                leaf.grad = None

        return body

    return Work(make, calls=100)


def in_place(peer: str) -> Body:
    """y = x * factor, then y *= factor in place, recorded, `LENGTH` times, and backward."""
    library: Any = import_module(peer)
    x = library.tensor(np.ones(4, np.float32), requires_grad=True)
    factor = library.tensor(np.full(4, 1.01, np.float32))
    seed = library.ones_like(factor)

    def body() -> None:
        y = x * factor
        for _ in repeat(None, LENGTH):
            y.mul_(factor)
        y.backward(seed)
        x.grad = None

    return body


def no_grad(peer: str) -> Body:
    """Linear layers and ReLUs on 8 rows of 16 with nothing recorded."""
    library: Any = import_module(peer)
    F: Any = import_module(f"{peer}.nn.functional")
    x = library.tensor(np.ones((ROWS, COLUMNS), np.float32))
    weight = library.tensor(np.eye(COLUMNS, dtype=np.float32), requires_grad=True)
    bias = library.tensor(np.zeros(COLUMNS, np.float32), requires_grad=True)

    def body() -> None:
        with library.no_grad():
            y = x
            for _ in repeat(None, LENGTH):
                y = F.relu(F.linear(y, weight, bias))

    return body


def _chain(make: Callable[..., dict[str, Any]], length: int) -> Callable[[str], Body]:
    return lambda peer: make((peer,), length)[peer]


MATRIX, ROW = (ROWS, COLUMNS), (COLUMNS,)

WORKS: dict[str, Work] = {
    "multiply": Work(
        _chain(chains.multiply_chain, LENGTH), LENGTH, peers=("plugrad", "torch", "numpy")
    ),
    "python-operator": Work(_chain(chains.python_operator, LENGTH), LENGTH),
    "retained-chain": Work(_chain(chains.long_chain, 5_000), 5_000, calls=2),
    "in-place": Work(in_place, LENGTH),
    "no-grad": Work(no_grad, 2 * LENGTH),
    "training-step": Work(
        lambda peer: training.training_step((peer,), training.SMALL)[peer],
        peers=("plugrad", "torch", "numpy"),
    ),
    "add-bias": one_operator(lambda F, x, b: x + b, MATRIX, ROW),
    "sum": one_operator(lambda F, x: x.sum(dim=-1), MATRIX),
    "softmax": one_operator(lambda F, x: F.softmax(x, dim=-1), MATRIX),
    "gelu": one_operator(lambda F, x: F.gelu(x), MATRIX),
    "layer-norm": one_operator(
        lambda F, x, w, b: F.layer_norm(x, (COLUMNS,), w, b), MATRIX, ROW, ROW
    ),
    "matmul": one_operator(lambda F, x, y: x @ y, MATRIX, (COLUMNS, COLUMNS)),
    "linear": one_operator(lambda F, x, w, b: F.linear(x, w, b), MATRIX, (COLUMNS, COLUMNS), ROW),
}
