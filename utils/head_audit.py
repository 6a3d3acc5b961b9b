"""What single heads do to a search: every head out alone, text by text, and how well two rankings of heads agree.

Lab 2 reads rankings of heads against each other; ``tools/sweeps/head_contribution.py`` makes the longer ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from utils.attention.scope import evaluating
from utils.corpora import docstring_pairs, passages
from utils.encoder_decoder import token_losses
from utils.heads import Head, ablated, heads_of, resolve
from utils.heads.running import Batch
from utils.importance import ablation_effect
from utils.routing import rank_correlation
from utils.search_index import Pair, embed, pooled, query_losses, ranks, text_batches
from utils.sweeps import FOLDER

SHORT, HALF = 35, 25  # words: longest passage of a docstring pair, half of a passage


def short_docstrings() -> list[Pair]:
    """The docstring pairs whose passage has at most ``SHORT`` words: quick to search in."""
    return [pair for pair in docstring_pairs() if len(pair[1].split()) <= SHORT]


def passage_halves(n: int) -> list[Pair]:
    """Another corpus to search in: the first 25 words of a passage as query, the next 25 as its answer."""
    words = [text.split() for text in passages(n, words=2 * HALF)]
    return [(" ".join(each[:HALF]), " ".join(each[HALF:])) for each in words]


def stored_effects() -> dict[str, Tensor]:
    """What ``tools/sweeps/head_contribution.py`` kept: "docstrings/zero" → (heads, texts), as ``Effects.change``.

    Corpora: docstrings, passages (halves), translation (first test pairs). Modes: zero; for docstrings mean, resample-0
    and -1, too. Heads in the order of ``heads_of``. "docstrings/full" is the loss with all heads (texts,),
    "docstrings/places" and "docstrings/full places" are the places of the right passages.
    """
    return {name: each.float() for name, each in load_file(FOLDER / "head_contribution.safetensors").items()}


class Effects(NamedTuple):
    """What taking out each head does to each text.

    heads: which, in order. change: loss without the head minus loss with all, in nats (heads, texts); positive means
    that the head helps this text. places: for a search, where the right passage stands (heads, texts), else None.
    full: the loss with all heads (texts,). full_places: as places, with all heads (texts,).
    """

    heads: list[Head]
    change: Tensor
    places: Tensor | None
    full: Tensor
    full_places: Tensor | None


def search_effects(
    model: nn.Module,
    tokenizer,
    pairs: Sequence[Pair],
    *,
    heads: Iterable | None = None,
    mode: str = "zero",
    reference: Iterable[Batch] | None = None,
    seed: int = 0,
) -> Effects:
    """Every head out alone: the loss of each query against all passages (``query_losses``), and the right one's place.

    Exact, by ``ablation_effect``; modes, reference and errors as there. Queries and passages both lose the head.
    """
    queries, passages = (list(side) for side in zip(*pairs, strict=True))
    options = {"heads": heads, "mode": mode, "reference": reference, "seed": seed}
    chosen, of_queries = vectors_without(model, tokenizer, queries, **options)
    _, of_passages = vectors_without(model, tokenizer, passages, **options)
    both = list(zip(of_queries, of_passages, strict=True))  # all heads first
    losses, places = (torch.stack([of(q, p) for q, p in both]) for of in (query_losses, ranks))
    return Effects(chosen, losses[1:] - losses[0], places[1:], losses[0], places[0])


def vectors_without(
    model: nn.Module, tokenizer, texts: Sequence[str], size: int = 32, **options
) -> tuple[list[Head], Tensor]:
    """Heads, and embeddings (1 + heads, texts, width): with all heads, then with each head out alone.

    options: as in ``ablation_effect``. Texts of like length share a batch; the result has the order of ``texts``.
    """
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    kept: list[list[Tensor]] = []

    def keep(outputs, batch: Batch) -> float:
        if not kept or kept[-1][0] is not batch["input_ids"]:  # the next batch
            kept.append([batch["input_ids"]])
        kept[-1].append(pooled(outputs, batch))
        return 0.0

    frame = ablation_effect(model, text_batches(tokenizer, [texts[i] for i in order], size), keep, **options)
    heads = [Head(row.layer, row.head, row.kind) for row in frame.itertuples()]
    vectors = torch.cat([torch.stack(each[1:]) for each in kept], dim=1)
    by_layer = sorted(range(len(heads)), key=lambda place: (heads[place].layer, place))  # how ablation_effect runs them
    back = [0, *(1 + by_layer.index(place) for place in range(len(heads)))]
    return heads, vectors[back][:, torch.tensor(order).argsort()]


@torch.no_grad()
def search_losses(model: nn.Module, tokenizer, pairs: Sequence[Pair], out: Iterable = ()) -> Tensor:
    """Loss of each query against all passages (queries,), with some heads out together."""
    queries, passages = zip(*pairs, strict=True)
    with ablated(model, out):
        return query_losses(embed(model, tokenizer, queries), embed(model, tokenizer, passages))


@torch.no_grad()
def translation_effects(
    model: nn.Module,
    batches: Sequence[Batch],
    *,
    heads: Iterable | None = None,
    mode: str = "zero",
    reference: Iterable[Batch] | None = None,
    seed: int = 0,
) -> Effects:
    """Every head of a translator out alone: the mean loss of each target text, in nats a token."""
    chosen = heads_of(model) if heads is None else resolve(model, heads)
    with evaluating(model):
        read = [dict(batch) | {"encoder_outputs": model.encoder(*_source(batch))} for batch in batches]
    full, rows = translation_losses(model, batches), []
    for head in chosen:
        with ablated(model, [head], mode, reference, seed):  # other heads leave the encoder as it is
            rows.append(translation_losses(model, batches if head.kind == "encoder" else read) - full)
    return Effects(chosen, torch.stack(rows), None, full, None)


def _source(batch: Batch) -> tuple[Tensor, Tensor]:
    return batch["input_ids"], batch["attention_mask"]


def translation_losses(model: nn.Module, batches: Sequence[Batch]) -> Tensor:
    """Mean loss of each target text (texts,), in nats a token; scopes around the call count."""
    return torch.stack([each.mean() for each in token_losses(model, batches).by_text()])


def spearman(first: Iterable[float], second: Iterable[float]) -> float:
    """Rank correlation of two lists: 1 same order, −1 opposite, near 0 unrelated. Ties share their mean rank."""
    first, second = _numbers(first), _numbers(second)
    if first.shape != second.shape or first.ndim != 1 or len(first) < 3:
        raise ValueError(f"two lists of the same length, 3 or more, are needed: got {first.shape} and {second.shape}")
    return float(rank_correlation(torch.from_numpy(first), torch.from_numpy(second)))


def spearman_interval(
    score: Iterable[float], change: Tensor, draws: int = 500, seed: int = 0
) -> tuple[float, float, float]:
    """Rank correlation of a score of heads with their mean effect, and the middle 95 % when texts are drawn anew.

    score: a number a head (heads,), fixed; or another table (heads, texts), whose texts are drawn, too, on their own.
    change: the effect of each head on each text (heads, texts). The interval says how much the agreement depends on
    the texts; it holds for these heads of this model. A drawn set repeats texts, so its mean is noisier than that of
    all: where effects are small the interval lies low, and the whole may stand at its upper end.
    """
    score, change = torch.tensor(_numbers(score)), change.double()
    generator = torch.Generator().manual_seed(seed)
    whole = spearman(score if score.ndim == 1 else score.mean(1), change.mean(1))
    pairs = [
        torch.stack([score if score.ndim == 1 else _resampled(score, generator), _resampled(change, generator)])
        for _ in range(draws)
    ]
    drawn = rank_correlation(*torch.stack(pairs, dim=1))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return whole, float(low), float(high)


def _numbers(values: Iterable[float]) -> np.ndarray:
    return values.detach().double().numpy() if isinstance(values, Tensor) else np.array(values, dtype=float)


def _resampled(table: Tensor, generator: torch.Generator) -> Tensor:
    """Mean over texts drawn with replacement: (heads,)."""
    return table[:, torch.randint(table.shape[1], (table.shape[1],), generator=generator)].mean(1)
