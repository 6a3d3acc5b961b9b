"""Texts that the notebooks read, frozen in data/ (data/README.md has their origin, licence and SHA-256)."""

from __future__ import annotations

import json
from numbers import Integral
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
SPLITS = ("train", "validation", "test")
TARGETS = ("de", "ko")


def passages(n: int | None = None, words: int | None = None) -> list[str]:
    """English prose: the first ``n`` passages of a frozen list, all of them by default.

    A passage is a paragraph of 25 to 120 words out of the Python Language Reference (CPython 3.11.7, PSF-2.0). The
    order is fixed and mixes the topics, so the first n are a sample of all. It is technical prose: an effect seen
    here need not hold for other English.
    words: keep the passages of at least so many words, each cut to its first ``words`` words, so that all are of one
    length. Raises TypeError or ValueError for numbers that are not whole, below 1, or above what there is.
    """
    lines = (DATA / "passages.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    texts = [json.loads(line)["text"] for line in lines]
    if words is not None:
        longest = max(len(text.split()) for text in texts)
        _whole(words, "words", longest, "the longest passage has")
        texts = [" ".join(text.split()[:words]) for text in texts if len(text.split()) >= words]
    if n is not None:
        _whole(n, "n", len(texts), "there are" if words is None else f"with {words} words there are")
        texts = texts[:n]
    return texts


def docstring_pairs(n: int | None = None) -> list[tuple[str, str]]:
    """(query, passage): the first sentence of a docstring, and the rest of it, for retrieval; the first ``n`` pairs.

    Out of the public classes and functions of the standard library (CPython 3.11.7, PSF-2.0). A query has 5 to 25
    words, a passage 25 to 120. The order is fixed and mixes the modules. No two queries and no two passages share half
    of their words, and no passage holds a query. Raises TypeError or ValueError for an n that is not whole, below 1,
    or above what there is.
    """
    lines = (DATA / "docstrings.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    if n is not None:
        _whole(n, "n", len(lines), "there are")
    return [(each["query"], each["passage"]) for each in map(json.loads, lines[:n])]


def translation_pairs(split: str, target: str = "de") -> list[tuple[str, str]]:
    """English sentences with their translations into German ("de") or Korean ("ko"): (source, target) pairs.

    split: "train" (10,000 pairs, a sample of what the translators were trained on), "validation" or "test". They come
    from the help of LibreOffice (MPL-2.0): technical instructions. No help page, and no sentence of one, is in two
    splits, and no test sentence has a near-duplicate in training (data/translation/README.md gives the rule).
    """
    for value, name, known in ((split, "split", SPLITS), (target, "target", TARGETS)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    lines = (DATA / "translation" / f"{target}-{split}.tsv").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines)
    return [(source, translation) for source, translation in pairs]


def _whole(value: int, name: str, highest: int, why: str) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if not 1 <= value <= highest:
        raise ValueError(f"{name} must be from 1 to {highest} ({why} {highest}), got {value}")
