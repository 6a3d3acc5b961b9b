"""The prepared corpus of one language pair: sets, tokenizer and counts, made once and kept in the work folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedTokenizerFast

from tools.translator import extract, prepare
from tools.translator.extract import INTERFACE, Pair
from tools.translator.tokenizer import train_tokenizer

VOCABULARY = {"de": (4000, 200), "ko": (6000, 1500)}  # pieces, characters
LONGEST = 64  # pieces; the few longer pairs are not trained on


class Corpus(NamedTuple):
    target: str
    sets: dict[str, list[Pair]]
    tokenizer: PreTrainedTokenizerFast
    counts: dict

    def ids(self, name: str) -> tuple[list[list[int]], list[list[int]]]:
        """Token ids of the sources and of the targets of one set; in training without the longest."""
        sources = self.tokenizer([pair.source for pair in self.sets[name]])["input_ids"]
        targets = self.tokenizer([pair.target for pair in self.sets[name]])["input_ids"]
        if name == "train":
            fits = [i for i in range(len(sources)) if max(len(sources[i]), len(targets[i])) <= LONGEST]
            sources, targets = [sources[i] for i in fits], [targets[i] for i in fits]
        return sources, targets


def text(pairs: list[Pair]) -> str:
    """Tab-separated lines: source, target, page."""
    return "".join(f"{pair.source}\t{pair.target}\t{pair.page}\n" for pair in pairs)


def describe(target: str, packages: list[Path], sets: dict[str, list[Pair]]) -> dict:
    """Counts and hashes: what the card of the corpus states."""
    return {
        "target": target,
        "packages": {package.name: extract.sha256(package) for package in packages},
        "sets": {
            name: {
                "pairs": len(pairs),
                "pages": len({pair.page for pair in pairs if pair.page}),
                "interface strings": sum(pair.page == INTERFACE for pair in pairs),
                "English words": sum(len(pair.source.split()) for pair in pairs),
                "sha256": hashlib.sha256(text(pairs).encode()).hexdigest(),
            }
            for name, pairs in sorted(sets.items())
        },
    }


def prepared(target: str, work: Path, packages: Path | None = None) -> Corpus:
    """Fetch, unpack, extract, clean, split and tokenize (about 30 s; the same packages give the same corpus)."""
    files = extract.fetch(target, packages or work / "packages")
    root = extract.unpack(files, work / "unpacked")
    pairs = [*extract.help_pairs(root, target), *extract.interface_pairs(root, target)]
    sets = prepare.split(pairs, target)
    pieces, alphabet = VOCABULARY[target]
    tokenizer = train_tokenizer((side for pair in sets["train"] for side in pair[:2]), pieces, alphabet)
    return Corpus(target, sets, tokenizer, describe(target, files, sets))
