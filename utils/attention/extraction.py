"""Attention maps out of any model that computes softmax attention, without leaving a trace in the model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from utils.attention.inputs import encode_target, encoder_decoder, inputs_for, longest, own_target
from utils.attention.maps import AttentionMaps, Kind
from utils.attention.reading import Layers, Plan, lengths
from utils.attention.scope import extracting
from utils.attention.text import count
from utils.attention.tokens import Encoded, encode

MAX_BYTES = 2**30  # 1 GiB of weights


def attention_maps(
    model: nn.Module,
    tokenizer,
    text: str,
    target: str | None = None,
    *,
    layers: Layers = None,
    max_bytes: int = MAX_BYTES,
) -> dict[str, AttentionMaps]:
    """The attention weights of every layer and head for one text, keyed "encoder", "decoder", "cross".

    Only the kinds that the model has are in the result; a model that reads from left to right is a "decoder". An
    encoder–decoder reads ``target`` in its decoder; without one it reads what it writes itself, greedily, and a notice
    says so. Row t of its decoder is the t-th token it has read, beginning with its start token.

    layers: the layers to keep, for all kinds, or a dictionary from kind to layers. max_bytes: refuse beforehand what
    needs more memory than this (4 bytes a weight). Heads that were removed have NaN for weights; a notice counts them.
    For the extraction the model is in evaluation mode, in float32 and on eager attention, and afterwards exactly as it
    was. Raises TypeError or ValueError for a text with nothing to read, for layers that do not exist, for maps above
    ``max_bytes``, and for a model that does not give its weights.
    """
    with extracting(model):
        source = encode(tokenizer, text, longest(model, tokenizer))
        notices, decoded = [], None
        if encoder_decoder(model):
            if target is None:
                target, notices = own_target(model, tokenizer, source)
            decoded = encode_target(model, tokenizer, target)
        elif target is not None:
            raise ValueError(f"{type(model).__name__} has no separate decoder: leave target out")
        inputs = inputs_for(model, [source], None if decoded is None else [decoded])
        plan = Plan.of(model, inputs)
        wanted = plan.checked(layers)
        plan.check_bytes(wanted, *lengths(inputs), max_bytes)
        found = plan.read(model, inputs, wanted)
        sides = {kind: (source, source) for kind in found}
        if decoded is not None:
            sides |= {"decoder": (decoded, decoded), "cross": (decoded, source)}
        maps = {kind: _maps(model, kind, wanted[kind], found.pop(kind), *sides[kind]) for kind in list(found)}
    for kind in ("decoder", "cross"):
        if kind in maps:
            maps[kind].notices.extend(notices)
    return maps


def groups(model: nn.Module, heads: int) -> list[int]:
    """The key/value head of each query head: in grouped-query attention several query heads share one."""
    shared = getattr(model.config, "num_key_value_heads", None) or heads
    return [head * shared // heads for head in range(heads)] if heads % shared == 0 else list(range(heads))


def _maps(
    model: nn.Module, kind: Kind, layers: list[int], weights: list[Tensor], queries: Encoded, keys: Encoded
) -> AttentionMaps:
    """The maps of one kind, out of its layers' weights (1, heads, queries, keys), which are taken from the list."""
    stacked = torch.empty(len(weights), *weights[0].shape[1:], dtype=torch.float32)
    for index in range(len(weights)):
        stacked[index] = weights[index][0]
        weights[index] = None
    gone = int(stacked[..., 0, 0].isnan().sum())
    removed = [f"{count(gone, 'head')} of the {kind} removed: no weights there"] if gone else []
    return AttentionMaps(
        weights=stacked,
        queries=list(queries.labels),
        keys=list(keys.labels),
        layers=layers,
        kind=kind,
        query_words=list(queries.words),
        key_words=list(keys.words),
        special_queries=torch.tensor(queries.special),
        special_keys=torch.tensor(keys.special),
        notices=list(dict.fromkeys([*queries.notices, *keys.notices, *removed])),
        groups=groups(model, stacked.shape[1]),
        query_word_labels=list(queries.word_labels),
        key_word_labels=list(keys.word_labels),
    )
