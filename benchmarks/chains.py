"""Chains of tiny operators: what recording, dispatch and the engine cost when arithmetic costs nothing.

Each function returns one body per peer that is installed; all of a body's work is the same in every library.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from itertools import pairwise, repeat
from typing import Any

import numpy as np

import measure
from measure import Body

ELEMENTS = 4
LENGTH = 1_000


def _x() -> np.ndarray:
    return np.linspace(0.5, 2.0, ELEMENTS, dtype=np.float32)


def _factor() -> np.ndarray:
    return np.full(ELEMENTS, 1.0001, np.float32)


def _ones() -> np.ndarray:
    return np.ones(ELEMENTS, np.float32)


# ------------------------------------------------------------------------------------- a chain of multiplications


def multiply_chain(peers: tuple[str, ...], length: int = LENGTH) -> dict[str, Body]:
    """x = x * factor, `length` times, then backward; each body returns the gradient of the first x."""
    bodies: dict[str, Body] = {}
    for peer in peers:
        if peer == "numpy":
            bodies[peer] = _multiply_numpy(length)
        elif peer == "autograd":
            bodies[peer] = _multiply_autograd(length)
        else:
            bodies[peer] = _multiply(import_module(peer), length)
    return bodies


def _multiply(library: Any, length: int) -> Body:
    """In plugrad or PyTorch: the same script."""
    x = library.tensor(_x(), requires_grad=True)
    factor, seed = library.tensor(_factor()), library.tensor(_ones())

    def body() -> np.ndarray:
        y = x
        for _ in repeat(None, length):
            y = y * factor
        y.backward(seed)
        return _taken(x)

    return body


def _taken(leaf: Any) -> np.ndarray:
    """The leaf's gradient, which is then gone, so that the next call does not add to it."""
    gradient, leaf.grad = leaf.grad, None
    return gradient.numpy()


def _multiply_autograd(length: int) -> Body:
    from autograd import make_vjp

    x, factor, seed = _x(), _factor(), _ones()

    def function(y: Any) -> Any:
        for _ in repeat(None, length):
            y = y * factor
        return y

    return lambda: make_vjp(function)(x)[0](seed)


def _multiply_numpy(length: int) -> Body:
    x, factor, seed = _x(), _factor(), _ones()

    def body() -> np.ndarray:
        y = x
        for _ in repeat(None, length):
            y = y * factor
        gradient = seed
        for _ in repeat(None, length):
            gradient = gradient * factor
        return gradient

    return body


# --------------------------------------------------------------------------------- an operator written in Python


def python_operator(peers: tuple[str, ...], length: int = LENGTH) -> dict[str, Body]:
    """The same chain with a product whose forward and backward are Python code of the user's."""
    bodies: dict[str, Body] = {}
    for peer in peers:
        if peer == "plugrad":
            bodies[peer] = _python(import_module(peer), _product_plugrad(), length)
        elif peer == "torch":
            bodies[peer] = _python(import_module(peer), _product_torch(), length)
        elif peer == "autograd":
            bodies[peer] = _python_autograd(length)
    return bodies


def _python(library: Any, product: Callable[[Any, Any], Any], length: int) -> Body:
    x = library.tensor(_x(), requires_grad=True)
    factor, seed = library.tensor(_factor()), library.tensor(_ones())

    def body() -> np.ndarray:
        y = x
        for _ in repeat(None, length):
            y = product(y, factor)
        y.backward(seed)
        return _taken(x)

    return body


def _product_plugrad() -> Callable[[Any, Any], Any]:
    import plugrad

    @plugrad.operator("peers::product", elementwise=True)
    def product(x, y):
        """The product."""
        return np.multiply(x, y)

    @product.backward
    def _(grad, x, y, needs):
        return grad * y, grad * x if needs.y else None

    @product.samples
    def _(make):
        yield make.call(make.normal(3, 4), make.normal(3, 4))
        yield make.call(make.normal(2, 3), make.normal(3))
        yield make.call(make.normal(5), make.normal(1))

    return plugrad.register(product)


def _product_torch() -> Callable[[Any, Any], Any]:
    import torch

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y, grad * x if ctx.needs_input_grad[1] else None

    return Product.apply


def _python_autograd(length: int) -> Body:
    from autograd import make_vjp
    from autograd.extend import defvjp, primitive

    @primitive
    def product(x, y):
        return np.multiply(x, y)

    defvjp(
        product,
        lambda ans, x, y: lambda grad: grad * y,
        lambda ans, x, y: lambda grad: grad * x,
    )
    x, factor, seed = _x(), _factor(), _ones()

    def function(y: Any) -> Any:
        for _ in repeat(None, length):
            y = product(y, factor)
        return y

    return lambda: make_vjp(function)(x)[0](seed)


# ------------------------------------------------------------------------------------------------- one long chain


def long_chain(peers: tuple[str, ...], length: int) -> dict[str, Callable[[], dict[str, float]]]:
    """One chain of `length` nodes; each body returns the seconds of its three phases.

    Here the factor requires grad, too, so that every library has to keep every intermediate array: what one may leave out
    otherwise (PyTorch then keeps the factor alone) is no property of its graph.
    """
    return {
        peer: _long_chain(import_module(peer), length)
        for peer in peers
        if peer in ("plugrad", "torch")
    }


def _long_chain(library: Any, length: int) -> Callable[[], dict[str, float]]:
    x = library.tensor(_x(), requires_grad=True)
    factor = library.tensor(_factor(), requires_grad=True)
    seed = library.tensor(_ones())

    def body() -> dict[str, float]:
        stamps = [measure.clock()]
        y = x
        for _ in repeat(None, length):
            y = y * factor
        stamps.append(measure.clock())
        y.backward(seed)
        stamps.append(measure.clock())
        del y
        x.grad = factor.grad = None
        stamps.append(measure.clock())
        build, backward, free = (b - a for a, b in pairwise(stamps))
        return {"build": build, "backward": backward, "free": free}

    return body
