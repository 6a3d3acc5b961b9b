"""Paths through the tiny model of ``utils.induction``: what the answer rests on, and which projection has to know."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from utils.attention import rollout, scaled_dot_product_attention
from utils.heads import gated
from utils.induction import LENGTH, VOCABULARY, Reading, TinyModel, accuracy, accuracy_of, follows_a_copy, shape_of

INTO = ("query", "key", "value")


@torch.no_grad()
def cut_path(model: TinyModel, input_ids: Tensor, heads: Sequence[int], into: str) -> Reading:
    """The model of two layers in which some heads of the first are not seen by one projection of the second.

    into: "query", "key" or "value". The heads' messages stay in the residual stream for everybody else. Raises
    ValueError for another projection, another number of layers or heads that do not exist.
    """
    if into not in INTO or len(model.blocks) != 2:
        raise ValueError(f"into must be one of {', '.join(INTO)} and the model of two layers, got {into!r}")
    first, second = model.blocks
    gates = torch.ones(shape_of(model))
    if not set(heads) <= set(range(gates.shape[1])):
        raise ValueError(f"heads must be among 0 to {gates.shape[1] - 1}, got {list(heads)}")
    gates[0, list(heads)] = 0
    whole = first(model.embedding(input_ids))[0]
    with gated(model, gates):
        cut = first(model.embedding(input_ids))[0]
    attention = second.attention
    seen = (cut if name == into else whole for name in INTO)
    parts = [
        attention.split(getattr(attention, name)(second.norm(each))) for name, each in zip(INTO, seen, strict=True)
    ]
    mask, bias = second.places(input_ids.shape[1])
    outputs, weights = scaled_dot_product_attention(*parts, mask, bias)
    x = second.after(whole, attention.output(attention.merge(outputs)))
    return Reading(model.output(model.norm(x)), (weights,))


@torch.no_grad()
def effects_by_role(model: TinyModel, texts: int = 48, segment: int = 18, seed: int = 0) -> pd.DataFrame:
    """What the last token of a text rests on, and where two layers look for it, by the role of an earlier token.

    A text is a segment of different tokens, twice; the last token is to be predicted at the place before it. Each token
    up to there is replaced, alone, by a random one (1 in 64 times the same); "effect" is the fall of the
    log-probability of the right token, in nats. "layer 0", "layer 1" and "rollout" (skip share ½) are amounts of
    attention from that place, mean over heads. Rows: the answer (behind the earlier copy of the place's token), that
    earlier copy, the token itself, and the mean of all others. Raises ValueError for a segment that does not fit twice.
    """
    if not 3 <= segment <= LENGTH // 2:
        raise ValueError(f"a segment must have 3 to {LENGTH // 2} tokens, got {segment}")
    generator = torch.Generator().manual_seed(seed)
    ids = torch.rand(texts, VOCABULARY, generator=generator).argsort(-1)[:, :segment].repeat(1, 2)
    place, right = 2 * segment - 2, ids[:, -1]

    def gain(tokens: Tensor, answers: Tensor) -> Tensor:
        return model(tokens).logits[:, place].log_softmax(-1).gather(1, answers[:, None])[:, 0]

    at = torch.arange(place + 1)
    changed = ids[:, None].repeat(1, place + 1, 1)
    changed[:, at, at] = torch.randint(VOCABULARY, (texts, place + 1), generator=generator)
    after = gain(changed.flatten(0, 1), right.repeat_interleave(place + 1)).unflatten(0, (texts, place + 1))
    read = model(ids, need_weights=True).attentions
    rolled = torch.stack([rollout(torch.stack(each))[-1, place] for each in zip(*read, strict=True)])
    amounts = {"effect": gain(ids, right)[:, None] - after}
    amounts |= {f"layer {i}": weights[:, :, place].mean(1) for i, weights in enumerate(read)} | {"rollout": rolled}
    roles = {"the answer": at == segment - 1, "the earlier copy": at == segment - 2, "the token itself": at == place}
    roles["each of all others"] = ~torch.stack(list(roles.values())).any(0)
    means = {name: each[:, : place + 1].mean(0) for name, each in amounts.items()}
    return pd.DataFrame({name: {k: float(each[v].mean()) for k, v in roles.items()} for name, each in means.items()})


def ablation_table(model: TinyModel, batch: dict[str, Tensor]) -> pd.DataFrame:
    """Accuracy with heads of one layer taken out: a row a layer.

    Columns: whole; one out, worst (of all choices of one head); one left, best; none.
    """
    layers, heads = shape_of(model)

    def with_heads(layer: int, left: list[int]) -> float:
        gates = torch.ones(layers, heads)
        gates[layer] = 0
        gates[layer, left] = 1
        return accuracy(model, batch, gates)

    rows = {}
    for layer in range(layers):
        without = [with_heads(layer, [h for h in range(heads) if h != out]) for out in range(heads)]
        alone = [with_heads(layer, [head]) for head in range(heads)]
        values = (accuracy(model, batch), min(without), max(alone), with_heads(layer, []))
        rows[f"layer {layer}"] = dict(zip(("whole", "one out, worst", "one left, best", "none"), values, strict=True))
    return pd.DataFrame(rows).T


def path_table(model: TinyModel, batch: dict[str, Tensor]) -> pd.DataFrame:
    """Accuracy lost when a head of layer 0, or all of them, are not seen by one projection of layer 1."""
    heads = range(shape_of(model)[1])
    whole, rows = accuracy(model, batch), {}
    for name, unseen in ({f"head {head}": [head] for head in heads} | {"all heads": heads}).items():
        reads = {into: cut_path(model, batch["input_ids"], unseen, into) for into in INTO}
        rows[name] = {into: whole - accuracy_of(read.logits, batch) for into, read in reads.items()}
    return pd.DataFrame(rows).T


@torch.no_grad()
def accuracy_by_followers(model: TinyModel, batch: dict[str, Tensor]) -> dict[str, float]:
    """Accuracy at scored places, by how many tokens have followed earlier copies of the present one: "one", "several".

    Where several have followed, "what came after it" has no single answer. NaN where there is no such place.
    """
    ids, scored = batch["input_ids"], batch["scored"]
    keys = follows_a_copy(ids)[:, :-1]
    least = torch.where(keys, ids[:, None], VOCABULARY).amin(-1)
    single = least == torch.where(keys, ids[:, None], -1).amax(-1)
    right = (model(ids).logits[:, :-1].argmax(-1) == ids[:, 1:]).double()
    return {"one": float(right[scored & single].mean()), "several": float(right[scored & ~single].mean())}


@torch.no_grad()
def weight_back(model: TinyModel, batch: dict[str, Tensor], nearest: int, farthest: int) -> float:
    """Weight that the first layer puts on keys from ``nearest`` to ``farthest`` places back.

    Mean over heads, texts and the queries that have all of these keys. Raises ValueError unless
    0 ≤ nearest ≤ farthest < n, the tokens of a text.
    """
    n = batch["input_ids"].shape[-1]
    if not 0 <= nearest <= farthest < n:
        raise ValueError(f"0 ≤ nearest ≤ farthest < {n} is needed, got {nearest} and {farthest}")
    weights = model(batch["input_ids"], need_weights=True).attentions[0]
    back = torch.arange(n)[:, None] - torch.arange(n)
    return float((weights * ((back >= nearest) & (back <= farthest))).sum(-1)[..., farthest:].mean())
