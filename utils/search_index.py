"""A sentence encoder as a search engine: embed texts, rank passages for each query, score the ranking.

A *pair* is (query, the passage that answers it). An embedding is the mean of a text's last hidden states over its real
tokens, scaled to length 1, so that a product of two is their cosine (Reimers and Gurevych 2019, arXiv 1908.10084,
section 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from utils.attention.inputs import longest
from utils.attention.scope import evaluating
from utils.attention.text import checked_text

SCALE = 20.0  # of cosines before the softmax of the loss: a temperature of 0.05

Pair = tuple[str, str]
Batch = dict[str, Tensor]


def text_batches(tokenizer, texts: Iterable[str], size: int = 32) -> list[Batch]:
    """Inputs of the model for texts, in their order: input_ids, attention_mask (texts, tokens), padded a batch.

    Raises TypeError or ValueError for no texts, an empty text, what is no text, and a size below 1.
    """
    texts = _listed(texts)
    _whole(size, "size")
    parts = (texts[first : first + size] for first in range(0, len(texts), size))
    return [dict(tokenizer(part, return_tensors="pt", padding=True, return_token_type_ids=False)) for part in parts]


def search_batches(tokenizer, pairs: Sequence[Pair], size: int = 32) -> list[Batch]:
    """Inputs for ``size`` pairs a batch: all its queries, then their passages, (2 · size, tokens).

    This is what ``query_losses`` reads. The last batch may be smaller; it needs two pairs, or nothing competes.
    Raises TypeError or ValueError for what is no pair of texts, and for a batch of one pair.
    """
    pairs = list(pairs)
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise TypeError(f"a pair is (query, passage), two strings, got {pair!r}")
    _whole(size, "size")
    if len(pairs) < 2 or min(size, len(pairs) % size or size) < 2:
        raise ValueError(f"{len(pairs)} pairs in batches of {size} leave a batch of one pair: nothing competes in it")
    parts = (pairs[first : first + size] for first in range(0, len(pairs), size))
    return [text_batches(tokenizer, [*queries, *passages], 2 * size)[0] for queries, passages in _sides(parts)]


def pooled(outputs, batch: Batch) -> Tensor:
    """Embeddings of the texts of a batch (texts, width), each of length 1; padding has no part in them."""
    states, mask = outputs.last_hidden_state, batch["attention_mask"]
    if states.shape[:2] != mask.shape:
        raise ValueError(f"attention_mask is {tuple(mask.shape)}, the hidden states are {tuple(states.shape)}")
    return normalize((states * mask[..., None].to(states)).sum(1), dim=-1)


@torch.no_grad()
def embed(model: nn.Module, tokenizer, texts: Iterable[str], size: int = 32) -> Tensor:
    """Embeddings (texts, width) in the order of the texts; gates and ablations of scopes around the call count.

    Texts of like length share a batch. Raises ValueError for a text that is longer than the model reads.
    """
    texts = _listed(texts)
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    limit = longest(model, tokenizer)
    parts = []
    with evaluating(model):
        for batch in text_batches(tokenizer, [texts[number] for number in order], size):
            tokens = batch["input_ids"].shape[1]
            if limit is not None and tokens > limit:
                raise ValueError(f"a text has {tokens} tokens and the model reads {limit}: cut it first")
            parts.append(pooled(model(**batch), batch))
    return torch.cat(parts)[torch.tensor(order).argsort()]


def query_losses(queries: Tensor, passages: Tensor, scale: float = SCALE) -> Tensor:
    """How surprised the search is by each right answer, in nats: (queries,). The InfoNCE loss.

    queries, passages: embeddings (n, width); passage i answers query i, the others compete. −ln of the softmax over
    ``scale`` times the cosines; choosing at random gives ln n. Source: van den Oord et al. 2018 (arXiv 1807.03748),
    equation 4, with the batch as negatives.
    """
    _checked(queries, passages)
    return cross_entropy(scale * queries @ passages.mT, torch.arange(len(queries)), reduction="none")


def search_loss(outputs, batch: Batch) -> Tensor:
    """Mean ``query_losses`` of a batch of ``search_batches``, a scalar: for ``importance`` and ``ablation_effect``."""
    vectors = pooled(outputs, batch)
    if len(vectors) % 2:
        raise ValueError(f"a batch holds queries and as many passages, got {len(vectors)} texts: see search_batches")
    queries, passages = vectors.chunk(2)
    return query_losses(queries, passages).mean()


def ranks(queries: Tensor, passages: Tensor) -> Tensor:
    """The place of each query's own passage among all (queries,), 1 is the first. Ties count against it.

    queries (n, width), passages (m ≥ n, width): embeddings of length 1; passage i answers query i.
    """
    _checked(queries, passages)
    cosines = queries @ passages.mT
    own = cosines.diagonal()[:, None]
    return (cosines >= own).sum(1)


def recall(places: Tensor, k: int = 1) -> float:
    """Share of the queries whose passage is among the first ``k``: recall@k; places as ``ranks`` gives them."""
    _whole(k, "k")
    return float((_places(places) <= k).double().mean())


def reciprocal_rank(places: Tensor) -> float:
    """Mean of 1 / place: 1 when each passage comes first, 1/2 when each comes second (MRR)."""
    return float((1 / _places(places).double()).mean())


def _listed(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise TypeError(f"texts must be a list of str, got one str: pass [{texts[:20]!r}]")
    texts = [checked_text(text, f"text {number}") for number, text in enumerate(texts)]
    if not texts:
        raise ValueError("there are no texts: give at least one")
    return texts


def _sides(parts: Iterable[Sequence[Pair]]) -> Iterable[tuple[tuple[str, ...], tuple[str, ...]]]:
    return (tuple(zip(*part, strict=True)) for part in parts)


def _checked(queries: Tensor, passages: Tensor) -> None:
    if queries.ndim != 2 or passages.ndim != 2 or queries.shape[1] != passages.shape[1]:
        shapes = f"{tuple(queries.shape)} and {tuple(passages.shape)}"
        raise ValueError(f"queries and passages must be (number, width) with one width, got {shapes}")
    if not 0 < len(queries) <= len(passages):
        raise ValueError(f"there are {len(queries)} queries and {len(passages)} passages: each query needs its own")


def _places(places: Tensor) -> Tensor:
    places = torch.as_tensor(places)
    if not places.numel() or places.is_floating_point() or places.min() < 1:
        raise ValueError("places must be whole numbers from 1 on, at least one: see ranks")
    return places


def _whole(value: int, name: str) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}")
