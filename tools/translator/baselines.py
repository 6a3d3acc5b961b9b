"""What a translator is compared with: a word-by-word dictionary learned from the same training pairs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from tools.translator.extract import Pair

UNIT = re.compile(r"[^\W\d_]+|\d+|\S")


class Dictionary:
    """Translates every word by its likeliest translation, in the order of the source.

    The word probabilities are those of IBM model 1 (Brown et al. 1993, "The mathematics of statistical machine
    translation", section 4.2), by expectation maximisation from uniform ones. Unknown words are copied.
    """

    def __init__(self, pairs: Iterable[Pair], iterations: int = 4):
        split = [(UNIT.findall(pair.source.lower()), UNIT.findall(pair.target)) for pair in pairs]
        probability: dict[str, dict[str, float]] = {}
        for _ in range(iterations):
            counts: dict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
            for source, target in split:
                for word in target:
                    shares = [probability[other][word] if probability else 1.0 for other in source]
                    total = sum(shares)
                    for other, share in zip(source, shares, strict=True):
                        counts[other][word] += share / total
            sums = {other: sum(row.values()) for other, row in counts.items()}
            probability = {
                other: {word: count / sums[other] for word, count in row.items()} for other, row in counts.items()
            }
        self.best = {other: max(row, key=row.__getitem__) for other, row in probability.items()}

    def __call__(self, sentence: str) -> str:
        """Punctuation keeps its place and its spaces."""
        return UNIT.sub(lambda match: self.best.get(match.group().lower(), match.group()), sentence)
