"""Two ways to tune a large model with few numbers: LoRA (a product of low rank beside a matrix) and random projection.

Sources: Hu et al. (2021, arXiv:2106.09685) for LoRA; Aghajanyan et al. (2021, arXiv:2012.13255) for the projection,
which is of another, denser kind there. Both work on a ``Reader`` of ``utils.small_tuning``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call

from utils.small_tuning import Reader, train_parts, trained_numbers


class LoRA(nn.Module):
    """A frozen linear layer W plus a trained product of rank r: x ↦ W x + B A x. B starts at 0, so nothing changes.

    A: (rank, in), spread 1/√in. B: (out, rank).
    """

    def __init__(self, linear: nn.Linear, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        wide = linear.in_features
        if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= min(wide, linear.out_features):
            raise ValueError(f"rank must be a whole number from 1 to {min(wide, linear.out_features)}, got {rank!r}")
        self.linear = linear.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, wide, generator=generator) / wide**0.5)
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + x @ self.a.T @ self.b.T


def add_lora(net: Reader, rank: int = 4, seed: int = 0) -> int:
    """Put LoRA on the query and value of every layer, freeze the rest but the head. Returns the numbers trained."""
    generator = torch.Generator().manual_seed(seed)
    train_parts(net, ())
    for layer in net.body.encoder.layer:
        attention = layer.attention.self
        attention.query = LoRA(attention.query, rank, generator)
        attention.value = LoRA(attention.value, rank, generator)
    return trained_numbers(net)


class Projected(nn.Module):
    """A network of which only ``d`` numbers z are trained: every weight is θ₀ + P z, P random and fixed.

    P has one entry ±1 in each row: weight i follows one of the d numbers, drawn at random, with a random sign. This is
    a cheap random projection (a count sketch); its columns are orthogonal. All weights of the body but the
    word embeddings take part, and the head, whose θ₀ is drawn here with spread 1/√width.
    """

    def __init__(self, net: Reader, d: int, seed: int = 0) -> None:
        super().__init__()
        if isinstance(d, bool) or not isinstance(d, int) or d < 1:
            raise ValueError(f"d must be a whole number from 1, got {d!r}")
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            net.output.weight.copy_(torch.randn(net.output.weight.shape, generator=generator) / 384**0.5)
        self.net = net.requires_grad_(False)
        self.z = nn.Parameter(torch.zeros(d))
        self.follows = {
            name: (
                torch.randint(d, (p.numel(),), generator=generator, dtype=torch.int32),
                torch.randint(2, (p.numel(),), generator=generator).float() * 2 - 1,
            )
            for name, p in net.named_parameters()
            if "word_embeddings" not in name
        }

    def forward(self, **batch: Tensor) -> Tensor:
        known = dict(self.net.named_parameters())
        moved = {
            name: known[name] + (self.z.index_select(0, index) * sign).view_as(known[name])
            for name, (index, sign) in self.follows.items()
        }
        return functional_call(self.net, moved, (), batch)
