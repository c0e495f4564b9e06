"""The training kit's functions: `plugrad.nn.functional` has PyTorch's names over plugrad's operators."""

from plugrad.nn import functional

__all__ = ["functional"]
