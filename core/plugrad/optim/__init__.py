"""Optimizers under PyTorch's names, with its arguments, defaults and state."""

from plugrad.optim import lr_scheduler
from plugrad.optim.adam import Adam, AdamW
from plugrad.optim.optimizer import Optimizer
from plugrad.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
