"""Multi-head attention from scratch: the code that the chapters derive.

Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2. Equal to ``torch.nn.MultiheadAttention`` (a test compares
them), with two additions: an additive score bias, and a defined result for a query that may read nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


def additive_mask(mask: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """One additive term for the scores: ``bias`` where ``mask`` is True, -inf where it is False."""
    if mask is None:
        return bias
    base = torch.zeros((), dtype=dtype, device=mask.device) if bias is None else bias
    return torch.where(mask, base, -math.inf)


def scaled_dot_product_attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Outputs and weights of softmax(Q Kᵀ / √d_head + bias) V.

    queries: (..., n_queries, d_head); keys and values: (..., n_keys, d_head); mask: boolean, True where a query may
    read a key; bias: added to the scores. Both broadcast to (..., n_queries, n_keys).
    Returns outputs (..., n_queries, d_head) and weights (..., n_queries, n_keys). A row of weights sums to 1; a query
    that may read nothing gets a row of zeros and the output 0, never NaN.
    """
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
    addend = additive_mask(mask, bias, scores.dtype)
    if addend is not None:
        scores = scores + addend
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return weights @ values, weights


class MultiHeadAttention(nn.Module):
    """``heads`` attentions side by side, each on its own slice of ``width``, summed by one output projection.

    Self-attention: ``attention(x)``. Cross-attention: ``attention(x, memory)``.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} does not divide into {heads} heads: choose a multiple of {heads}")
        self.width, self.heads, self.d_head = width, heads, width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def split(self, projected: Tensor) -> Tensor:
        """(batch, tokens, width) → (batch, heads, tokens, d_head)"""
        return projected.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def merge(self, per_head: Tensor) -> Tensor:
        """(batch, heads, tokens, d_head) → (batch, tokens, heads · d_head)"""
        return per_head.transpose(1, 2).flatten(-2)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        need_weights: bool = False,
        cache: dict[str, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from ``x`` (batch, n_queries, width) to ``memory`` (batch, n_keys, width; ``x`` itself by default).

        mask: boolean, True where reading is allowed; bias: added to the scores; both broadcast to
        (batch, heads, n_queries, n_keys). With ``need_weights`` the plain formula is used and the weights
        (batch, heads, n_queries, n_keys) come back; without, torch's fused kernel and None. The output is the same.
        cache: keys and values of earlier steps, updated in place; a cross-attention fills it once.
        """
        queries = self.split(self.query(x))
        keys, values = self.keys_and_values(x, memory, cache)
        if need_weights:
            per_head, weights = scaled_dot_product_attention(queries, keys, values, mask, bias)
        else:
            per_head, weights = self.fused(queries, keys, values, mask, bias), None
        return self.output(self.merge(per_head)), weights

    def keys_and_values(
        self, x: Tensor, memory: Tensor | None, cache: dict[str, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Keys and values (batch, heads, n_keys, d_head), from the cache where it has them."""
        if memory is not None and cache:
            return cache["keys"], cache["values"]
        source = x if memory is None else memory
        keys, values = self.split(self.key(source)), self.split(self.value(source))
        if cache:
            keys = torch.cat([cache["keys"], keys], dim=-2)
            values = torch.cat([cache["values"], values], dim=-2)
        if cache is not None:
            cache.update(keys=keys, values=values)
        return keys, values

    @staticmethod
    def fused(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        """The same outputs by torch's fused kernel, which never builds the weights for the caller."""
        addend = additive_mask(mask, bias, queries.dtype)
        outputs = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=addend)
        if mask is not None:
            outputs = outputs.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
        return outputs
