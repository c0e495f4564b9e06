"""Linear maps, classes as vectors, and normalisation of vectors."""

from __future__ import annotations

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = [
    "bilinear",
    "linear",
    "normalize",
    "one_hot",
]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``: input (*, in), weight (out, in), bias (out); or weight (in), bias ()."""
    if weight.ndim == 1:
        return _of_one_feature(input, weight, bias)
    return ops.linear(input, weight, bias)


def _of_one_feature(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`linear` of a vector of weights, whose result lacks the last dimension."""
    fits = input.ndim and input.shape[-1] == weight.shape[0]
    if not fits or (bias is not None and bias.ndim):
        raise RuntimeError(
            f"linear: a weight of shape {weight.shape} takes input (..., {weight.shape[0]}) and a bias of shape (), got "
            f"{input.shape} and {None if bias is None else bias.shape}"
        )
    out = ops.matmul(input, weight)
    return out if bias is None else out + bias


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``y[k] = input1 @ weight[k] @ input2 + bias[k]``.

    Parameters
    ----------
    input1 : (..., in1)
    input2 : (..., in2)
        With the same leading dimensions.
    weight : (out, in1, in2)
    bias : (out), optional

    Raises
    ------
    RuntimeError
        Shapes do not fit together.
    """
    out, *sizes = weight.shape if weight.ndim == 3 else (0,)
    if [*input1.shape[-1:], *input2.shape[-1:]] != sizes or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            "bilinear: expected input1 (..., in1), input2 (..., in2) and weight (out, in1, in2), got "
            f"{input1.shape}, {input2.shape} and {weight.shape}"
        )
    if bias is not None and bias.shape != (out,):
        raise RuntimeError(f"bilinear: bias must have shape {(out,)}, got {bias.shape}")
    in1, in2 = sizes
    # All matrices side by side: one product for the first input, and one vector product each for the second.
    flat = ops.reshape(ops.transpose(weight, dim0=0, dim1=1), (in1, out * in2))
    half = ops.reshape(ops.matmul(input1, flat), (*input1.shape[:-1], out, in2))
    result = ops.squeeze(ops.matmul(half, ops.unsqueeze(input2, dim=-1)), dim=-1)
    return result if bias is None else result + bias


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A last dimension that is 1 at the class and 0 elsewhere; -1 takes the greatest class plus one.

    Raises
    ------
    RuntimeError
        `num_classes` is -1 and there is no class to take it from.
    """
    if num_classes == -1:
        if not tensor.numel():
            raise RuntimeError("one_hot: an empty tensor needs num_classes, got -1")
        num_classes = int(ops.amax(tensor).item()) + 1
    return ops.one_hot(tensor, num_classes=num_classes)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """`input` divided by its norm over `dim`, or by `eps` where that is greater; 0, with gradient 0, for a zero vector."""
    return ops.normalize(input, p=p, dim=dim, eps=eps)
