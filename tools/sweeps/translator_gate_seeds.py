"""Do the gates close the same heads again? One penalty, several seeds, and once with nothing tuned beside the gates.

python -m tools.sweeps.translator_gate_seeds   about 6 minutes on one core; go on after a kill by running it again

Writes data/sweeps/translator_gate_seeds.json: for each run the heads whose gates stay open, the way there, and the
scores. Seed 0 is the run of ``translator_gates``, whose gates settle within as many steps. Chapter 3 reads the result.
"""

from __future__ import annotations

import copy

import torch
from torch import nn
from tqdm import tqdm

from tools.sweeps.record import earlier, made, write
from tools.sweeps.translator_gates import FROZEN, RATE, TRAINED
from tools.sweeps.translator_heads import Judge
from utils.corpora import translation_pairs
from utils.encoder_decoder import pair_batches, text_losses
from utils.heads import gated
from utils.models import DATA, load, sha256
from utils.pruning import fit_gates

PENALTY, STEPS, NAME = 0.05, 250, "translator_gate_seeds"
RUNS = ((1, True), (2, True), (0, False))  # (seed, whether the encoder is tuned beside the gates)


def closed_again(model: nn.Module, data: list[dict], judge: Judge, seed: int, tuned: bool) -> dict:
    """One run on a copy of the model: what stays open, and what that costs."""
    changed = copy.deepcopy(model)
    options = {"frozen": FROZEN if tuned else "all", "dropout": tuned, "rate": RATE, "seed": seed, "progress": True}
    gates, steps = fit_gates(
        changed, data, text_losses, penalty=PENALTY, steps=STEPS, kinds="encoder", gate_rate=0.1, **options
    )
    with torch.no_grad(), gated(changed, gates()):
        found = judge.both(changed)
    return {
        "seed": seed,
        "tuned": tuned,
        "kept": len(gates.open_heads()),
        "heads": [[head.layer, head.head] for head in gates.open_heads()],
        **found,
        "open at step": dict(zip(steps["step"].tolist()[::20], steps["open"].tolist()[::20], strict=True)),
    }


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load("translator")
    judge, data = Judge(tokenizer, pairs=None), pair_batches(tokenizer, translation_pairs("train")[:TRAINED], size=40)
    weights = sha256(DATA / "translator" / "model.safetensors")
    facts = {"model": weights, "penalty": PENALTY, "steps": STEPS, "training pairs": TRAINED, "rate": RATE}
    content = earlier(NAME, weights) or {"made": {}, "runs": []}
    content["made"] = made(NAME, **facts, **{"judged on": "test, strict"})
    done = [(row["seed"], row["tuned"]) for row in content["runs"]]
    for seed, tuned in tqdm([run for run in RUNS if run not in done], desc="runs"):
        content["runs"].append(closed_again(model, data, judge, seed, tuned))
        write(NAME, content)


if __name__ == "__main__":
    main()
