"""The door to all measures: what a map of attention does, and, from the modules beside this one, the rest.

This file: numbers about maps whose rows are queries (who reads) and columns keys (who is read).
``utils.asymmetry``: what W_Q and W_K allow. ``utils.spectra``: how many dimensions a matrix needs, and the distance of
states to identical rows. ``utils.roles``: positional, rare-word, syntactic and sink heads. ``utils.dependencies``:
heads against parses. ``utils.similarity``: heads against heads. ``utils.nulls``: null models.
Every function names its null model: the value that a head without structure would give.
"""

from __future__ import annotations

import torch
from torch import Tensor

from utils.asymmetry import (
    QueryKey,
    double_centered,
    query_key_products,
    query_key_weights,
    relative_asymmetry,
    square,
    symmetry_score,
)
from utils.dependencies import Arc, Parse, dependency_scores
from utils.nulls import null_maps, null_states, permuted_maps
from utils.roles import head_roles, positional_heads, roles, token_counts
from utils.similarity import head_similarity, match_heads
from utils.spectra import (
    Spectrum,
    cumulative_spectrum,
    effective_rank,
    needed_rank,
    numerical_rank,
    rank_residual,
    spectrum,
    stable_rank,
)

__all__ = [
    "Arc",
    "Parse",
    "QueryKey",
    "Spectrum",
    "argmax_offset_share",
    "attention_distance",
    "confidence",
    "cumulative_spectrum",
    "dependency_scores",
    "double_centered",
    "effective_rank",
    "entropy",
    "head_roles",
    "head_similarity",
    "match_heads",
    "needed_rank",
    "normalized_entropy",
    "null_maps",
    "null_states",
    "numerical_rank",
    "offset_profile",
    "permuted_maps",
    "positional_heads",
    "query_key_products",
    "query_key_weights",
    "rank_residual",
    "relative_asymmetry",
    "roles",
    "sink_share",
    "spectrum",
    "stable_rank",
    "symmetry_score",
    "token_counts",
]


def entropy(weights: Tensor) -> Tensor:
    """−Σ p ln p of each row, in nats: (..., queries, keys) → (..., queries). Null model: uniform gives ln(keys)."""
    return torch.special.entr(weights).sum(-1)


def normalized_entropy(weights: Tensor, *, causal: bool = False) -> Tensor:
    """Entropy of each row over its highest value, ln(readable keys): (..., queries, keys) → (..., queries), in [0, 1].

    causal: query i reads keys 0 to i only. A row with one readable key has no choice: NaN. Null model: uniform gives 1.
    """
    queries, keys = weights.shape[-2:]
    readable = torch.full((queries,), float(keys), device=weights.device)
    if causal:
        readable = (torch.arange(queries, device=weights.device) + 1.0).clamp(max=keys)
    return torch.where(readable > 1, entropy(weights) / readable.log(), torch.nan)


def attention_distance(weights: Tensor) -> Tensor:
    """Mean distance |query − key| in tokens, weighted by each row: (..., n, n) → (..., n).

    Null model: uniform weights over n tokens give (n² − 1) / 3n on average, about a third of the text.
    """
    position = torch.arange(square(weights).shape[-1], device=weights.device)
    return (weights * (position - position[:, None]).abs()).sum(-1)


def offset_profile(weights: Tensor, offsets: tuple[int, ...] = (-3, -2, -1, 0, 1, 2, 3)) -> Tensor:
    """Share of all weight on keys at a fixed offset from the query: (..., n, n) → (..., offsets).

    Offset −1 is the token before. A query without a key at an offset counts as 0, so the shares over all offsets sum
    to 1. Null model: uniform weights give (n − |offset|) / n².
    """
    n = square(weights).shape[-1]
    zero = weights.new_zeros(weights.shape[:-2])
    shares = [weights.diagonal(o, -2, -1).sum(-1) / n if abs(o) < n else zero for o in offsets]
    return torch.stack(shares, dim=-1)


def sink_share(weights: Tensor, special: Tensor) -> Tensor:
    """Mean share of weight on special keys, read by ordinary queries: (..., n, n) and mask (n,) → (...).

    A sink is where weight goes that has nowhere to go; it says nothing about the importance of the token.
    Null model: uniform weights give the share of special tokens. Source: Clark et al. 2019 (arXiv 1906.04341), §3.2.
    """
    special = torch.as_tensor(special, dtype=torch.bool, device=weights.device)
    if special.shape != square(weights).shape[-1:]:
        raise ValueError(f"special must be a mask of {weights.shape[-1]} tokens, got the shape {tuple(special.shape)}")
    if special.all():
        raise ValueError("all tokens are special: no ordinary query is left to average over")
    return weights[..., ~special, :][..., special].sum(-1).mean(-1)


def confidence(weights: Tensor, special_keys: Tensor | None = None, special_queries: Tensor | None = None) -> Tensor:
    """Mean over the rows of the greatest weight: (..., queries, keys) → (...), in [0, 1].

    special_keys, special_queries: masks of tokens that are none of the text ([CLS], end of sentence), as
    ``AttentionMaps`` has them. Such keys do not compete and such queries are left out, but the weights are taken as
    they are: a head whose weight lies on special tokens has no confidence.
    Null model: uniform weights give 1 / keys; softmax of random scores gives more, see ``null_maps``.
    Source: Voita et al. 2019 (arXiv 1905.09418), section 4, who leave out the end of the sentence.
    Raises ValueError for a mask of another length, or one that leaves no token.
    """
    for size, mask, name in ((-1, special_keys, "keys"), (-2, special_queries, "queries")):
        if mask is None:
            continue
        mask = torch.as_tensor(mask, dtype=torch.bool, device=weights.device)
        if mask.shape != weights.shape[size:][:1]:
            raise ValueError(
                f"special_{name} must be a mask of {weights.shape[size]} {name}, got the shape {tuple(mask.shape)}"
            )
        if mask.all():
            raise ValueError(f"all {name} are special: no ordinary one is left")
        weights = weights[..., ~mask] if name == "keys" else weights[..., ~mask, :]
    return weights.amax(-1).mean(-1)


def argmax_offset_share(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The most frequent offset of a row's greatest weight, and its share of the rows: (..., n, n) → (...), (...).

    Null model: uniform or random weights give a share near 1/n. Source: the positional criterion of Voita et al. 2019
    (arXiv 1905.09418), section 5.1, who ask for 0.9.
    """
    n = square(weights).shape[-1]
    offsets = weights.argmax(-1) - torch.arange(n, device=weights.device)
    counts = torch.stack([(offsets == each).sum(-1) for each in range(1 - n, n)], dim=-1)
    highest = counts.max(-1)
    return highest.indices - (n - 1), highest.values / n
