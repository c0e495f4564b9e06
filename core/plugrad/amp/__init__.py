"""Mixed precision: scaling of losses, so that small gradients survive in float16."""

from plugrad.amp.grad_scaler import GradScaler

__all__ = ["GradScaler"]
