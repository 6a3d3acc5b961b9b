"""What is true of the unknown model: measured when somebody asks, on notes that analyses do not use, and kept."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import combinations

import torch
from torch import Tensor, nn

from utils import analyse
from utils.analyse import SAME_MAP, SAME_OUTPUT, SHARE
from utils.heads import Head, heads_of
from utils.pruning import prune


def role_by_rules(maps: Tensor) -> str:
    """The role of a causal head by the rules of the page: maps (texts, n, n)."""
    maps = maps.double()
    n = maps.shape[-1]
    if maps[:, 1:, 0].mean() >= SHARE:
        return "first token"
    found = maps.argmax(-1) - torch.arange(n)
    shares = {back: float((found[:, back:] == -back).double().mean()) for back in range(n // 2)}
    best = max(shares, key=shares.__getitem__)
    if shares[best] >= SHARE:
        return f"offset {-best}"
    even = torch.special.entr(maps[:, 1:]).sum(-1) / torch.arange(2, n + 1).log()
    return "diffuse" if even.mean() >= SHARE else "content"


@cache
def model() -> nn.Module:
    """The unknown model."""
    return analyse.unknown().model


@cache
def batch() -> dict[str, Tensor]:
    """The notes to judge by."""
    return analyse.batch_of(analyse.unknown().tokenizer, analyse.notes("judge"))


@cache
def maps() -> Tensor:
    """Attention weights on the notes to judge by: (layers, heads, texts, n, n)."""
    return analyse.maps_of(model(), batch())


def role(head: Head) -> str:
    """The role of a head on the notes to judge by."""
    return role_by_rules(maps()[head.layer, head.head])


@cache
def whole() -> float:
    """Nats a token of the whole model on the notes to judge by."""
    return analyse.loss(model(), batch())


@cache
def _cost(gone: frozenset[Head]) -> float:
    return analyse.loss(prune(model(), gone), batch()) - whole()


def cost(gone: Iterable[Head]) -> float:
    """How much the loss rises on the notes to judge by when heads are pruned, in nats a token."""
    return _cost(frozenset(gone))


@cache
def compared() -> dict[tuple[Head, Head], tuple[float, float]]:
    """For each pair of heads of a layer: the distance of their maps, the cosine of their W_V W_O."""
    read = maps()
    return {
        (one, other): (
            analyse.map_distance(read[one.layer, one.head], read[other.layer, other.head]),
            analyse.output_cosine(model(), one, other),
        )
        for one, other in combinations(heads_of(model()), 2)
        if one.layer == other.layer
    }


def duplicates() -> list[tuple[Head, Head]]:
    """Pairs of a layer that read the same tokens and say the same, measured."""
    return [pair for pair, (far, near) in compared().items() if far <= SAME_MAP and near >= SAME_OUTPUT]
