"""What chapter 4 needs beyond its cells: sentence pairs in batches, losses by token, shared keys and values.

Works on the book's translator. A *pair* is (source sentence, target sentence).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import BaseModelOutput

from utils.architectures import attentions
from utils.attention.scope import evaluating
from utils.bootstrap import ratio_interval
from utils.heads import ablated, resolve
from utils.heads.running import checked_batches

IGNORED = -100  # label of padding
Pair = tuple[str, str]


def pair_batches(tokenizer, pairs: Sequence[Pair], size: int = 50) -> list[dict[str, Tensor]]:
    """Inputs of the translator for sentence pairs, in their order: input_ids, attention_mask, labels (texts, length).

    Raises ValueError for no pairs, and TypeError for what is no (source, target).
    """
    pairs = list(pairs)
    if not pairs:
        raise ValueError("there are no pairs: give at least one (source, target)")
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(side, str) for side in pair):
            raise TypeError(f"a pair is (source, target), two strings, got {pair!r}")
    batches = []
    for first in range(0, len(pairs), size):
        sources, targets = zip(*pairs[first : first + size], strict=True)
        batch = tokenizer(list(sources), return_tensors="pt", padding=True)
        labels = tokenizer(list(targets), return_tensors="pt", padding=True)
        masked = labels["input_ids"].masked_fill(labels["attention_mask"] == 0, IGNORED)
        batches.append({"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"], "labels": masked})
    return batches


def text_losses(outputs, batch: dict[str, Tensor]) -> Tensor:
    """Mean loss of each text (texts,), in nats a token: what ``importance`` and ``ablation_effect`` take."""
    losses, real = _losses(outputs.logits, batch["labels"])
    return losses.sum(-1) / real.sum(-1)


class Losses(NamedTuple):
    """Loss of every target token of every text, in nats (texts, length); real: False where there is only padding."""

    losses: Tensor
    real: Tensor

    @property
    def mean(self) -> float:
        """Nats a token, over all tokens."""
        return float(self.losses.sum() / self.real.sum())

    def by_text(self) -> list[Tensor]:
        """The losses of each text's tokens, without padding."""
        return [losses[real] for losses, real in zip(self.losses, self.real, strict=True)]


@torch.no_grad()
def token_losses(model: nn.Module, batches: Iterable[dict[str, Tensor]]) -> Losses:
    """The loss of every target token, given the reference before it (teacher forcing), gates of scopes around included.

    Raises TypeError or ValueError for what is no batch, and TypeError for a model without a decoder that reads one.
    """
    if not hasattr(model, "prepare_decoder_input_ids_from_labels"):
        raise TypeError(
            f"a model with encoder and decoder is needed, such as the translator: got {type(model).__name__}"
        )
    parts = []
    with evaluating(model):
        for batch in checked_batches(batches):
            if "labels" not in batch:
                raise ValueError(f"a batch needs labels, it has {', '.join(batch)}: see pair_batches")
            parts.append(_losses(_logits(model, batch), batch["labels"]))
    longest = max(part.shape[1] for part, _ in parts)
    padded = (
        [functional.pad(each, (0, longest - each.shape[1])) for each in side] for side in zip(*parts, strict=True)
    )
    return Losses(*(torch.cat(side) for side in padded))


@torch.no_grad()
def extra_losses(model: nn.Module, batches: Sequence[dict[str, Tensor]], removals: Iterable[Sequence]) -> list[float]:
    """For each set of heads the loss without them minus the whole model's, in nats a token.

    The encoder runs once for all sets that leave it as it is.
    """
    removals = [resolve(model, heads) for heads in removals]
    with evaluating(model):
        read = [
            {
                "encoder_outputs": model.encoder(batch["input_ids"], batch["attention_mask"]),
                "attention_mask": batch["attention_mask"],
                "labels": batch["labels"],
            }
            for batch in checked_batches(batches)
        ]
    full, found = token_losses(model, read).mean, []
    for heads in removals:
        changed = any(head.kind == "encoder" for head in heads)
        with ablated(model, heads):
            found.append(token_losses(model, batches if changed else read).mean - full)
    return found


def _logits(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The logits for a batch, without the loss that the model finds when it is given labels."""
    given = {name: value for name, value in batch.items() if name != "labels"}
    return model(**given, decoder_input_ids=model.prepare_decoder_input_ids_from_labels(batch["labels"])).logits


def _losses(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none", ignore_index=IGNORED)
    return losses.view(labels.shape), labels != IGNORED


def decoder_logits(model: nn.Module, batch: dict[str, Tensor], *, causal: bool = True) -> Tensor:
    """The translator's logits (texts, target length, vocabulary); causal=False: without the mask of its decoder."""
    targets = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    memory = model.encoder(batch["input_ids"], batch["attention_mask"])[0]
    length = targets.shape[1]
    mask = torch.ones(length, length, dtype=torch.bool)
    states, _ = model.decoder.run(
        model.encoder.embedding(targets),
        mask.tril() if causal else mask,
        False,
        memory,
        batch["attention_mask"].bool()[:, None, None],
    )
    return functional.linear(states, model.get_input_embeddings().weight)


def with_shared_heads(
    model: nn.Module, kind: str, groups: int, *, parts: Sequence[str] = ("key", "value"), order: Tensor | None = None
) -> nn.Module:
    """A copy whose heads of one kind share keys and values: the mean over each group of heads takes their place.

    groups: key/value heads that are left in a layer: all of them (nothing changes) to 1 (multi-query). Neighbours form
    a group; order (heads,), a permutation, says who is a neighbour of whom. parts: what is shared, "key" and "value".
    Queries and outputs stay. This is where GQA starts before it is trained further (Ainslie et al. 2023, arXiv
    2305.13245, section 2.1). Works for attentions with a separate linear layer for keys and for values.
    Raises ValueError for a kind that the model does not have, and for groups that do not divide the heads.
    """
    shared = copy.deepcopy(model)
    found = [each for each in attentions(shared) if each.kind == kind]
    if not found:
        known = dict.fromkeys(each.kind for each in attentions(model))
        raise ValueError(f"the model has no {kind!r} attention: it has {', '.join(known)}")
    if not parts or not set(parts) <= {"key", "value"}:
        raise ValueError(f'parts must be some of "key" and "value", got {tuple(parts)!r}')
    for each in found:
        heads = len(each.heads)
        if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1 or heads % groups:
            raise ValueError(f"{heads} heads cannot form {groups!r} equal groups: take a divisor of {heads}")
        places = torch.arange(heads) if order is None else torch.as_tensor(order)
        if sorted(places.tolist()) != list(range(heads)):
            raise ValueError(f"order must hold each of 0 to {heads - 1} once, got {places.tolist()}")
        if each.layout.fused:
            raise ValueError(f"{type(each.module).__name__} keeps queries, keys and values in one matrix")
        for part in parts:
            _share(getattr(each, part), heads, groups, places)
    return shared


@torch.no_grad()
def _share(projection: nn.Linear, heads: int, groups: int, places: Tensor) -> None:
    """Put the mean of its group into the place of each head's rows and biases."""
    for tensor in (projection.weight, projection.bias):
        blocks = tensor.unflatten(0, (heads, -1))[places].unflatten(0, (groups, -1))
        means = blocks.mean(1, keepdim=True).expand_as(blocks).flatten(0, 1)
        back = torch.empty_like(means)
        back[places] = means
        tensor.copy_(back.flatten(0, 1))


@torch.no_grad()
def losses_without_source(model: nn.Module, batch: dict[str, Tensor], hidden: Sequence[Sequence[int]]) -> Tensor:
    """Losses of one text's target tokens while cross-attention may not read some source pieces.

    batch: one pair, as ``pair_batches`` gives it. hidden: for each run the pieces that every cross head skips; the
    encoder still reads the whole source. Returns (runs, target length), in nats.
    """
    if len(batch["input_ids"]) != 1:
        raise ValueError(
            f"one pair is needed, the batch has {len(batch['input_ids'])}: pair_batches(tokenizer, [pair])"
        )
    mask = batch["attention_mask"].repeat(len(hidden), 1)
    for run, pieces in enumerate(hidden):
        mask[run, list(pieces)] = 0
    labels = batch["labels"].expand(len(hidden), -1)
    with evaluating(model):
        memory = model.encoder(batch["input_ids"], batch["attention_mask"])[0].expand(len(hidden), -1, -1)
        outputs = model(encoder_outputs=BaseModelOutput(memory), attention_mask=mask, labels=labels)
        return _losses(outputs.logits, labels)[0]


def losses_hiding(
    model: nn.Module, tokenizer, pairs: Sequence[Pair], rows: Sequence[Sequence[int]], hidden: Sequence[Sequence]
) -> list[Tensor]:
    """Losses of chosen target tokens, each while cross-attention may not read source pieces of its own.

    rows: for each pair the places of the tokens among its labels. hidden: for each of them the source pieces skipped.
    Returns for each pair (tokens,), in nats. See ``losses_without_source``.
    """
    parts = []
    for pair, places, skipped in zip(pairs, rows, hidden, strict=True):
        if len(places) != len(skipped):
            raise ValueError(f"{len(places)} tokens need as many lists of hidden pieces, got {len(skipped)}")
        if places:
            (batch,) = pair_batches(tokenizer, [pair])
            parts.append(losses_without_source(model, batch, skipped)[range(len(places)), list(places)])
        else:
            parts.append(torch.zeros(0))
    return parts


def interval(parts: Sequence[Tensor], draws: int = 500, seed: int = 0) -> tuple[float, float, float]:
    """Mean of all values, and the middle 95 % of means over texts drawn with replacement. parts: the values by text."""
    sums = torch.stack([part.double().sum() for part in parts])
    counts = torch.tensor([len(part) for part in parts], dtype=sums.dtype)
    if not counts.sum():
        raise ValueError("there are no values: no text has any")
    return ratio_interval(sums, counts, draws, seed)


@torch.no_grad()
def future_effect(model: nn.Module, batch: dict[str, Tensor], place: int, *, causal: bool = True) -> float:
    """The greatest change of a logit up to row ``place`` when the targets from ``place`` on are another text's.

    Row i reads the labels before i; with the mask none of these rows may notice. Gates of scopes around the call count.
    """
    now, other = batch["labels"], batch["labels"].roll(1, dims=0)
    if len(now) < 2 or not 0 <= place < now.shape[1] - 1:
        raise ValueError(f"two texts or more, longer than place {place}, are needed: labels are {tuple(now.shape)}")
    free = (torch.arange(now.shape[1]) >= place) & (now != IGNORED) & (other != IGNORED)
    with evaluating(model):
        one, two = (
            decoder_logits(model, dict(batch) | {"labels": labels}, causal=causal)
            for labels in (now, torch.where(free, other, now))
        )
    return float((one - two)[:, : place + 1].abs().max())
