"""Chapter 10: tiny language models with six kinds of positions, trained on 64 characters and read up to 512.

python -m tools.sweeps.length_extrapolation   about 5 minutes of processor time on one core
Writes data/sweeps/length_extrapolation.json after each run and goes on where it stopped. Three seeds a kind; held-out
passages, every other window of 512; losses are means over blocks of 16 positions, in nats a character. The
notebook trains two models again with fewer steps.
"""

from __future__ import annotations

import time

import torch

from tools.sweeps.record import made, write
from utils import length_models as lm
from utils.sweeps import FOLDER, sweep
from utils.training import fit

NAME = "length_extrapolation"
TRAINED, READ, BLOCK = 64, 512, 16
LONGER = 256  # training texts of a comparison: is there anything to gain from more context?
SEEDS = (0, 1, 2)
STEPS, RATE, WARMUP, BATCH = 600, 3e-3, 50, 16


def losses(model: lm.TinyLanguageModel, ids: torch.Tensor) -> dict[str, list[float]]:
    """The three readings of the same characters, by blocks of 16 positions."""
    readings = {
        "whole": lm.position_losses(model, ids),
        "window": lm.position_losses(model, ids, TRAINED),
        "cut": lm.cut_losses(model, ids, TRAINED),
    }
    return {name: [round(float(v), 4) for v in lm.by_blocks(found, BLOCK)] for name, found in readings.items()}


def run(positions: str, seed: int, train: torch.Tensor, ids: torch.Tensor, trained: int = TRAINED) -> dict:
    """One model from its seed to its row; ``trained``: characters of a training text, as many texts as fill a batch."""
    began = time.process_time()
    model = lm.TinyLanguageModel(positions, seed=seed)
    drawer = lm.batches(train, trained, BATCH * TRAINED // trained)
    history = fit(model, drawer, lm.mean_loss, steps=STEPS, learning_rate=RATE, warmup=WARMUP, seed=seed)
    row = {"positions": positions, "seed": seed, "training": round(history.final_loss(), 4)} | losses(model, ids)
    print(row, f"{time.process_time() - began:.0f} s", flush=True)
    return row


def main() -> None:
    torch.set_num_threads(1)
    train, test = lm.corpus()
    ids = lm.windows(test, READ, 2 * READ)
    facts = {
        "seeds": SEEDS,
        "trained": TRAINED,
        "longer": LONGER,
        "read": READ,
        "block": BLOCK,
        "steps": STEPS,
        "rate": RATE,
    }
    facts |= {"warmup": WARMUP, "batch": BATCH, "windows": len(ids), "characters": [len(train), len(test)]}
    facts |= {"parameters": sum(p.numel() for p in lm.TinyLanguageModel("none").parameters())}
    earlier = sweep(NAME) if (FOLDER / f"{NAME}.json").is_file() else {}
    runs, longer = earlier.get("runs", []), earlier.get("longer", [])
    wanted = [(runs, positions, seed, TRAINED) for seed in SEEDS for positions in lm.POSITIONS]
    wanted += [(longer, "relative", seed, LONGER) for seed in SEEDS]
    for rows, positions, seed, trained in wanted:
        if (positions, seed) not in {(row["positions"], row["seed"]) for row in rows}:
            rows.append(run(positions, seed, train, ids, trained))
            write(NAME, {"made": made(NAME, **facts), "runs": runs, "longer": longer})


if __name__ == "__main__":
    main()
