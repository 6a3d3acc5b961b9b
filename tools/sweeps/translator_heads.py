"""What the translator's heads are worth, one attention type at a time, without any training.

python -m tools.sweeps.translator_heads   about 25 minutes on one core; writes data/sweeps/translator_heads.json

Heads are ranked on validation pairs and judged on test pairs. Chapters 3 and 4 and Lab 3 read the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pandas as pd
import torch
from tqdm import tqdm

from tools.sweeps.record import made, write
from tools.translator.evaluate import bleu, nll
from utils.architectures import KINDS
from utils.corpora import translation_pairs
from utils.encoder_decoder import pair_batches, text_losses
from utils.heads import Head, ablated, heads_of
from utils.importance import importance
from utils.models import DATA, load, sha256
from utils.pruning import order_by, random_order
from utils.pruning.curves import TENTHS
from utils.translator import translate

RANKED, JUDGED, SEEDS = 300, 400, 3  # validation pairs, test pairs, random orders
SCORES = ("absolute", "signed")


class Judge:
    """Loss and BLEU of a translator on the first test pairs."""

    def __init__(self, tokenizer, split: str = "test", pairs: int | None = JUDGED):
        self.tokenizer = tokenizer
        self.sources, self.references = map(list, zip(*translation_pairs(split)[:pairs], strict=True))
        self.ids = tokenizer(self.sources)["input_ids"], tokenizer(self.references)["input_ids"]

    def nll(self, model) -> float:
        """Nats a token of the reference."""
        return round(nll(model, *self.ids), 4)

    def bleu(self, model) -> float:
        """sacreBLEU of the greedy translations."""
        return round(bleu(translate(model, self.tokenizer, self.sources), self.references, "de"), 2)

    def both(self, model) -> dict[str, float]:
        return {"nll": self.nll(model), "bleu": self.bleu(model)}


def orders(model, frame: pd.DataFrame, kind: str | None) -> Iterator[tuple[str, int | None, list[Head]]]:
    """(name, seed, heads of a kind, or of all, from the least important on)."""
    for score in SCORES:
        yield score, None, order_by(frame, score, kind=kind)
    for seed in range(SEEDS):
        yield "random", seed, random_order(model, seed, kind=kind)


def curves(model, judge: Judge, frame: pd.DataFrame) -> Iterator[dict]:
    """Loss and BLEU with a growing share of one kind's heads (or of all heads) taken out, in every order."""
    for kind in tqdm([*KINDS, None], desc="curves"):
        for name, seed, order in orders(model, frame, kind):
            for fraction in TENTHS:
                out = order[: round(fraction * len(order))]
                with ablated(model, out) if out else nullcontext():
                    found = judge.both(model)
                yield {
                    "kind": kind or "all",
                    "order": name,
                    "seed": seed,
                    "fraction": fraction,
                    "kept": len(order) - len(out),
                } | found


def single(model, judge: Judge) -> Iterator[dict]:
    """Every head taken out alone: the change of loss and BLEU."""
    full = judge.both(model)
    for head in tqdm(heads_of(model), desc="one head out"):
        with ablated(model, [head]):
            found = judge.both(model)
        changes = {name: round(found[name] - full[name], 4) for name in full}
        yield {"kind": head.kind, "layer": head.layer, "head": head.head} | changes


def one_left(model, judge: Judge, chooser: Judge) -> Iterator[dict]:
    """Of each layer all heads taken out but the one that leaves the lowest loss on validation pairs."""
    heads = heads_of(model)
    for kind, layer in tqdm(dict.fromkeys((head.kind, head.layer) for head in heads), desc="one head left"):
        mates = [head for head in heads if (head.kind, head.layer) == (kind, layer)]
        losses = {}
        for head in mates:
            with ablated(model, [mate for mate in mates if mate != head]):
                losses[head] = chooser.nll(model)
        best = min(losses, key=losses.get)
        with ablated(model, [mate for mate in mates if mate != best]):
            yield {"kind": kind, "layer": layer, "head": best.head} | judge.both(model)


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load("translator")
    judge, chooser = Judge(tokenizer), Judge(tokenizer, "validation", RANKED)
    frame = importance(model, pair_batches(tokenizer, translation_pairs("validation")[:RANKED]), text_losses).round(6)
    facts = {"model": sha256(DATA / "translator" / "model.safetensors"), "ranked on": f"validation, first {RANKED}"}
    write(
        "translator_heads",
        {
            "made": made("translator_heads", **facts, **{"judged on": f"test, first {JUDGED}", "seeds": SEEDS}),
            "full": judge.both(model),
            "importance": frame.to_dict("records"),
            "one head out": list(single(model, judge)),
            "one head left": list(one_left(model, judge, chooser)),
            "curves": list(curves(model, judge, frame)),
        },
    )


if __name__ == "__main__":
    main()
