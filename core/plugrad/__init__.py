"""plugrad: automatic differentiation where every operator is a plugin that has proved its gradient.

>>> import plugrad
>>> x = plugrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4., 6.])

Operators of the standard plugin are attributes of this module (``plugrad.exp``); all operators, by
namespace, of ``plugrad.ops``.
"""

import importlib
from collections.abc import Iterable
from typing import Any

import numpy as _np

from plugrad import autograd, registry
from plugrad.backends import dtypes as _dtypes
from plugrad.backends import tensor_methods as _tensor_methods  # installs them
from plugrad.backends.creation import (
    as_tensor,
    asarray,
    empty,
    empty_like,
    from_dlpack,
    from_numpy,
    frombuffer,
    full,
    full_like,
    ones,
    ones_like,
    scalar_tensor,
    tensor,
    zeros,
    zeros_like,
)
from plugrad.backends.memory import (
    empty_cache,
    memory_stats,
    reset_peak_memory_stats,
    set_memory_limit,
)
from plugrad.backends.parallel import get_num_threads, set_num_threads
from plugrad.backends.sequences import arange, eye, linspace, logspace, tril_indices, triu_indices
from plugrad.functions import broadcast_shapes, is_complex, is_floating_point, numel, where
from plugrad.graph.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from plugrad.graph.stats import GraphStats, graph_stats
from plugrad.graph.tensor import Tensor
from plugrad.registry import (
    composite,
    elementwise,
    hookimpl,
    on_tensors,
    operator,
    ops,
    register,
    via_host,
)

__version__ = "0.1.0"

float16 = half = _np.dtype("float16")
float32 = float = _np.dtype("float32")
float64 = double = _np.dtype("float64")
complex64 = _np.dtype("complex64")
complex128 = _np.dtype("complex128")
int8 = _np.dtype("int8")
int16 = short = _np.dtype("int16")
int32 = int = _np.dtype("int32")
int64 = long = _np.dtype("int64")
uint8 = _np.dtype("uint8")
bool = _np.dtype("bool")


def is_tensor(value: Any) -> Any:
    """Whether `value` is a Tensor."""
    return isinstance(value, Tensor)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'plugrad' has no attribute {name!r}")
    if name in _LAZY_MODULES:
        return importlib.import_module(f"plugrad.{name}")
    if name == "bfloat16":
        globals()[name] = _dtypes.bfloat16()
        return globals()[name]
    if name in _LAZY_NAMES:
        globals()[name] = getattr(importlib.import_module(_LAZY_NAMES[name]), name)
        return globals()[name]
    found = registry.standard(name)
    if found is None:
        raise AttributeError(
            f"plugrad has no attribute and no standard operator named {name!r}{_hint(name)}"
        )
    _resolved.add(name)
    globals()[name] = found
    return found


def _hint(name: str) -> str:
    """What to write in place of a name that is not there."""
    from plugrad.registry.elsewhere import MODULE, instead

    if name.endswith("_") and registry.standard(name[:-1]) is not None:
        return f": what writes in place is a method, x.{name}(...)"
    return instead(name, MODULE, [*dir(registry.ops), *__all__, *_LAZY_MODULES, *_LAZY_NAMES])


def _forget(names: Iterable[str]) -> None:
    """Operators were replaced: ask the registry again."""
    for name in names:
        short = name.removeprefix("standard::")
        if short in _resolved:
            globals().pop(short, None)


_LAZY_MODULES = (
    "amp",
    "cli",
    "contract",
    "cuda",
    "func",
    "interop",
    "linalg",
    "nn",
    "optim",
    "random",
    "special",
    "utils",
)
_LAZY_NAMES = dict.fromkeys(
    (
        "Generator",
        "get_rng_state",
        "initial_seed",
        "manual_seed",
        "normal",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "randperm",
        "seed",
        "set_rng_state",
    ),
    "plugrad.random",
)
_resolved: set[str] = set()
registry.listen(_forget)

__all__ = [
    "GraphStats",
    "Tensor",
    "arange",
    "as_tensor",
    "asarray",
    "autograd",
    "broadcast_shapes",
    "composite",
    "contract",
    "cuda",
    "elementwise",
    "empty",
    "empty_cache",
    "empty_like",
    "enable_grad",
    "eye",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "func",
    "get_num_threads",
    "graph_stats",
    "hookimpl",
    "inference_mode",
    "interop",
    "is_complex",
    "is_floating_point",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_tensor",
    "linalg",
    "linspace",
    "logspace",
    "memory_stats",
    "no_grad",
    "numel",
    "on_tensors",
    "ones",
    "ones_like",
    "operator",
    "ops",
    "register",
    "registry",
    "reset_peak_memory_stats",
    "scalar_tensor",
    "set_grad_enabled",
    "set_memory_limit",
    "set_num_threads",
    "special",
    "tensor",
    "tril_indices",
    "triu_indices",
    "utils",
    "via_host",
    "where",
    "zeros",
    "zeros_like",
]
