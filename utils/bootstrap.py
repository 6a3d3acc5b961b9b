"""How much a number depends on the texts that happened to be judged: draw texts with replacement, again and again."""

from __future__ import annotations

import torch
from torch import Tensor


def ratio_interval(above: Tensor, below: Tensor, draws: int, seed: int) -> tuple[float, float, float]:
    """Sum above by sum below, and the middle 95 % of that ratio over drawn texts.

    above, below: (texts,), a number a text each. With ``below`` a count of values the ratio is their mean.
    """
    sums = torch.stack([above, below]).double()
    chosen = torch.randint(sums.shape[1], (draws, sums.shape[1]), generator=torch.Generator().manual_seed(seed))
    drawn = sums[:, chosen].sum(-1)
    low, high = (drawn[0] / drawn[1]).nanquantile(torch.tensor([0.025, 0.975], dtype=drawn.dtype)).tolist()
    whole = sums.sum(-1)
    return float(whole[0] / whole[1]), low, high
