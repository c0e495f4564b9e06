"""Gradients: ``backward`` and ``grad``, custom ``Function`` classes, gradient checks, and grad modes."""

from typing import Any

from plugrad.autograd.function import Function, once_differentiable
from plugrad.autograd.gradients import backward, grad
from plugrad.graph.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
]

_CHECKS = ("GradcheckError", "gradcheck", "gradgradcheck")


def __getattr__(name: str) -> Any:
    # The checks bring the whole contract along, which a program that only trains never needs.
    if name in _CHECKS:
        from plugrad.contract import gradcheck

        return getattr(gradcheck, name)
    raise AttributeError(f"module 'plugrad.autograd' has no attribute {name!r}")
