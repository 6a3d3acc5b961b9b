"""Which source word belongs to which target word: references that are not attention, and how well cross maps meet them.

A *link* ties the first piece of a target word to the pieces of one source word. Links come from words that stand
unchanged in both sentences, or from a word-for-word translation model trained on sentence pairs alone (IBM Model 1:
Brown et al. 1993, Computational Linguistics 19(2), section 4). Both know nothing of the attention that they judge.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from utils.attention.scope import evaluating

WORD = re.compile(r"\w+(?:[-']\w+)*|[^\w\s]")
NOTHING = 0  # number of the empty source word, from which a target word may come

Span = tuple[int, int]  # characters of a word
Pair = tuple[str, str]
Spans = list[tuple[int, int]]  # (source word, target word), by their places


class Link(NamedTuple):
    """row: place of the target word's first piece among the labels; pieces: of the source word, in the source's ids."""

    row: int
    pieces: tuple[int, ...]
    source: str
    target: str


def spans_of(text: str) -> list[Span]:
    """Where the words and marks of a text begin and end."""
    return [found.span() for found in WORD.finditer(text)]


def words_of(text: str) -> list[str]:
    """The words and marks of a text, in lower case."""
    return [text[start:end].lower() for start, end in spans_of(text)]


class WordModel:
    """IBM Model 1: for each source word a distribution over target words, learned from sentence pairs by EM.

    Every target word comes from one source word of its sentence, or from none, whatever their places.
    """

    def __init__(self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]], rounds: int = 5):
        pairs = [(list(source), list(target)) for source, target in pairs]
        if not any(source and target for source, target in pairs):
            raise ValueError("there are no words to learn from: give pairs of lists of words")
        self.sources: dict[str, int] = {}
        self.targets: dict[str, int] = {}
        left, right, group = [], [], []
        for source, target in pairs:
            numbers = [NOTHING, *(self.sources.setdefault(word, len(self.sources) + 1) for word in source)]
            for word in target:
                left += numbers
                right += [self.targets.setdefault(word, len(self.targets))] * len(numbers)
                group += [group[-1] + 1 if group else 0] * len(numbers)
        left, right, group = (np.array(each) for each in (left, right, group))
        found, inverse = np.unique(left * len(self.targets) + right, return_inverse=True)
        chances, owner = np.ones(len(found)), found // len(self.targets)
        for _ in range(rounds):
            share = chances[inverse]
            share = share / np.bincount(group, share)[group]
            counts = np.bincount(inverse, share)
            chances = counts / np.bincount(owner, counts)[owner]
        self.chances = dict(zip(found.tolist(), chances.tolist(), strict=True))

    def chance(self, source: str | None, target: str) -> float:
        """The learned chance that this source word (None: nothing) gives this target word; 0 if never seen together."""
        left = NOTHING if source is None else self.sources.get(source)
        right = self.targets.get(target)
        unknown = left is None or right is None
        return 0.0 if unknown else self.chances.get(left * len(self.targets) + right, 0.0)

    def origins(self, source: Sequence[str], target: Sequence[str]) -> list[int | None]:
        """For each target word the place of its most likely source word; None for nothing, or an unknown word."""
        found = []
        for word in target:
            chances = [self.chance(each, word) for each in [None, *source]]
            best = int(np.argmax(chances))
            found.append(best - 1 if best and chances[best] > 0 else None)
        return found


def agreed(forward: WordModel, backward: WordModel) -> Callable[[str, str], Spans]:
    """Pairs of word places on which two models agree: source to target, and one trained the other way round."""

    def of(source: str, target: str) -> Spans:
        left, right = words_of(source), words_of(target)
        there, back = forward.origins(left, right), backward.origins(right, left)
        return [(i, j) for j, i in enumerate(there) if i is not None and back[i] == j]

    return of


def unchanged(source: str, target: str) -> Spans:
    """Places of words (not marks) that stand once in each sentence, the same: numbers, names of programs and keys."""
    sides = [words_of(source), words_of(target)]
    once = [{word for word, count in Counter(side).items() if count == 1} for side in sides]
    both = [word for word in sides[0] if word in once[0] & once[1] and word[0].isalnum()]
    return [(sides[0].index(word), sides[1].index(word)) for word in both]


def links(tokenizer, pair: Pair, spans: Spans) -> list[Link]:
    """Links between pieces, for places of words as ``unchanged`` and ``agreed`` give them."""
    words = [spans_of(side) for side in pair]
    pieces = [_pieces(tokenizer, side, found) for side, found in zip(pair, words, strict=True)]
    found = []
    for source, target in spans:
        left, right = pieces[0].get(source, ()), pieces[1].get(target, ())
        if left and right:
            texts = [side[slice(*each[place])] for side, each, place in zip(pair, words, (source, target), strict=True)]
            found.append(Link(right[0], left, *texts))
    return found


def _pieces(tokenizer, text: str, spans: list[Span]) -> dict[int, tuple[int, ...]]:
    """Word → its pieces. A piece belongs to the word that holds its last character."""
    found: dict[int, tuple[int, ...]] = {}
    for piece, (start, end) in enumerate(tokenizer(text, return_offsets_mapping=True)["offset_mapping"]):
        for word, (first, last) in enumerate(spans):
            if start < end and first < end <= last:
                found[word] = (*found.get(word, ()), piece)
    return found


class Reading(NamedTuple):
    """One text: best, the source piece read most, and on_end, the weight on the source's end (layers, heads, rows)."""

    best: Tensor
    on_end: Tensor
    sources: int


@torch.no_grad()
def readings(model: nn.Module, batches: Iterable[dict[str, Tensor]]) -> list[Reading]:
    """What every cross head reads most in each row, among the source's pieces without its end token.

    Row t of the decoder has read the labels before t, and is about to write label t.
    """
    found = []
    with evaluating(model):
        for batch in batches:
            outputs = model(**batch, output_attentions=True)
            weights = torch.stack(outputs.cross_attentions, dim=1)  # (texts, layers, heads, rows, source)
            for text, each in enumerate(weights):
                size, rows = int(batch["attention_mask"][text].sum()), int((batch["labels"][text] >= 0).sum())
                kept = each[:, :, :rows]
                found.append(Reading(kept[..., : size - 1].argmax(-1), kept[..., size - 1], size - 1))
    return found


def hits(reading: Reading, found: Sequence[Link], shift: int = 0) -> Tensor:
    """Whether each head reads the linked source word most: (links, layers, heads), boolean.

    shift 0: in the row that is about to write the target word's first piece; 1: in the row that has just read it.
    """
    if not found:
        return torch.zeros(0, *reading.best.shape[:2], dtype=torch.bool)
    last = reading.best.shape[-1] - 1
    rows = [reading.best[..., min(max(link.row + shift, 0), last)] for link in found]
    return torch.stack([torch.isin(row, torch.tensor(link.pieces)) for row, link in zip(rows, found, strict=True)])


def diagonal(reading: Reading, found: Sequence[Link], shift: int = 0) -> Tensor:
    """The null model that goes by place alone: is the source piece at the same share of its text linked? (links,).

    shift as in ``hits``: which row's place counts.
    """
    rows = reading.best.shape[-1]
    of_link = (min(link.row + shift, rows - 1) for link in found)
    places = [int((row + 0.5) / rows * reading.sources) for row in of_link]
    return torch.tensor([place in link.pieces for place, link in zip(places, found, strict=True)], dtype=torch.bool)


def exchanged(found: Sequence[Link], seed: int = 0) -> list[Link]:
    """The null model that goes by sentence alone: every target word gets the source word of another link of its text.

    The only link of a text gets none.
    """
    if len(found) == 1:
        return [found[0]._replace(pieces=(), source="")]
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed)).tolist()
    moved = dict(zip(order, order[1:] + order[:1], strict=True))
    return [link._replace(pieces=found[moved[i]].pieces, source=found[moved[i]].source) for i, link in enumerate(found)]


def word_links(pairs: Iterable[Pair], rounds: int = 4) -> Callable[[str, str], Spans]:
    """Train Model 1 on sentence pairs in both directions; the links of a pair are those on which the two agree."""
    words = [[words_of(side) for side in pair] for pair in pairs]
    return agreed(WordModel(words, rounds), WordModel([pair[::-1] for pair in words], rounds))


def hit_rate(found: Iterable[Reading], by_text: Iterable[Sequence[Link]], shift: int = 0) -> Tensor:
    """Share of the links of all texts that each head hits: (layers, heads). shift as in ``hits``."""
    each = [hits(reading, list(some), shift) for reading, some in zip(found, by_text, strict=True)]
    return torch.cat(each).double().mean(dim=0)


def null_rates(found: Sequence[Reading], by_text: Sequence[Sequence[Link]], shift: int = 0) -> dict[str, Tensor]:
    """Hit rates that need no alignment: by place, "diagonal" (1, 1), and by sentence, "exchanged" (layers, heads).

    shift as in ``hits``.
    """
    near = torch.cat([diagonal(reading, some, shift) for reading, some in zip(found, by_text, strict=True)])
    return {
        "diagonal": near.double().mean().view(1, 1),
        "exchanged": hit_rate(found, [exchanged(some) for some in by_text], shift),
    }


def linked(tokenizer, pairs: Iterable[Pair], find: Callable[[str, str], Spans]) -> list[list[Link]]:
    """The links of each pair; find says which words belong together: ``unchanged``, or what ``word_links`` gives."""
    return [links(tokenizer, pair, find(*pair)) for pair in pairs]
