"""The operators of the table: elementwise ones, softmax, norm layers, losses and reductions, and their bodies.

One line is one operator, as a function for plugrad and PyTorch alike. The names of its parameters say what it gets:

    x, y, z         leaves that require grad, of the case's shape, type and layout
    lib, F          the library, and its nn.functional
    mask, target    constants of x's shape: booleans, and numbers between 0 and 1
    labels          integers, one per row: each row's class
    scale, shift    leaves that require grad, one number per channel (the second axis)
    row_scale, row_shift    the same, one number per column (the last axis)
    mean, var       running statistics, one number per channel, which training updates

The values are the same in both libraries. `transposed` has the axes of x the other way round in memory (of three axes, the
last two), as a leaf. The incoming gradient has the layout of the result, as it would have inside a network, and where the
libraries lay a result out differently, each meets its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from measure import Body, agree

SIZES = (10**2, 10**4, 10**6, 10**7)
ALL_SIZES = (10**2, 10**3, 10**4, 10**5, 10**6, 10**7)
DTYPES = ("float32", "float64")
LAYOUTS = ("contiguous", "transposed")

SHAPES = {
    10**2: (10, 10),
    10**3: (25, 40),
    10**4: (100, 100),
    10**5: (250, 400),
    10**6: (1000, 1000),
    10**7: (3125, 3200),
}
IMAGES = {  # for normalisation by channel: rows, channels, pixels
    10**2: (5, 4, 5),
    10**3: (5, 8, 25),
    10**4: (10, 20, 50),
    10**5: (10, 40, 250),
    10**6: (25, 40, 1000),
    10**7: (50, 80, 2500),
}


@dataclass(frozen=True)
class Operator:
    """`values` says where the leaves lie: everywhere, above a half, or so close to 1 that long products stay finite."""

    group: str
    function: Callable[..., Any]
    values: str = "normal"
    shapes: str = "rows"
    random: bool = False


@dataclass(frozen=True)
class Case:
    operator: str
    size: int
    dtype: str
    layout: str
    row: int | None = None

    def __str__(self) -> str:
        return f"{self.operator} {self.size:.0e} {self.dtype} {self.layout}".replace("e+0", "e")

    @property
    def shape(self) -> tuple[int, ...]:
        if OPERATORS[self.operator].shapes == "images":
            return IMAGES[self.size]
        return (self.size // self.row, self.row) if self.row else SHAPES[self.size]


def elementwise(function: Callable[..., Any], values: str = "normal", random: bool = False) -> Any:
    return Operator("elementwise", function, values, random=random)


def softmax(function: Callable[..., Any]) -> Any:
    return Operator("softmax", function)


def norm(function: Callable[..., Any], shapes: str = "rows") -> Any:
    return Operator("norm layers", function, shapes=shapes)


def reduction(function: Callable[..., Any], values: str = "normal") -> Any:
    return Operator("reductions", function, values)


def loss(function: Callable[..., Any]) -> Any:
    return Operator("losses", function)


OPERATORS: dict[str, Operator] = {
    "add": elementwise(lambda x, y: x + y),
    "add:row": elementwise(lambda x, row_shift: x + row_shift),
    "add:number": elementwise(lambda x: x + 1.5),
    "sub": elementwise(lambda x, y: x - y),
    "mul": elementwise(lambda x, y: x * y),
    "mul:row": elementwise(lambda x, row_scale: x * row_scale),
    "mul:number": elementwise(lambda x: x * 1.5),
    "div": elementwise(lambda x, y: x / y, "positive"),
    "pow": elementwise(lambda lib, x, y: lib.pow(x, y), "positive"),
    "pow:2": elementwise(lambda x: x**2),
    "pow:3": elementwise(lambda x: x**3),
    "pow:2.5": elementwise(lambda x: x**2.5, "positive"),
    "neg": elementwise(lambda x: -x),
    "abs": elementwise(lambda lib, x: lib.abs(x)),
    "square": elementwise(lambda lib, x: lib.square(x)),
    "sqrt": elementwise(lambda lib, x: lib.sqrt(x), "positive"),
    "rsqrt": elementwise(lambda lib, x: lib.rsqrt(x), "positive"),
    "reciprocal": elementwise(lambda lib, x: lib.reciprocal(x), "positive"),
    "exp": elementwise(lambda lib, x: lib.exp(x)),
    "expm1": elementwise(lambda lib, x: lib.expm1(x)),
    "log": elementwise(lambda lib, x: lib.log(x), "positive"),
    "log1p": elementwise(lambda lib, x: lib.log1p(x), "positive"),
    "sin": elementwise(lambda lib, x: lib.sin(x)),
    "cos": elementwise(lambda lib, x: lib.cos(x)),
    "tanh": elementwise(lambda lib, x: lib.tanh(x)),
    "sigmoid": elementwise(lambda lib, x: lib.sigmoid(x)),
    "erf": elementwise(lambda lib, x: lib.erf(x)),
    "relu": elementwise(lambda lib, x: lib.relu(x)),
    "leaky_relu": elementwise(lambda F, x: F.leaky_relu(x, 0.1)),
    "elu": elementwise(lambda F, x: F.elu(x)),
    "selu": elementwise(lambda F, x: F.selu(x)),
    "celu": elementwise(lambda F, x: F.celu(x, 0.5)),
    "gelu": elementwise(lambda F, x: F.gelu(x)),
    "gelu:tanh": elementwise(lambda F, x: F.gelu(x, approximate="tanh")),
    "silu": elementwise(lambda F, x: F.silu(x)),
    "softplus": elementwise(lambda F, x: F.softplus(x)),
    "mish": elementwise(lambda F, x: F.mish(x)),
    "hardswish": elementwise(lambda F, x: F.hardswish(x)),
    "clamp": elementwise(lambda lib, x: lib.clamp(x, -0.5, 0.8)),
    "maximum": elementwise(lambda lib, x, y: lib.maximum(x, y)),
    "where": elementwise(lambda lib, mask, x, y: lib.where(mask, x, y)),
    "lerp": elementwise(lambda lib, x, y: lib.lerp(x, y, 0.3)),
    "addcmul": elementwise(lambda lib, x, y, z: lib.addcmul(x, y, z, value=0.5)),
    "dropout": elementwise(lambda F, x: F.dropout(x, 0.1, training=True), random=True),
    "softmax:rows": softmax(lambda lib, x: lib.softmax(x, dim=-1)),
    "softmax:columns": softmax(lambda lib, x: lib.softmax(x, dim=0)),
    "log_softmax:rows": softmax(lambda lib, x: lib.log_softmax(x, dim=-1)),
    "log_softmax:columns": softmax(lambda lib, x: lib.log_softmax(x, dim=0)),
    "logsumexp:rows": softmax(lambda lib, x: lib.logsumexp(x, dim=-1)),
    "logsumexp:columns": softmax(lambda lib, x: lib.logsumexp(x, dim=0)),
    "layer_norm": norm(
        lambda F, x, row_scale, row_shift: F.layer_norm(x, x.shape[-1:], row_scale, row_shift)
    ),
    "rms_norm": norm(lambda F, x, row_scale: F.rms_norm(x, x.shape[-1:], row_scale)),
    "batch_norm": norm(
        lambda F, x, mean, var, scale, shift: F.batch_norm(x, mean, var, scale, shift, True)
    ),
    "batch_norm:images": norm(
        lambda F, x, mean, var, scale, shift: F.batch_norm(x, mean, var, scale, shift, True),
        "images",
    ),
    "group_norm:images": norm(
        lambda F, x, scale, shift: F.group_norm(x, 4, scale, shift), "images"
    ),
    "sum:all": reduction(lambda lib, x: lib.sum(x)),
    "sum:rows": reduction(lambda lib, x: lib.sum(x, dim=-1)),
    "sum:columns": reduction(lambda lib, x: lib.sum(x, dim=0)),
    "mean:all": reduction(lambda lib, x: lib.mean(x)),
    "mean:rows": reduction(lambda lib, x: lib.mean(x, dim=-1)),
    "mean:columns": reduction(lambda lib, x: lib.mean(x, dim=0)),
    "amax:all": reduction(lambda lib, x: lib.amax(x)),
    "amax:rows": reduction(lambda lib, x: lib.amax(x, dim=-1)),
    "amax:columns": reduction(lambda lib, x: lib.amax(x, dim=0)),
    "var:all": reduction(lambda lib, x: lib.var(x)),
    "var:rows": reduction(lambda lib, x: lib.var(x, dim=-1)),
    "var:columns": reduction(lambda lib, x: lib.var(x, dim=0)),
    "std:all": reduction(lambda lib, x: lib.std(x)),
    "std:rows": reduction(lambda lib, x: lib.std(x, dim=-1)),
    "std:columns": reduction(lambda lib, x: lib.std(x, dim=0)),
    "prod:all": reduction(lambda lib, x: lib.prod(x), "near one"),
    "prod:rows": reduction(lambda lib, x: lib.prod(x, dim=-1), "near one"),
    "prod:columns": reduction(lambda lib, x: lib.prod(x, dim=0), "near one"),
    "norm:all": reduction(lambda lib, x: lib.norm(x)),
    "norm:rows": reduction(lambda lib, x: lib.norm(x, dim=-1)),
    "norm:columns": reduction(lambda lib, x: lib.norm(x, dim=0)),
    "cumsum:rows": reduction(lambda lib, x: lib.cumsum(x, dim=-1)),
    "cumsum:columns": reduction(lambda lib, x: lib.cumsum(x, dim=0)),
    "cross_entropy": loss(lambda F, x, labels: F.cross_entropy(x, labels)),
    "mse_loss": loss(lambda F, x, target: F.mse_loss(x, target)),
    "binary_cross_entropy_with_logits": loss(
        lambda F, x, target: F.binary_cross_entropy_with_logits(x, target)
    ),
    "smooth_l1_loss": loss(lambda F, x, target: F.smooth_l1_loss(x, target)),
}


# ------------------------------------------------------------------------------------------------------------- bodies


def bodies(case: Case, peers: tuple[str, ...]) -> dict[str, Body]:
    """What is timed, by peer, once all results of one call have been compared."""
    made = {peer: _bodies(peer, case) for peer in peers if peer in ("plugrad", "torch")}
    if not OPERATORS[case.operator].random:
        results = {peer: compared() for peer, (_, compared) in made.items()}
        for several in zip(*results.values(), strict=True):
            agree(dict(zip(results, several, strict=True)))
    return {peer: timed for peer, (timed, _) in made.items()}


def _bodies(peer: str, case: Case) -> tuple[Body, Callable[[], list[np.ndarray]]]:
    library: Any = import_module(peer)
    function = OPERATORS[case.operator].function
    inputs = _inputs(library, case, list(inspect.signature(function).parameters))
    arguments = list(inputs.values())
    leaves = [value for value in arguments if getattr(value, "requires_grad", False)]
    seed = _seed(library, function(*arguments))

    def timed() -> None:
        function(*arguments).backward(seed)
        for leaf in leaves:
            leaf.grad = None

    def compared() -> list[np.ndarray]:
        result = function(*arguments)
        result.backward(seed)
        found = [result.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]
        for leaf in leaves:
            leaf.grad = None
        return found

    return timed, compared


def _inputs(library: Any, case: Case, names: list[str]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shape, dtype = case.shape, np.dtype(case.dtype)
    values = OPERATORS[case.operator].values

    def laid_out(array: np.ndarray) -> Any:
        """A tensor of these values; the memory of a transposed one is that of the array with two axes swapped."""
        if case.layout == "contiguous":
            return library.tensor(array)
        swapped = np.ascontiguousarray(np.swapaxes(array, -1, -2))
        return library.transpose(library.tensor(swapped), -1, -2).detach()

    def constant(name: str) -> Any:
        width = shape[-1] if name.startswith("row_") else shape[1]
        if name in ("lib", "F"):
            return library if name == "lib" else import_module(f"{library.__name__}.nn.functional")
        if name == "labels":
            return library.tensor(rng.integers(0, shape[-1], shape[0]))
        if name == "mask":
            return laid_out(_tiled(lambda n: rng.random(n) < 0.5, shape))
        if name == "target":
            return laid_out(_tiled(rng.random, shape).astype(dtype))
        start = {"scale": 1.2, "shift": 0.1, "mean": 0.0, "var": 1.0}[name.removeprefix("row_")]
        return library.tensor(np.full(width, start, dtype))

    draws: dict[str, Callable[[int], np.ndarray]] = {
        "normal": rng.standard_normal,
        "positive": lambda n: rng.random(n) + 0.5,
        # Closer than that, float32 rounds products of numbers above and below 1 down more often than up.
        "near one": lambda n: 1 + 5e-3 * rng.standard_normal(n),
    }
    made = {}
    for name in names:
        if name in ("x", "y", "z"):
            made[name] = laid_out(_tiled(draws[values], shape).astype(dtype)).requires_grad_()
        else:
            made[name] = constant(name)
            if name.endswith(("scale", "shift")):
                made[name].requires_grad_()
    return made


def _tiled(draw: Callable[[int], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Random numbers; of more than a million the first ones again, since drawing them would take most of the time."""
    return np.resize(draw(min(int(np.prod(shape)), 1_000_003)), shape)


def _seed(library: Any, result: Any) -> Any:
    """Random numbers in the result's shape, type and layout."""
    array = np.empty_like(result.detach().numpy())  # in the same order of axes
    array[...] = _tiled(np.random.default_rng(1).standard_normal, array.shape)
    return library.tensor(array)
