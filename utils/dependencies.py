"""Do heads follow the dependencies of a parse? After Voita et al. 2019 (arXiv 1905.09418), section 5.2."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from numbers import Integral
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from utils.attention.maps import AttentionMaps

DIRECTIONS = ("to governor", "to dependent")


class Arc(NamedTuple):
    """One dependency between words, numbered from 0: the dependent, the word that governs it, and the relation."""

    dependent: int
    governor: int
    relation: str


class Parse(NamedTuple):
    """The words of a text and the arcs between them. The words must be those of the map they are compared with."""

    words: list[str]
    arcs: list[Arc]


def dependency_scores(
    maps: Iterable[AttentionMaps | Tensor], parses: Iterable[Parse], *, least: int = 50
) -> pd.DataFrame:
    """How often the greatest weight of a head hits the other end of an arc: a row a head, relation and direction.

    maps: for each text the self-attention between words, without special tokens, as
    ``attention_maps(…)["encoder"].without_special().words()`` gives it, or a tensor (layers, heads, words, words).
    Heads that were removed (NaN in a map) have neither share nor gain.
    parses: one for each map. An arc from a word to itself (a root) is left out; least: relations with fewer arcs are.

    Columns: kind, layer, head, relation, direction – "to governor": the dependent reads, and should read its governor
    most; "to dependent": the other way round –, arcs, share (of arcs that are hit), baseline_offset and baseline (the
    fixed offset, in words, that hits most arcs of this relation, and its share), gain (share − baseline).
    The baseline is the null model: it is chosen on these very arcs, so it is a strict one. Voita et al. call a head
    syntactic from a gain of 0.1 on, among four relations; with many heads and relations some pass by luck, so choose
    on one half of the texts and report on the other, and see that no head of ``untrained(model)`` passes.
    Raises TypeError or ValueError when maps and parses do not belong together.
    """
    if not isinstance(least, Integral):
        raise TypeError(f"least must be a whole number of arcs, got {least!r}")
    maps, parses = list(maps), list(parses)
    if not maps or len(maps) != len(parses):
        raise ValueError(f"{len(maps)} maps need as many parses and at least one, got {len(parses)} parses")
    hits, offsets, shapes = {}, defaultdict(Counter), set()
    for index, (each, parse) in enumerate(zip(maps, parses, strict=True)):
        weights, place = _weights(each, index)
        shapes.add((*place, weights.shape[:2]))
        if len(shapes) > 1:
            raise ValueError(f"maps[{index}] has other layers or heads than those before: take one model, one kind")
        arcs = _arcs(each, weights.shape[-1], parse, index)
        best = weights.argmax(-1).masked_fill(weights.amax(-1) <= 0, -1)  # a row of zeros hits nothing
        unknown = weights.isnan().any(-1)
        for relation, direction, reader, read in arcs:
            key = (relation, direction)
            hit = (best[..., reader] == read).double().masked_fill(unknown[..., reader], torch.nan)
            hits[key] = hits.get(key, 0) + hit
            offsets[key][read - reader] += 1
    kept = {key: total for key, total in hits.items() if offsets[key].total() >= least}
    if not kept:
        most = max((each.total() for each in offsets.values()), default=0)
        raise ValueError(f"no relation has {least} arcs, the most frequent has {most}: give more texts or lower least")
    kind, layers, _ = shapes.pop()
    return pd.concat([_rows(kind, layers, *key, kept[key], offsets[key]) for key in sorted(kept)], ignore_index=True)


def _rows(kind: str, layers: tuple[int, ...], relation: str, direction: str, hits: Tensor, offsets: Counter):
    """The rows of one relation and direction, a head each."""
    arcs = offsets.total()
    baseline_offset, reached = min(offsets.items(), key=lambda item: (-item[1], abs(item[0]), item[0]))
    places = [(layer, head) for layer in layers for head in range(hits.shape[1])]
    frame = pd.DataFrame(places, columns=["layer", "head"])
    frame.insert(0, "kind", kind)
    frame = frame.assign(relation=relation, direction=direction, arcs=arcs, share=(hits / arcs).flatten().numpy())
    frame = frame.assign(baseline_offset=baseline_offset, baseline=reached / arcs)
    return frame.assign(gain=frame["share"] - frame["baseline"])


def _weights(maps: AttentionMaps | Tensor, index: int) -> tuple[Tensor, tuple[str, tuple[int, ...]]]:
    """Weights (layers, heads, words, words), and kind and layers."""
    if isinstance(maps, AttentionMaps):
        if maps.special_queries.any() or maps.special_keys.any():
            raise ValueError(f"maps[{index}] holds special tokens: take .without_special().words()")
        weights, place = maps.weights, (maps.kind, tuple(maps.layers))
    elif isinstance(maps, Tensor):
        weights, place = maps, ("encoder", tuple(range(maps.shape[0] if maps.ndim else 0)))
    else:
        raise TypeError(f"maps[{index}] must be AttentionMaps or a tensor, got {type(maps).__name__}")
    if weights.ndim != 4 or weights.shape[-1] != weights.shape[-2] or place[0] == "cross":
        raise ValueError(
            f"maps[{index}] must be self-attention (layers, heads, words, words), got the shape {tuple(weights.shape)}"
        )
    return weights, place


def _arcs(maps: AttentionMaps | Tensor, n: int, parse: Parse, index: int) -> list[tuple[str, str, int, int]]:
    """Each arc in both directions: relation, direction, the word that reads, the word to be read."""
    try:
        words, arcs = parse
        arcs = [Arc(*arc) for arc in arcs]
    except (TypeError, ValueError):
        raise TypeError(
            f"parses[{index}] must be Parse(words, arcs), arcs of (dependent, governor, relation)"
        ) from None
    if len(words) != n:
        raise ValueError(f"parses[{index}] has {len(words)} words, its map {n}: both must split the text alike")
    if isinstance(maps, AttentionMaps) and list(words) != maps.queries:
        at = next(i for i, pair in enumerate(zip(words, maps.queries, strict=True)) if pair[0] != pair[1])
        raise ValueError(f"parses[{index}], word {at}: the parse has {words[at]!r}, the map {maps.queries[at]!r}")
    found = []
    for dependent, governor, relation in arcs:
        if not isinstance(relation, str):
            raise TypeError(f"parses[{index}]: a relation must be a str such as 'nsubj', got {relation!r}")
        for word in (dependent, governor):
            if not isinstance(word, Integral) or isinstance(word, bool) or not 0 <= word < n:
                raise ValueError(f"parses[{index}]: word {word!r} of an arc does not exist: words are 0 to {n - 1}")
        if dependent != governor:
            found += [(relation, DIRECTIONS[0], dependent, governor), (relation, DIRECTIONS[1], governor, dependent)]
    return found
