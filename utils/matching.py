"""Do the heads of one training come back in another? Matched on some texts, judged on others.

Heads of a layer can be renumbered without changing the model. So between two trainings from different seeds the
number of a head within its layer means nothing, by symmetry: heads must be matched before they are compared.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from utils.attention import attention_maps
from utils.measures import normalized_entropy
from utils.nulls import permuted_maps
from utils.similarity import head_similarity, match_heads


def maps_of(model: nn.Module, tokenizer, pairs: list[tuple[str, str]], kind: str = "encoder") -> list[Tensor]:
    """Maps of one kind of attention for each (source, target): a list of (layers, heads, queries, keys)."""
    return [attention_maps(model, tokenizer, source, target)[kind].weights for source, target in pairs]


def recurrence(one: list[Tensor], other: list[Tensor], measure: str = "correlation", seed: int = 0) -> dict[str, float]:
    """Mean similarity of the heads of two models, paired in several ways. Maps as ``maps_of`` returns them.

    matched: by ``match_heads`` on every other text, judged on the rest, so that choosing does not flatter;
    same index: layer and number are equal; same layer: mean over all pairs within layers; any: over all pairs;
    matched, permuted: against maps of ``other`` whose rows forgot their keys, matched and judged in the same way;
    in the same layer: share of matched pairs in one layer; with the same index: share with the same number too.
    Raises ValueError for fewer than two texts or models of different sizes.
    """
    if len(one) < 2 or one[0].shape[:2] != other[0].shape[:2]:
        raise ValueError(
            "maps of two or more texts from models with the same layers and heads are needed, got "
            f"{len(one)} texts of {tuple(one[0].shape[:2]) if one else ()} and {tuple(other[0].shape[:2])}"
        )
    same_layer = _same_layer(one)
    a, b, judged = matched(one, other, measure)
    shuffled = [permuted_maps(maps, seed=seed + i) for i, maps in enumerate(other)]
    c, d, null = matched(one, shuffled, measure)
    return {
        "matched": float(judged[a, b].mean()),
        "same index": float(judged.diagonal().mean()),
        "same layer": float(judged[same_layer].mean()),
        "any": float(judged.mean()),
        "matched, permuted": float(null[c, d].mean()),
        "in the same layer": float(same_layer[a, b].double().mean()),
        "with the same index": float((a == b).double().mean()),
    }


def matched(one: list[Tensor], other: list[Tensor], measure: str = "correlation") -> tuple[Tensor, Tensor, Tensor]:
    """Heads a of one and b of other, matched on even texts; and the similarity of all heads on odd texts."""
    chosen, judged = (head_similarity(one[i::2], other[i::2], measure) for i in (0, 1))
    pairs = match_heads(chosen)
    return torch.tensor(pairs["head_a"].to_list()), torch.tensor(pairs["head_b"].to_list()), judged


def similarities(one: list[Tensor], other: list[Tensor], measure: str = "correlation") -> dict[str, list[float]]:
    """Every value behind three means of ``recurrence``: "matched", "same index" and "same layer"."""
    a, b, judged = matched(one, other, measure)
    parts = {"matched": judged[a, b], "same index": judged.diagonal(), "same layer": judged[_same_layer(one)]}
    return {name: values.tolist() for name, values in parts.items()}


def _same_layer(maps: list[Tensor]) -> Tensor:
    """Whether two heads, numbered through all layers, lie in one layer: (heads, heads), boolean."""
    layer = torch.arange(maps[0].shape[0]).repeat_interleave(maps[0].shape[1])
    return layer[:, None] == layer


def entropy_share(maps: Tensor) -> float:
    """Entropy of a row as a share of its ceiling, log of the keys, mean over rows and heads: (..., queries, keys)."""
    if maps.shape[-1] < 2:
        raise ValueError(f"rows of two keys or more are needed, got the shape {tuple(maps.shape)}")
    return float(normalized_entropy(maps.double()).mean())


def within_groups(values: np.ndarray, groups: np.ndarray, draws: int = 500, seed: int = 0) -> dict[str, float]:
    """Mean of a matrix over pairs of one group: as it is, and with the groups dealt to the items at random.

    values: (items, items), symmetric. groups: (items,). Returns "same group", "dealt anew" and "spread" (mean and
    standard deviation over ``draws`` deals, the null model).
    """
    apart = ~np.eye(len(groups), dtype=bool)
    if values.shape != apart.shape or not ((groups[:, None] == groups) & apart).any():
        raise ValueError(f"values {values.shape} must be square, with two items or more in a group of {len(groups)}")
    random = np.random.default_rng(seed)

    def mean(groups: np.ndarray) -> float:
        return float(values[(groups[:, None] == groups) & apart].mean())

    null = [mean(random.permutation(groups)) for _ in range(draws)]
    return {"same group": mean(groups), "dealt anew": float(np.mean(null)), "spread": float(np.std(null))}
