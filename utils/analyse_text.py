"""Exercise N.6 of the assessment "Analyse": what a diagnosis says of heads in words that can be read, and measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

from utils import analyse_truth as truth
from utils.analyse import FLOOR, name
from utils.heads import Head

NAMED = re.compile(r"\bL(\d)H(\d)\b")
NATS = re.compile(r"(\d+\.\d+)\s*nats?\b")
HEADS = r"L\dH\d(?:(?:, and|,| and)? L\dH\d)*"
SUBJECT = rf"(?<!nor )(?<!whether )(?<!if )\b(L\dH\d(?= is)|{HEADS}(?= are))"
SAID = re.compile(SUBJECT + r" (?:is|are)(?: both| all)? (needed|idle|duplicates)\b")
KINDS = {"needed": "L9H1 is needed", "idle": "L9H1 is idle", "duplicates": "L9H1 and L9H2 are duplicates"}
IDLE = FLOOR / 10  # nats a token; what an idle head may cost alone


def heads_in(text: str) -> list[Head]:
    """Heads named in a text, such as L0H3, in its order."""
    return [Head(int(layer), int(number), "decoder") for layer, number in NAMED.findall(text)]


def claims_of(text: str) -> list[tuple[list[Head], str]]:
    """What a text says in the words of ``KINDS``: (heads, kind), in its order."""
    return [(heads_in(heads), kind) for heads, kind in SAID.findall(" ".join(text.split()))]


def holds(text: str, gone: Iterable[Head]) -> None:
    """AssertionError if a claim of a text is missing or does not agree with the model, whose heads ``gone`` go."""
    gone, said = list(gone), claims_of(text)
    for heads, kind in said:
        {"needed": _needed, "idle": _idle, "duplicates": _duplicates}[kind](heads, gone)
    for kind, example in KINDS.items():
        assert any(kind == each for _, each in said), f"no sentence says which heads are {kind}: write {example!r}"


def _needed(heads: list[Head], gone: list[Head]) -> None:
    for each in heads:
        assert each not in gone, f"you write that {name(each)} is needed, and prune it"
        alone, after = truth.cost([each]), truth.cost([*gone, each]) - truth.cost(gone)
        assert max(alone, after) > FLOOR, (
            f"you write that {name(each)} is needed: without it alone the loss rises by {alone:.3f} nats, after your "
            f"pruning by {after:.3f}, and neither is more than {FLOOR}"
        )


def _idle(heads: list[Head], gone: list[Head]) -> None:
    for each in heads:
        alone, both = truth.cost([each]), truth.cost({*gone, each})
        words = f"you write that {name(each)} is idle: without it alone the loss rises by {alone:.3f} nats"
        assert alone <= IDLE, f"{words}, more than {IDLE}"
        assert both <= FLOOR, f"{words}, and by {both:.3f} without it and the heads that you prune"


def _duplicates(heads: list[Head], gone: list[Head]) -> None:
    assert len(heads) > 1, f"you write that {name(heads[0])} is a duplicate: name both heads of the pair"
    for one, other in combinations(sorted(heads), 2):
        words = f"you write that {name(one)} and {name(other)} are duplicates: "
        assert one.layer == other.layer, words + "they lie in two layers, and duplicates share one. Name pair by pair"
        distance, cosine = truth.compared().get((one, other), (0.0, 1.0))
        assert one != other and (one, other) in truth.duplicates(), (
            f"{words}their maps differ by {distance:.2f}, their W_V W_O have cosine {cosine:.2f}. Name pair by pair"
        )
