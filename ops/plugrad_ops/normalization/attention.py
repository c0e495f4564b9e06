"""Scaled dot product attention."""

from __future__ import annotations

import math

import numpy as np

from plugrad import Tensor, composite, ops

NAME = "scaled_dot_product_attention"


def _check(query, key, value, enable_gqa):
    shapes = f"got query {query.shape}, key {key.shape}, value {value.shape}"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(f"{NAME}: query, key and value need 2 dimensions at least, {shapes}")
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"{NAME}: query, key and value must have one dtype, got {query.dtype}, {key.dtype} and {value.dtype}"
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            f"{NAME}: expected query (..., L, E), key (..., S, E) and value (..., S, Ev), {shapes}"
        )
    if enable_gqa:
        heads = [t.shape[-3] if t.ndim > 2 else 0 for t in (query, key, value)]
        if not all(heads) or heads[0] % heads[1] or heads[0] % heads[2]:
            raise RuntimeError(
                f"{NAME}: with enable_gqa the heads (dimension -3) of key and value must divide those of query, {shapes}"
            )


def _repeated(heads, x):
    """Each head as often as it takes to have as many as the query."""
    times = heads // x.shape[-3]
    if times == 1:
        return x
    leading, last = x.shape[:-2], x.shape[-2:]
    copies = ops.expand(ops.unsqueeze(x, dim=-3), size=(*leading, times, *last))
    return ops.reshape(copies, (*leading[:-1], heads, *last))


def _masked(scores, mask):
    """Scores under a mask, and which rows of it let nothing through; those are left as they are."""
    if mask.dtype == np.bool_:
        closed = ops.logical_not(ops.any(mask, dim=-1, keepdim=True))
        return ops.where(ops.logical_or(mask, closed), scores, -math.inf), closed
    if mask.dtype != scores.dtype:
        raise RuntimeError(
            f"{NAME}: attn_mask must be of dtype bool or that of query, {scores.dtype}, got {mask.dtype}"
        )
    closed = ops.amax(mask.detach(), dim=-1, keepdim=True) == -math.inf
    return scores + ops.where(closed, 0.0, mask), closed


def _not_after(length, width, device):
    """Whether position j of `width` is not after position i of `length`."""
    rows, columns = (Tensor(np.arange(n)).to(device) for n in (length, width))
    return ops.unsqueeze(rows, dim=1) >= columns


@composite("standard::scaled_dot_product_attention")
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """``softmax(query @ key.T * scale + mask) @ value`` (Vaswani et al., arXiv:1706.03762).

    Parameters
    ----------
    query : (..., L, E)
    key : (..., S, E)
    value : (..., S, Ev)
    attn_mask : tensor, optional
        Broadcasts to (..., L, S): bools, True where attention is paid, or what is added to the scores. A row that lets
        nothing through gives 0.
    dropout_p : float, default 0.0
        Probability with which each weight is dropped, whether anything is being trained or not.
    is_causal : bool, default False
        Whether position i attends to positions 0 to i only.
    scale : float, optional
        ``1 / sqrt(E)`` unless given.
    enable_gqa : bool, default False
        Whether several heads of `query` share one of `key` and `value`.

    Returns
    -------
    Tensor
        Of shape (..., L, Ev).

    Raises
    ------
    RuntimeError
        Shapes or dtypes do not fit together, or both a mask and ``is_causal=True`` are given.
    ValueError
        `dropout_p` is no probability.
    """
    _check(query, key, value, enable_gqa)
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"{NAME}: dropout_p must be from 0 to 1, got {dropout_p}")
    if is_causal and attn_mask is not None:
        raise RuntimeError(f"{NAME}: attn_mask must not be given with is_causal=True")
    if enable_gqa:
        key, value = _repeated(query.shape[-3], key), _repeated(query.shape[-3], value)
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    scores = ops.matmul(query * float(scale), ops.transpose(key, dim0=-2, dim1=-1))
    length, width = scores.shape[-2:]
    closed = None
    if is_causal:
        scores = ops.where(_not_after(length, width, query.device), scores, -math.inf)
    elif attn_mask is not None and width:
        scores, closed = _masked(scores, attn_mask)
    weights = ops.softmax(scores, dim=-1)
    if dropout_p:
        weights = ops.dropout(weights, p=dropout_p)
    out = ops.matmul(weights, value)
    return out if closed is None else ops.where(closed, 0.0, out)


@scaled_dot_product_attention.samples
def _(make):
    yield make.call(make.normal(2, 3, 4), make.normal(2, 5, 4), make.normal(2, 5, 2))
    yield make.call(make.normal(3, 2), make.normal(3, 2), make.normal(3, 2), is_causal=True)
    mask = np.array([[True, False, True], [False, False, False]])
    yield make.call(make.normal(2, 2, 2), make.normal(2, 3, 2), make.normal(2, 3, 2), mask)
    yield make.call(
        make.normal(2, 2), make.normal(3, 2), make.normal(3, 1), make.normal(2, 3), scale=0.3
    )
    yield make.call(
        make.normal(4, 2, 2), make.normal(2, 3, 2), make.normal(2, 3, 2), enable_gqa=True
    )
    yield make.call(make.normal(0, 2, 2), make.normal(0, 3, 2), make.normal(0, 3, 2))
    yield make.error(
        RuntimeError, "expected query", make.normal(2, 2), make.normal(3, 3), make.normal(3, 2)
    )
    yield make.error(
        RuntimeError, "is_causal", *(make.normal(2, 2) for _ in range(4)), is_causal=True
    )
