"""What removing heads does to a search: its recall, the places of the right passages, and the vectors of the index.

Embeddings (texts, width) have length 1, as ``utils.search_index.embed`` gives them; passage i answers query i. *Old*
vectors are those of the model that filled the index, *new* ones those of the model after pruning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

from utils.bootstrap import ratio_interval
from utils.corpora import docstring_pairs
from utils.heads import Head, heads_of
from utils.importance import ablation_effect, importance
from utils.pruning import order_by, prune
from utils.search_index import embed, pooled, ranks, recall, reciprocal_rank, search_batches, search_loss
from utils.training import Batch, History, fit

RANKED = 150  # pairs that rank heads and teach; the rest is judged
SCORES = ("absolute", "signed", "fisher")
SHARES = (0.0, 0.25, 0.5, 0.75, 11 / 12, 1.0)  # of all heads that go: 72, 54, 36, 18, 6 and 0 are kept
Pair = tuple[str, str]


class Split(NamedTuple):
    """Pairs (query, passage): to rank heads and to tune on, and to judge on."""

    ranked: list[Pair]
    judged: list[Pair]


def split_pairs() -> Split:
    """The book's docstrings in two parts that share no pair."""
    pairs = docstring_pairs()
    return Split(pairs[:RANKED], pairs[RANKED:])


class Vectors(NamedTuple):
    """Embeddings of queries and of passages: (number, width) each."""

    queries: Tensor
    passages: Tensor


def vectors(model: nn.Module, tokenizer, pairs: Sequence[Pair]) -> Vectors:
    """What a model makes of pairs."""
    queries, passages = zip(*pairs, strict=True)
    return Vectors(embed(model, tokenizer, queries), embed(model, tokenizer, passages))


def judged(old: Vectors, new: Vectors) -> dict[str, float]:
    """What a search is worth after pruning, with the index rebuilt and with the old index, and how far vectors moved.

    recall@1, recall@10, mrr: new queries, new passages. mixed recall@1, …: new queries against the old passages.
    cosine: mean cosine of a new passage vector to its old one, and cosine, worst twentieth: its 5 % quantile.
    kept of ten: share of the old first ten passages that are still among the first ten, mean over queries.
    moved: share of the queries whose own passage has another place.
    """
    before, after = ranks(*old), ranks(*new)
    found = scores(after)
    found |= {f"mixed {name}": value for name, value in scores(ranks(new.queries, old.passages)).items()}
    drift = cosines(old.passages, new.passages)
    return found | {
        "cosine": float(drift.mean()),
        "cosine, worst twentieth": float(drift.quantile(0.05)),
        "kept of ten": kept_of_first(old, new, 10),
        "moved": float((before != after).double().mean()),
    }


def scores(places: Tensor) -> dict[str, float]:
    """recall@1, recall@10 and mean reciprocal rank."""
    return {"recall@1": recall(places, 1), "recall@10": recall(places, 10), "mrr": reciprocal_rank(places)}


def cosines(old: Tensor, new: Tensor) -> Tensor:
    """Cosine of each new vector to its old one (texts,)."""
    if old.shape != new.shape or old.ndim != 2:
        raise ValueError(f"old and new must be (texts, width) of one shape, got {tuple(old.shape)}, {tuple(new.shape)}")
    return torch.cosine_similarity(old, new, dim=-1)


def kept_of_first(old: Vectors, new: Vectors, k: int) -> float:
    """Mean share of a query's first k passages before that are among its first k after."""
    first, now = ((each.queries @ each.passages.mT).topk(k).indices for each in (old, new))
    return float((first[:, :, None] == now[:, None]).any(-1).double().mean())


def interval(before: Tensor, after: Tensor, k: int = 1, *, draws: int = 1000, seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of the change of recall@k, over queries: the same queries before and after.

    before, after: places (queries,), 1 is the first.
    """
    if before.shape != after.shape or before.ndim != 1 or not len(before):
        raise ValueError(f"before and after must be places of the same queries, got {before.shape} and {after.shape}")
    change = (after <= k).double() - (before <= k).double()
    return ratio_interval(change, torch.ones_like(change), draws, seed)[1:]


def ranking(model: nn.Module, tokenizer, pairs: Sequence[Pair]) -> pd.DataFrame:
    """``importance`` of heads for the search over pairs, in batches of 30 that compete."""
    return importance(model, search_batches(tokenizer, pairs, 30), search_loss)


def iterative_order(
    model: nn.Module,
    tokenizer,
    pairs: Sequence[Pair],
    score: str,
    shares: Sequence[float] = SHARES,
    first: pd.DataFrame | None = None,
) -> list[Head]:
    """Rank, remove, rank again what is left: a new ranking at each of the shares, except where nothing is left.

    first: the ranking of the whole model, where it is known already.
    """
    order, total = [], len(heads_of(model))
    for share in shares[1:]:
        frame = first if first is not None and not order else ranking(prune(model, order), tokenizer, pairs)
        order += order_by(frame, score)[: round(share * total) - len(order)]
    return order


def greedy_by_loss(model: nn.Module, batches: Iterable[Batch], loss=search_loss, *, together: int = 1) -> list[Head]:
    """Again and again the head without which the loss is least, given that those before are gone.

    together: heads that go in each round. With 1, this is the order of ``utils.pruning.greedy_order``, in less time:
    what lies below a head is computed once for all.
    """
    batches, order, small = list(batches), [], model
    for left in range(len(heads_of(model)), 0, -together):
        order += order_by(ablation_effect(small, batches, loss), "value")[:together]
        if left > together:
            small = prune(model, order)
    return order


def distil(
    student: nn.Module,
    teacher: nn.Module,
    batches: Sequence[Batch],
    *,
    steps: int,
    learning_rate: float = 1e-4,
    seed: int = 0,
) -> History:
    """Tune a pruned model, in place, so that its vectors point where those of the whole model point: mean 1 − cosine.

    batches: of any texts, as ``text_batches`` gives them; no labels are needed.
    """
    with torch.no_grad():
        targets = {id(batch): pooled(teacher(**batch), batch) for batch in batches}

    def loss(outputs, batch: Batch) -> Tensor:
        return (1 - (pooled(outputs, batch) * targets[id(batch)]).sum(-1)).mean()

    return fit(student, batches, loss, steps=steps, learning_rate=learning_rate, warmup=5, seed=seed)
