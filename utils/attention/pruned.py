"""Maps of a model some of whose heads were removed: in original numbers, the removed ones without values."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from utils.architectures import KEPT, attentions

Left = dict[tuple[str, int], tuple[tuple[int, ...], int]]


def heads_left(model: nn.Module) -> Left:
    """The original numbers of the heads left and how many there were, by kind and layer; {} for a whole model."""
    if not any(hasattr(module, KEPT) for module in model.modules()):
        return {}
    return {(each.kind, each.layer): (each.heads, each.all_heads) for each in attentions(model)}


def in_original_numbers(weights: Tensor, heads: tuple[int, ...], of: int) -> Tensor:
    """Weights (batch, heads left, queries, keys) as (batch, all heads, queries, keys), NaN for those removed."""
    whole = weights.new_full((weights.shape[0], of, *weights.shape[2:]), torch.nan)
    whole[:, list(heads)] = weights[:, : len(heads)]  # without heads, one of zeros stands in, which is left out
    return whole
