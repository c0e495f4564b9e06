"""The training kit's functions: `functional` has PyTorch's names over plugrad's operators, `utils` clips gradients."""

from plugrad.nn import functional, utils

__all__ = ["functional", "utils"]
