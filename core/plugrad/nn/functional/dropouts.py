"""Functions that are random while training: dropout, randomized leaky units, samples of categories.

They draw from the default generator (`plugrad.manual_seed`).
"""

from __future__ import annotations

import numpy as np

from plugrad.backends.creation import empty_like
from plugrad.graph.tensor import Tensor
from plugrad.nn.functional.arguments import in_place_if
from plugrad.registry import ops

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "gumbel_softmax",
    "rrelu",
]


def _checked(name: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: the dropout probability p must be from 0 to 1, got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element is 0 with probability `p`, else multiplied by ``1 / (1 - p)``; `input` itself unless training."""
    _checked("dropout", p)
    return in_place_if(inplace, ops.dropout)(input, p=p) if training else input


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance of what `selu` gives (Klambauer and others, arXiv:1706.02515)."""
    _checked("alpha_dropout", p)
    if not training or p == 0:
        return input
    return in_place_if(inplace, ops.alpha_dropout)(input, p=p)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels: input (N, C, …)."""
    _checked("feature_alpha_dropout", p)
    if not training or p == 0:
        return input
    return in_place_if(inplace, ops.feature_alpha_dropout)(input, p=p)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels: input (N, C, L) or (C, L)."""
    return _channels("dropout1d", input, p, training, inplace, (2, 3), unbatched=2)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels: input (N, C, H, W); one of three dimensions is (N, C, L), as in PyTorch."""
    return _channels("dropout2d", input, p, training, inplace, (2, 3, 4))


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels: input (N, C, D, H, W) or (C, D, H, W)."""
    return _channels("dropout3d", input, p, training, inplace, (4, 5), unbatched=4)


def _channels(
    name: str,
    input: Tensor,
    p: float,
    training: bool,
    inplace: bool,
    dims: tuple[int, ...],
    unbatched: int = 0,
) -> Tensor:
    _checked(name, p)
    if input.ndim not in dims:
        raise RuntimeError(
            f"{name}: takes {' or '.join(map(str, dims))} dimensions, got an input of shape {tuple(input.shape)}"
        )
    if not training:
        return input
    drop = in_place_if(inplace, ops.feature_dropout)
    if input.ndim != unbatched:
        return drop(input, p=p)
    out = drop(input.unsqueeze(0), p=p)
    return input if inplace else out.squeeze(0)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """`input` where it is positive, elsewhere times a random slope; the mean slope unless training."""
    return in_place_if(inplace, ops.rrelu)(input, lower=lower, upper=upper, training=training)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of categories that can be differentiated (Jang, Gu and Poole, arXiv:1611.01144).

    Parameters
    ----------
    logits : Tensor
        Unnormalised log probabilities along `dim`.
    tau : float
        Temperature; the lower, the closer to one-hot.
    hard : bool
        Whether the values are one-hot; the gradient is that of the soft sample all the same.
    eps : float
        Accepted for PyTorch's sake, and without effect there too.
    """
    # In float16 a waiting time may round to 0, and its logarithm would be infinite.
    precise = np.float32 if logits.dtype == np.float16 else logits.dtype
    waits = ops.exponential_(empty_like(logits, dtype=precise))
    soft = ops.softmax((logits - ops.log(waits).to(logits.dtype)) / tau, dim=dim)
    if not hard:
        return soft
    classes = soft.shape[dim]
    best = ops.argmax(soft.detach(), dim=dim)
    one_hot = ops.one_hot(best, num_classes=classes).to(soft.dtype)
    return one_hot.movedim(-1, dim) - soft.detach() + soft
