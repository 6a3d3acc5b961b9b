"""Clean the pairs and split them by help page, with nothing of a test page left in training.

Two rules keep the sets apart. 1. A page is in one set only, and a sentence that stands anywhere on a test or
validation page is never trained on (compared by ``key``: lower case, letters only, digits alike). 2. A test sentence
with a near-duplicate in training (``near_duplicates``) leaves the strict test set; the page-disjoint one keeps it.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable

from tools.translator.extract import INTERFACE, Pair

MAX_WORDS = 25
NEAR = 0.6  # share of word n-grams two sentences have in common, from which on they count as near-duplicates
WORD = re.compile(r"[^\W\d_]+|\d")


def clean(text: str) -> str:
    """NFC, one kind of space, no invisible hyphens."""
    text = unicodedata.normalize("NFC", text).replace("\u00ad", "").replace("\u200b", "")
    return re.sub(r"\s+", " ", text).strip()


def key(text: str) -> str:
    """What two sentences share when they differ in case, punctuation, spacing or digits only."""
    return " ".join("0" if word.isdigit() else word for word in WORD.findall(text.lower()))


def usable(pair: Pair, target: str) -> bool:
    """Full words in both languages, not too long, of comparable length."""
    if not 2 <= len(pair.source.split()) <= MAX_WORDS or len(pair.target) < 2:
        return False
    for text in (pair.source, pair.target):
        if sum(c.isalpha() or c == " " for c in text) < 0.75 * len(text):
            return False
    ratio = len(pair.source) / (len(pair.target) * (1.8 if target == "ko" else 1.0))
    return 0.4 < ratio < 2.5


def unique(pairs: Iterable[Pair]) -> list[Pair]:
    """The first pair of every (source, target)."""
    return list({(key(pair.source), pair.target.lower()): pair for pair in reversed(list(pairs))}.values())[::-1]


def grams(text: str) -> set[str]:
    """Words and pairs of neighbouring words of ``key(text)``."""
    words = key(text).split()
    return {*words, *(f"{a} {b}" for a, b in zip(words, words[1:], strict=False))}


def near_duplicates(sentences: list[str], others: list[str], threshold: float = NEAR) -> list[float]:
    """For each sentence the largest Jaccard index of its n-grams with those of any of ``others``.

    Exact above ``threshold``; below it 0 may stand for any smaller value: only others that share one of the rarest
    n-grams are compared, and a Jaccard index of t leaves at most a share 1 − t of the n-grams unshared.
    """
    sets = [grams(text) for text in others]
    frequency = Counter(gram for gramset in sets for gram in gramset)
    where = defaultdict(list)
    for i, gramset in enumerate(sets):
        for gram in gramset:
            where[gram].append(i)
    best = []
    for text in sentences:
        mine = grams(text)
        rarest = sorted(mine, key=lambda gram: frequency[gram])[: int((1 - threshold) * len(mine)) + 1]
        rivals = {i for gram in rarest for i in where[gram]}
        best.append(max((len(mine & sets[i]) / len(mine | sets[i]) for i in rivals), default=0.0))
    return best


def split(
    pairs: list[Pair], target: str, test: int = 1600, validation: int = 700, seed: int = 1
) -> dict[str, list[Pair]]:
    """Sets "train", "validation", "test" (strict) and "test-pages" (rule 1 only), from pages drawn with ``seed``.

    test and validation: how many sentences to draw at least, before near-duplicates leave. Held-out sentences have
    four words and more: sentences rather than labels.
    """
    pairs = [Pair(clean(pair.source), clean(pair.target), pair.page) for pair in pairs]
    on_page = defaultdict(list)
    for pair in pairs:
        on_page[pair.page].append(pair)
    pages = sorted(page for page in on_page if page != INTERFACE)
    random.Random(seed).shuffle(pages)

    held_out: set[str] = set()  # every sentence of a test or validation page, whether it is used there or not
    sets: dict[str, list[Pair]] = {}
    for name, size in (("test-pages", test), ("validation", validation)):
        chosen: dict[str, Pair] = {}
        seen: set[str] = set()
        while len(chosen) < size:
            if not pages:
                raise ValueError(f"not enough pages for {size} {name} sentences: only {len(chosen)} found")
            for pair in on_page.pop(pages.pop()):
                seen.add(key(pair.source))
                if usable(pair, target) and len(pair.source.split()) >= 4 and key(pair.source) not in held_out:
                    chosen.setdefault(key(pair.source), pair)
        held_out |= seen
        sets[name] = list(chosen.values())

    rest = (pair for page in on_page.values() for pair in page)
    sets["train"] = unique(pair for pair in rest if usable(pair, target) and key(pair.source) not in held_out)
    trained = [pair.source for pair in sets["train"]]
    for name, source in (("test", "test-pages"), ("validation", "validation")):
        near = near_duplicates([pair.source for pair in sets[source]], trained)
        sets[name] = [pair for pair, share in zip(sets[source], near, strict=True) if share < NEAR]
    return sets
