"""Other choices of as many encoder heads as the gates leave, with the same tuning: which choice is better, and when?

python -m tools.sweeps.translator_choices   about 50 minutes on one core, after translator_gates; resumes after a kill

Heads are chosen by importance or at random, removed at once, and what is left is tuned as long as the gates were.
Writes data/sweeps/translator_choices.json, a row a choice, with the scores before and after the tuning.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import torch
from torch import nn
from tqdm import tqdm

from tools.sweeps.record import earlier, made, write
from tools.sweeps.translator_gates import RATE, STEPS, TRAINED, tune
from tools.sweeps.translator_heads import RANKED, Judge
from utils.corpora import translation_pairs
from utils.encoder_decoder import pair_batches, text_losses
from utils.heads import Head
from utils.importance import importance
from utils.models import DATA, load, sha256
from utils.pruning import order_by, prune, random_order
from utils.sweeps import sweep

PENALTIES = (0.02, 0.05)  # whose numbers of heads the other choices get
SEEDS, HEADS, NAME = 3, 48, "translator_choices"


def choices(model: nn.Module, frame: pd.DataFrame, counts: list[int]) -> Iterator[tuple[str, int | None, list[Head]]]:
    """(name, seed, encoder heads to remove): none as the control, then for each count of heads that are to stay."""
    yield "control", None, []
    for kept in counts:
        for score in ("absolute", "signed"):
            order = order_by(frame, score, kind="encoder")
            yield score, None, order[: len(order) - kept]
        for seed in range(SEEDS):
            order = random_order(model, seed, kind="encoder")
            yield "random", seed, order[: len(order) - kept]


def without_gates(model: nn.Module, data: list[dict], judge: Judge, gone: list[Head]) -> dict:
    """Heads removed at once, before and after the same tuning of what is left."""
    small = prune(model, gone)
    scores = judge.both(small)
    tune(small, data, penalty=0.0, start=20.0)
    return {"before": scores, "after": judge.both(small)}


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load("translator")
    judge, data = Judge(tokenizer, pairs=None), pair_batches(tokenizer, translation_pairs("train")[:TRAINED], size=40)
    frame = importance(model, pair_batches(tokenizer, translation_pairs("validation")[:RANKED]), text_losses)
    weights = sha256(DATA / "translator" / "model.safetensors")
    facts = {"model": weights, "steps": STEPS, "training pairs": TRAINED, "rate": RATE, "judged on": "test, strict"}
    content = earlier(NAME, weights) or {"made": {}, "choices": []}
    content["made"] = made(NAME, **facts)

    counts = {row["kept"] for row in sweep("translator_gates")["gates"] if row["penalty"] in PENALTIES}
    for name, seed, gone in tqdm(list(choices(model, frame, sorted(counts, reverse=True)))):
        place = {"order": name, "seed": seed, "kept": HEADS - len(gone)}
        if not any(place.items() <= row.items() for row in content["choices"]):
            content["choices"].append(place | without_gates(model, data, judge, gone))
            write(NAME, content)


if __name__ == "__main__":
    main()
