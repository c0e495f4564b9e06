"""Attention."""

from __future__ import annotations

from plugrad.graph.tensor import Tensor
from plugrad.registry import ops

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value``; a row of the mask that lets nothing through gives 0.

    See `plugrad.ops.scaled_dot_product_attention`.
    """
    return ops.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )
