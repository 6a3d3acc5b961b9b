"""What a translator loses when encoder heads are taken out without training, in an order and in random orders."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from utils.encoder_decoder import pair_batches, token_losses
from utils.heads import Head, ablated


@torch.no_grad()
def losses_without(
    model: nn.Module, tokenizer, pairs: list[tuple[str, str]], order: Sequence[Head], out: int, draws: int = 3
) -> dict[str, float]:
    """Nats a target token: "all heads", "in this order" (the first ``out`` taken away), "at random" (mean of draws).

    "random, least" and "random, greatest" are the ends of the draws. pairs: (source, target). order: heads, the ones to
    go first in front. Raises ValueError if ``out`` is not from 1 to the number of heads in the order.
    """
    if not 1 <= out <= len(order):
        raise ValueError(f"out must be from 1 to {len(order)}, the heads in the order, got {out}")
    batches = pair_batches(tokenizer, pairs)

    def loss(heads: Sequence[Head]) -> float:
        with ablated(model, heads):
            return token_losses(model, batches).mean

    chosen = [torch.randperm(len(order), generator=torch.Generator().manual_seed(seed))[:out] for seed in range(draws)]
    random = [loss([order[i] for i in each]) for each in chosen]
    found = {"all heads": loss([]), "in this order": loss(order[:out]), "at random": sum(random) / draws}
    return found | {"random, least": min(random), "random, greatest": max(random)}
