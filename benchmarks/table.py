"""Elementwise operators, softmax and reductions from 10² to 10⁷ elements: forward and backward in plugrad and PyTorch.

The same script for both: `library.exp(x)`, then backward from a seed of random numbers. float32 in rows of 100, so that
softmax and row reductions do the same at every size.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from measure import Body

ROW = 100
SIZES = (10**2, 10**3, 10**4, 10**5, 10**6, 10**7)

Function = Callable[[Any, Any, Any], Any]

# Positive inputs, so that the same ones do for log and sqrt.
OPERATORS: dict[str, Function] = {
    "add": lambda lib, x, y: x + y,
    "mul": lambda lib, x, y: x * y,
    "div": lambda lib, x, y: x / y,
    "exp": lambda lib, x, y: lib.exp(x),
    "log": lambda lib, x, y: lib.log(x),
    "sqrt": lambda lib, x, y: lib.sqrt(x),
    "tanh": lambda lib, x, y: lib.tanh(x),
    "sigmoid": lambda lib, x, y: lib.sigmoid(x),
    "relu": lambda lib, x, y: lib.relu(x),
    "gelu": lambda lib, x, y: lib.nn.functional.gelu(x),
    "silu": lambda lib, x, y: lib.nn.functional.silu(x),
    "softmax": lambda lib, x, y: lib.softmax(x, dim=-1),
    "log_softmax": lambda lib, x, y: lib.log_softmax(x, dim=-1),
    "logsumexp": lambda lib, x, y: lib.logsumexp(x, dim=-1),
    "sum": lambda lib, x, y: lib.sum(x),
    "sum rows": lambda lib, x, y: lib.sum(x, dim=-1),
    "mean rows": lambda lib, x, y: lib.mean(x, dim=-1),
    "amax rows": lambda lib, x, y: lib.amax(x, dim=-1),
    "var rows": lambda lib, x, y: lib.var(x, dim=-1),
}


def bodies(name: str, elements: int, peers: tuple[str, ...]) -> dict[str, Body]:
    return {
        peer: _body(import_module(peer), OPERATORS[name], elements)
        for peer in peers
        if peer in ("plugrad", "torch")
    }


def _body(library: Any, function: Function, elements: int) -> Body:
    import_module(f"{library.__name__}.nn.functional")
    rng = np.random.default_rng(0)
    shape = (elements // ROW, ROW)

    def leaf() -> Any:
        return library.tensor(rng.random(shape, np.float32) + np.float32(0.5), requires_grad=True)

    x, y = leaf(), leaf()
    seed = library.tensor(rng.standard_normal(tuple(function(library, x, y).shape), np.float32))

    def body() -> np.ndarray:
        function(library, x, y).backward(seed)
        gradient, x.grad, y.grad = x.grad, None, None
        return gradient.numpy()

    return body
