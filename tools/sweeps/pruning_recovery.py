"""MiniLM as a search engine after a short tuning: gates that learn which heads close, distillation of what is left.

python -m tools.sweeps.pruning_recovery   about 5 minutes of one core, after pruning_simulation; resumes after a kill

Writes data/sweeps/pruning_recovery.json. Lab 3 reads the result.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pandas as pd
import torch
from torch import nn
from tqdm import tqdm

from tools.sweeps.pruning_simulation import row
from tools.sweeps.record import earlier, made, write
from utils.corpora import DATA
from utils.heads import Head
from utils.models import MINILM_SHA256, load, sha256
from utils.pruned_retrieval import RANKED, distil, split_pairs, vectors
from utils.pruning import fit_gates, order_by, prune, random_order
from utils.search_index import search_batches, search_loss, text_batches
from utils.sweeps import sweep

NAME = "pruning_recovery"
STEPS, RATE, TEXTS = 40, 1e-4, 12  # of the distillation; texts a batch
KEPT, SEEDS = 18, 3  # heads that are left, random orders
PENALTIES, GATE_STEPS, GATE_PAIRS, GATE_RATE = (0.01, 0.04), 40, 8, 5e-5


def choices(model: nn.Module) -> Iterator[tuple[str, int | None, list[Head]]]:
    """(name, seed, heads to remove) of what is tuned."""
    frame = pd.DataFrame(sweep("pruning_simulation")["importance"])
    for score in ("signed", "absolute", "fisher"):
        yield score, None, order_by(frame, score)[: len(frame) - KEPT]
    for seed in range(SEEDS):
        yield "random", seed, random_order(model, seed)[: len(frame) - KEPT]


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load("minilm")
    split, corpus = split_pairs(), sha256(DATA / "docstrings.jsonl")
    facts = {"corpus": corpus, "steps": STEPS, "rate": RATE, "texts a step": TEXTS, "texts": 2 * RANKED}
    facts |= {"gate steps": GATE_STEPS, "pairs a gate step": GATE_PAIRS, "judged on": len(split.judged)}
    content = earlier(NAME, MINILM_SHA256)
    if content is None or content["made"]["corpus"] != corpus:
        content = {"gates": [], "tuned": []}
    content = {"made": made(NAME, model=MINILM_SHA256, **facts), **{k: v for k, v in content.items() if k != "made"}}
    old = vectors(model, tokenizer, split.judged)

    texts = sorted((text for pair in split.ranked for text in pair), key=len)
    batches = text_batches(tokenizer, texts, TEXTS)
    for name, seed, gone in tqdm(list(choices(model)), desc="tuned"):
        place = {"order": name, "seed": seed, "kept": 72 - len(gone)}
        if any(place.items() <= each.items() for each in content["tuned"]):
            continue
        small = prune(model, gone)
        losses = distil(small, model, batches, steps=STEPS, learning_rate=RATE).losses
        ends = {"loss": [round(float(losses[:5].mean()), 4), round(float(losses[-5:].mean()), 4)]}
        content["tuned"].append(place | ends | row(old, vectors(small.eval(), tokenizer, split.judged)))
        write(NAME, content)

    few = search_batches(tokenizer, split.ranked[: RANKED // GATE_PAIRS * GATE_PAIRS], GATE_PAIRS)
    for penalty in tqdm(PENALTIES, desc="gates"):
        if any(each["penalty"] == penalty for each in content["gates"]):
            continue
        changed = copy.deepcopy(model)
        gates, _ = fit_gates(
            changed, few, search_loss, penalty=penalty, steps=GATE_STEPS, gate_rate=0.3, rate=GATE_RATE
        )
        small = prune(changed, gates.closed_heads())
        kept = [[head.layer, head.head] for head in gates.open_heads()]
        found = row(old, vectors(small.eval(), tokenizer, split.judged))
        content["gates"].append({"penalty": penalty, "kept": len(kept), "heads": kept} | found)
        write(NAME, content)


if __name__ == "__main__":
    main()
