"""Attention maps of one text: who reads whom, in every layer and head."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Literal

import pandas as pd
import torch
from torch import Tensor

from utils.attention.text import count

Kind = Literal["encoder", "decoder", "cross"]
FRAME_ROWS = 5_000_000  # rows that ``to_frame`` makes at most


@dataclass(repr=False)
class AttentionMaps:
    """Weights of one text with the labels of their rows (queries: who reads) and columns (keys: who is read).

    weights: (layers, heads, queries, keys), float32; a row sums to 1. layers: the numbers of the layers in the model.
    query_words, key_words: the word of each piece, None for a special token. special_queries, special_keys: boolean
    masks. groups: the key/value head that each query head reads (its own number but in grouped-query models).
    dropped: (layers, heads), the share of weight on special keys, after ``without_special()``. notices: what the
    reader of a figure should be told.
    """

    weights: Tensor
    queries: list[str]
    keys: list[str]
    layers: list[int] = field(default_factory=list)
    kind: Kind = "encoder"
    query_words: list[int | None] = field(default_factory=list)
    key_words: list[int | None] = field(default_factory=list)
    special_queries: Tensor | None = None
    special_keys: Tensor | None = None
    notices: list[str] = field(default_factory=list)
    dropped: Tensor | None = None
    groups: list[int] = field(default_factory=list)
    query_word_labels: list[str] = field(default_factory=list)
    key_word_labels: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weights = torch.as_tensor(self.weights)
        expected = (len(self.queries), len(self.keys))
        if self.weights.ndim != 4 or tuple(self.weights.shape[-2:]) != expected:
            raise ValueError(
                f"weights must have the shape (layers, heads, {expected[0]} queries, {expected[1]} keys), "
                f"got {tuple(self.weights.shape)}"
            )
        self.layers = list(self.layers) or list(range(self.weights.shape[0]))
        if len(set(self.layers)) != self.weights.shape[0]:
            raise ValueError(f"weights hold {count(self.weights.shape[0], 'layer')}, layers names {self.layers}")
        self.groups = list(self.groups) or list(range(self.weights.shape[1]))
        for side, labels in (("query", self.queries), ("key", self.keys)):
            plural = {"query": "queries", "key": "keys"}[side]
            mask = getattr(self, f"special_{plural}")
            mask = torch.as_tensor([False] * len(labels) if mask is None else mask, dtype=torch.bool)
            setattr(self, f"special_{plural}", mask)
            for name, given in ((f"special_{plural}", mask), (f"{side}_words", getattr(self, f"{side}_words"))):
                if len(given) not in (len(labels), 0):
                    raise ValueError(
                        f"{name} must have an entry for each of the {len(labels)} {plural}, got {len(given)}"
                    )
            if not getattr(self, f"{side}_words"):
                special = getattr(self, f"special_{plural}").tolist()
                ranks = iter(range(len(labels)))
                setattr(self, f"{side}_words", [None if mark else next(ranks) for mark in special])
                setattr(self, f"{side}_word_labels", [t for t, mark in zip(labels, special, strict=True) if not mark])
            numbers_ = [word for word in getattr(self, f"{side}_words") if word is not None]
            if not getattr(self, f"{side}_word_labels") and numbers_:
                setattr(self, f"{side}_word_labels", _joined(labels, getattr(self, f"{side}_words"), max(numbers_) + 1))

    def __repr__(self) -> str:
        units = ("layer", "head", "row", "column")
        size = ", ".join(count(number, unit) for number, unit in zip(self.weights.shape, units, strict=True))
        return f"AttentionMaps({'; '.join([f'{self.kind}: {size}', *self.notices])})"

    def head(self, layer: int, head: int) -> Tensor:
        """The map (queries, keys) of one head; ``layer`` is its number in the model. Raises ValueError."""
        n_heads = self.weights.shape[1]
        for value, name in ((layer, "layer"), (head, "head")):
            if not isinstance(value, Integral) or isinstance(value, bool):
                raise TypeError(f"{name} must be a whole number, got {value!r}")
        if layer not in self.layers:
            raise ValueError(f"layer {layer} is not in these maps: they hold {numbers(self.layers)}")
        if not 0 <= head < n_heads:
            raise ValueError(f"head {head} does not exist: layer {layer} has heads 0 to {n_heads - 1}")
        return self.weights[self.layers.index(layer), head]

    def words(self) -> AttentionMaps:
        """Maps between words: the mean over the pieces of a reading word, the sum over the pieces of a read one.

        Rows still sum to 1. Special tokens stay as they are. Source: Clark et al. 2019 (arXiv 1906.04341), section 4.1.
        """
        rows, queries, query_words, special_queries = _by_word(self, "query")
        columns, keys, key_words, special_keys = _by_word(self, "key")
        rows = rows / rows.sum(dim=-1, keepdim=True)
        weights = torch.einsum("aq,lhqk,bk->lhab", rows, self.weights.double(), columns)
        return replace(
            self,
            weights=weights.float(),
            queries=queries,
            keys=keys,
            query_words=query_words,
            key_words=key_words,
            special_queries=special_queries,
            special_keys=special_keys,
        )

    def without_special(self) -> AttentionMaps:
        """Maps among the ordinary tokens: special rows and columns go, the rows are divided by what is left of them.

        ``dropped`` (layers, heads) of the result is the mean share of weight that ordinary rows had on special keys.
        A row that had all its weight there stays a row of zeros, and a notice counts such rows; another notice counts
        the rows of which less than a thousandth was left. Raises ValueError if no ordinary token is there.
        """
        rows, columns = ~self.special_queries, ~self.special_keys
        if not rows.any() or not columns.any():
            raise ValueError("nothing is left without special tokens: the maps hold no ordinary token")
        ordinary = self.weights[:, :, rows].double()
        kept = ordinary[..., columns]
        left = kept.sum(dim=-1, keepdim=True)
        weights = torch.where(left == 0, 0.0, kept / left.where(left > 0, 1.0)).float()  # NaN stays NaN
        dropped = (ordinary[..., ~columns].sum(dim=-1)).mean(dim=-1).float()
        notices = list(self.notices)
        empty, faint, total = int((left == 0).sum()), int(((left > 0) & (left < 1e-3)).sum()), left.numel()
        if empty:
            notices.append(f"{empty} of {count(total, 'row')} had all weight on special tokens and are left at zero")
        if faint:
            notices.append(
                f"{faint} of {count(total, 'row')} had less than a thousandth of the weight left, which is scaled up"
            )
        return replace(
            self,
            weights=weights,
            queries=_kept(self.queries, rows),
            keys=_kept(self.keys, columns),
            query_words=_kept(self.query_words, rows),
            key_words=_kept(self.key_words, columns),
            special_queries=self.special_queries[rows],
            special_keys=self.special_keys[columns],
            dropped=dropped if self.dropped is None else self.dropped,
            notices=notices,
        )

    def to_frame(self) -> pd.DataFrame:
        """A row a weight: layer, head, query and key (positions), query_label and key_label, weight."""
        if self.weights.numel() > FRAME_ROWS:
            raise ValueError(
                f"the frame would have {self.weights.numel():,} rows, more than {FRAME_ROWS:,}: "
                "take one head with .head(layer, head), or fewer layers"
            )
        sizes = [torch.tensor(self.layers), *(torch.arange(size) for size in self.weights.shape[1:])]
        layer, head, query, key = (grid.flatten().numpy() for grid in torch.meshgrid(*sizes, indexing="ij"))
        frame = pd.DataFrame({"layer": layer, "head": head, "query": query, "key": key})
        frame["query_label"] = [self.queries[index] for index in query]
        frame["key_label"] = [self.keys[index] for index in key]
        frame["weight"] = self.weights.flatten().numpy()
        return frame


def numbers(values: list[int]) -> str:
    """ "layer 3", "layers 0 to 5" or "layers 0, 2, 5", for a message."""
    if len(values) == 1:
        return f"layer {values[0]}"
    if values == list(range(values[0], values[-1] + 1)):
        return f"layers {values[0]} to {values[-1]}"
    return "layers " + ", ".join(map(str, values))


def _joined(labels: list[str], words: list[int | None], size: int) -> list[str]:
    """A label for each word, where none is given: its pieces, one after the other."""
    return ["".join(label for label, word in zip(labels, words, strict=True) if word == each) for each in range(size)]


def _kept(values: list, mask: Tensor) -> list:
    return [value for value, keep in zip(values, mask.tolist(), strict=True) if keep]


def _by_word(maps: AttentionMaps, side: Literal["query", "key"]) -> tuple[Tensor, list[str], list[int | None], Tensor]:
    """Membership (words, pieces), labels, word numbers and special mask after grouping; a special token stays alone."""
    words = maps.query_words if side == "query" else maps.key_words
    labels = maps.queries if side == "query" else maps.keys
    names = maps.query_word_labels if side == "query" else maps.key_word_labels
    special = (maps.special_queries if side == "query" else maps.special_keys).tolist()
    groups: dict[object, int] = {}
    member = [groups.setdefault(("piece", i) if word is None else word, len(groups)) for i, word in enumerate(words)]
    matrix = torch.zeros(len(groups), len(words), dtype=torch.float64)
    matrix[member, torch.arange(len(words))] = 1.0
    first = [member.index(group) for group in range(len(groups))]
    numbers_ = [words[index] for index in first]
    shown = [labels[index] if words[index] is None else names[words[index]] for index in first]
    return matrix, shown, numbers_, torch.tensor([special[index] for index in first], dtype=torch.bool)
