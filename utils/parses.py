"""Stored dependency parses of English sentences (data/parses/, made by ``python -m tools.parses`` with spaCy)."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import Literal, NamedTuple

from utils.attention.text import characters, visible, word_numbers
from utils.dependencies import Arc, Parse

FOLDER = Path(__file__).resolve().parent.parent / "data" / "parses"
NAMES = ("passages", "translation")
VOITA = ("nsubj", "dobj", "amod", "advmod")  # the relations of Voita et al. 2019 (arXiv 1905.09418), section 5.2

Name = Literal["passages", "translation"]


class Parsed(NamedTuple):
    """A sentence and its parse, in the words of ``attention_maps(…)["encoder"].without_special().words()``."""

    text: str
    parse: Parse


def parsed_sentences(name: Name, n: int | None = None) -> list[Parsed]:
    """Sentences with their parses, the first ``n`` of a fixed order that mixes the topics; all by default.

    name: "passages" – technical prose (``corpora.passages``), for a model of English such as MiniLM –, or
    "translation" – English sentences of the translators' test pairs (``corpora.translation_pairs``).

    The relations are spaCy's (nsubj, nsubjpass, dobj, amod, advmod, prep, pobj, det, …). The root is an arc of a word
    to itself, and punctuation has arcs too. spaCy splits "don't" into two tokens, the maps do not: what it splits is
    one word here, and arcs within a word are left out. The parser itself is wrong about one arc in ten
    (``parse_facts`` has its record), perhaps more often on such technical texts.
    Raises TypeError or ValueError for another name or an n that is not there.
    """
    lines = _lines(name)[1:]
    if n is not None:
        if not isinstance(n, Integral) or isinstance(n, bool):
            raise TypeError(f"n must be a whole number of sentences, got {n!r}")
        if not 1 <= n <= len(lines):
            raise ValueError(f"n must be from 1 to {len(lines)}, the sentences of {name!r}, got {n}")
    return [_parsed(line) for line in lines[:n]]


def parse_facts(name: Name) -> dict:
    """Where the parses come from: texts, licence, tool, model, SHA-256 of its weights, its accuracy by its own record
    (uas: heads that are right, las: heads and relations), sentences, and relations: how many arcs each has."""
    head, *lines = _lines(name)
    count = Counter(relation for line in lines for relation in line["relations"].split())
    return head | {"sentences": len(lines), "relations": dict(count.most_common())}


@cache
def _lines(name: Name) -> list[dict]:
    if name not in NAMES:
        raise ValueError(f"no parses are called {name!r}: there are {', '.join(map(repr, NAMES))}")
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def _parsed(line: dict) -> Parsed:
    """A stored line, its tokens put together to the words of the maps."""
    text = line["text"]
    of_point = word_numbers(text, characters(text))
    of_token = [of_point[start] for start in line["spans"][::2]]
    words = [[] for _ in range(1 + max(word for word in of_point if word is not None))]
    for point, word in zip(text, of_point, strict=True):
        if word is not None:
            words[word].append(point)
    arcs = [
        Arc(of_token[token], of_token[head], relation)
        for token, (head, relation) in enumerate(zip(line["heads"], line["relations"].split(), strict=True))
        if token == head or of_token[token] != of_token[head]
    ]
    return Parsed(text, Parse([visible("".join(each)) for each in words], arcs))
