"""Gradients: ``backward`` and ``grad``, custom ``Function`` classes, gradient checks, and grad modes."""

import importlib
from typing import Any

from plugrad.autograd.function import Function, once_differentiable
from plugrad.autograd.gradients import backward, grad
from plugrad.graph.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]

# Imported when first asked for; the checks bring the whole contract along, which a program that only
# trains never needs.
_LAZY = {
    "GradcheckError": "plugrad.contract.gradcheck",
    "gradcheck": "plugrad.contract.gradcheck",
    "gradgradcheck": "plugrad.contract.gradcheck",
    "detect_anomaly": "plugrad.autograd.anomaly",
    "is_anomaly_check_nan_enabled": "plugrad.autograd.anomaly",
    "is_anomaly_enabled": "plugrad.autograd.anomaly",
    "set_detect_anomaly": "plugrad.autograd.anomaly",
}
_LAZY_MODULES = ("anomaly", "forward_ad", "functional", "graph")


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return importlib.import_module(f"plugrad.autograd.{name}")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'plugrad.autograd' has no attribute {name!r}")
