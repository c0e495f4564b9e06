"""Tools around training: activation checkpointing."""

from plugrad.utils import checkpoint

__all__ = ["checkpoint"]
