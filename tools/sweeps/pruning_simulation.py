"""MiniLM as a search engine while its heads go: orders of many kinds, recall, drift, old index.

python -m tools.sweeps.pruning_simulation   about 10 minutes of one core; writes data/sweeps/pruning_simulation.json

Heads are ranked on the first 150 docstrings and judged on the others. Resumes after a kill. Lab 3 reads the result.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import torch
from torch import nn
from tqdm import tqdm

from tools.sweeps.record import earlier, made, write
from utils.corpora import DATA
from utils.heads import Head, heads_of
from utils.importance import ablation_effect
from utils.models import MINILM_SHA256, load, sha256, untrained
from utils.pruned_retrieval import (
    RANKED,
    SCORES,
    SHARES,
    Vectors,
    greedy_by_loss,
    interval,
    iterative_order,
    judged,
    ranking,
    split_pairs,
    vectors,
)
from utils.pruning import order_by, prune, random_order
from utils.search_index import ranks, search_batches, search_loss

NAME = "pruning_simulation"
SEEDS, NULLS = 5, 3  # random orders, untrained models
GREEDY, TOGETHER = 24, 8  # pairs of the greedy search (the shortest), heads that go in each of its rounds
ALONE = 24  # pairs on which each head is taken out alone
AGAIN, FEW = "fisher", 60  # the score whose ranking is made again on the way, on so many pairs (the shortest)


def orders(content: dict, model: nn.Module, tokenizer) -> Iterator[tuple[str, int | None, list[Head]]]:
    """(name, seed, heads, the first to go in front); those that take long are kept in the file."""
    pairs, stored = split_pairs().ranked, content["orders"]
    if not content["importance"]:
        content["importance"] = ranking(model, tokenizer, pairs).round(6).to_dict("records")
    if not content["one head out"]:
        batches = search_batches(tokenizer, pairs[:ALONE], ALONE)
        content["one head out"] = ablation_effect(model, batches, search_loss).round(6).to_dict("records")
    frame, shortest = pd.DataFrame(content["importance"]), sorted(pairs, key=lambda pair: len(pair[1]))
    for score in SCORES:
        yield score, None, order_by(frame, score)
    for seed in range(SEEDS):
        yield "random", seed, random_order(model, seed)
    if (name := f"{AGAIN}, iterative") not in stored:
        stored[name] = _plain(iterative_order(model, tokenizer, shortest[:FEW], AGAIN, first=frame))
        write(NAME, content)
    yield name, None, _heads(stored[name])
    if "greedy" not in stored:
        batches = search_batches(tokenizer, shortest[:GREEDY], GREEDY)
        stored["greedy"] = _plain(greedy_by_loss(model, batches, together=TOGETHER))
        write(NAME, content)
    yield "greedy", None, _heads(stored["greedy"])


def _plain(order: list[Head]) -> list[list[int]]:
    return [[head.layer, head.head] for head in order]


def _heads(order: list[list[int]]) -> list[Head]:
    return [Head(layer, head, "encoder") for layer, head in order]


def row(old: Vectors, new: Vectors) -> dict[str, float]:
    """Scores, and the intervals of what changed."""
    found = {name: round(value, 4) for name, value in judged(old, new).items()}
    before, after = ranks(*old), ranks(*new)
    for name, places in (("", after), ("mixed ", ranks(new.queries, old.passages))):
        found[f"{name}change"] = [round(each, 4) for each in interval(before, places)]
    return found


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load("minilm")
    pairs, corpus = split_pairs().judged, sha256(DATA / "docstrings.jsonl")
    facts = {"corpus": corpus, "ranked on": RANKED, "judged on": len(pairs), "random orders": SEEDS}
    facts |= {
        "one head out on": ALONE,
        "greedy on": f"the {GREEDY} shortest, {TOGETHER} heads a round",
        "ranked again on": f"the {FEW} shortest",
    }
    content = earlier(NAME, MINILM_SHA256)
    if content is None or content["made"]["corpus"] != corpus:
        content = {"importance": [], "one head out": [], "orders": {}, "null": [], "curves": []}
    content = {"made": made(NAME, model=MINILM_SHA256, **facts), **{k: v for k, v in content.items() if k != "made"}}
    old = vectors(model, tokenizer, pairs)
    for seed in range(len(content["null"]), NULLS):
        fresh = vectors(untrained(model, seed), tokenizer, pairs)
        content["null"].append({"seed": seed} | row(old, fresh))
    total, known = len(heads_of(model)), {frozenset(): row(old, old)}
    for name, seed, order in tqdm(orders(content, model, tokenizer), desc="orders"):
        for share in SHARES:
            gone = order[: round(share * total)]
            place = {"order": name, "seed": seed, "kept": total - len(gone)}
            stored = next((each for each in content["curves"] if place.items() <= each.items()), None)
            if stored is None:
                if frozenset(gone) not in known:
                    known[frozenset(gone)] = row(old, vectors(prune(model, gone).eval(), tokenizer, pairs))
                stored = place | known[frozenset(gone)]
                content["curves"].append(stored)
                write(NAME, content)
            known[frozenset(gone)] = {key: value for key, value in stored.items() if key not in place}


if __name__ == "__main__":
    main()
