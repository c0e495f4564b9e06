"""Gradients: ``backward`` and ``grad``, custom ``Function`` classes, gradient checks, and grad modes."""

from plugrad.autograd.function import Function, once_differentiable
from plugrad.autograd.gradients import backward, grad
from plugrad.contract.gradcheck import GradcheckError, gradcheck, gradgradcheck
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
