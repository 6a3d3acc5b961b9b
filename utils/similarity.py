"""Heads against heads: how alike are their maps, and which head of one model is which of another?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

MEASURES = ("jensen-shannon", "correlation")


def head_similarity(
    weights_a: Tensor | Sequence[Tensor], weights_b: Tensor | Sequence[Tensor], measure: str = "jensen-shannon"
) -> Tensor:
    """How alike the maps of two sets of heads are on the same texts: (heads of A, heads of B), in float64.

    weights: maps (…, queries, keys) of one text, or a list of them, a text each; what stands before the last two
    dimensions is flattened to heads (of (6, 12, n, n), head 1 of layer 2 is number 25). Both sets read the same texts.

    "jensen-shannon": 1 − the mean over rows of the Jensen–Shannon distance (root of the divergence, in bits): 1 for
    equal maps, 0 for rows that share no key. "correlation": Pearson's, over all weights after each row's mean over
    the keys is taken off; NaN for a head whose rows are all uniform.
    Null models: the same with ``permuted_maps(weights_b)``, and the maps of untrained models. All near-uniform maps
    are alike by the first measure, and so are causal maps in short texts: read it against the null, never alone.
    Raises TypeError or ValueError for maps that do not fit each other or whose rows do not sum to 1.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(map(repr, MEASURES))}, got {measure!r}")
    left, right = _texts(weights_a, "weights_a"), _texts(weights_b, "weights_b")
    sizes = [[tuple(each.shape[1:]) for each in side] for side in (left, right)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"both must hold maps of the same texts, got (queries, keys) {sizes[0][:3]} and {sizes[1][:3]}, …"
        )
    for side, name in ((left, "weights_a"), (right, "weights_b")):
        if len({len(each) for each in side}) > 1:
            raise ValueError(f"{name} must have the same heads for every text, got {[len(each) for each in side][:5]}")
    if measure == "jensen-shannon":
        rows = sum(each.shape[1] for each in left)
        return 1 - sum(_distances(a, b) for a, b in zip(left, right, strict=True)) / rows
    return _correlations(left, right)


def match_heads(similarity: Tensor) -> pd.DataFrame:
    """Pairs each head of A with another head of B so that the sum of similarities is greatest (Hungarian method).

    Columns: head_a, head_b, similarity; chance – the mean similarity of head_a to all heads of B, which is what a
    random pairing gives; best – the greatest similarity of head_a to any head of B. Of sets of unequal size the
    smaller one is matched. The greatest sum is above chance by choice alone: compare it with the matching of
    ``permuted_maps`` or of untrained models.
    """
    try:
        values = torch.as_tensor(similarity).double()
    except (TypeError, RuntimeError, ValueError):
        raise TypeError(
            f"similarity must be a matrix (heads of A, heads of B), got {type(similarity).__name__}"
        ) from None
    if values.ndim != 2 or 0 in values.shape or not torch.isfinite(values).all():
        raise ValueError(
            f"similarity must be a finite matrix (heads of A, heads of B), got the shape {tuple(values.shape)}"
            + ("" if torch.isfinite(values).all() else " with NaN or infinity: a uniform head has no correlation")
        )
    rows, columns = linear_sum_assignment(values.numpy(), maximize=True)
    found = {"head_a": rows, "head_b": columns, "similarity": values[rows, columns].numpy()}
    return pd.DataFrame(found | {"chance": values[rows].mean(1).numpy(), "best": values[rows].amax(1).numpy()})


def _texts(weights: Tensor | Sequence[Tensor], name: str) -> list[Tensor]:
    """Maps (heads, queries, keys) in float64, a text each."""
    texts = [weights] if isinstance(weights, Tensor) else list(weights)
    if not texts:
        raise ValueError(f"{name} is empty: give the maps of at least one text")
    found = []
    for text in texts:
        if not isinstance(text, Tensor):
            raise TypeError(f"{name} must be a tensor or a list of tensors, got {type(text).__name__} in it")
        if text.ndim < 2 or 0 in text.shape:
            raise ValueError(f"{name} must hold maps (…, queries, keys), got the shape {tuple(text.shape)}")
        maps = text.detach().double().reshape(-1, *text.shape[-2:])
        sums = maps.sum(-1)
        if not torch.isfinite(sums).all() or maps.min() < 0 or (sums - 1).abs().max() > 1e-3:
            raise ValueError(
                f"{name}: rows must be weights that sum to 1, got sums from {sums.min():.3g} to {sums.max():.3g}"
            )
        found.append(maps / sums[..., None])
    return found


def _distances(left: Tensor, right: Tensor) -> Tensor:
    """Sum over the rows of the Jensen–Shannon distance of each pair of heads."""
    own = torch.special.entr(right).sum(-1)  # (heads of B, queries)
    found = []
    for maps in left:
        mixed = torch.special.entr((maps + right) / 2).sum(-1)
        divergence = (mixed - (torch.special.entr(maps).sum(-1) + own) / 2) / math.log(2)
        found.append(divergence.clamp(0, 1).sqrt().sum(-1))
    return torch.stack(found)


def _correlations(left: list[Tensor], right: list[Tensor]) -> Tensor:
    a, b = (torch.cat([(x - x.mean(-1, keepdim=True)).flatten(1) for x in side], dim=1) for side in (left, right))
    norms = [x.norm(dim=1) for x in (a, b)]
    norms = [torch.where(x > 1e-12, x, torch.nan) for x in norms]
    return (a @ b.T) / norms[0][:, None] / norms[1]
